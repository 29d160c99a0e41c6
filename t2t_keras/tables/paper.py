"""The figures of "Attention Is All You Need" that ours stand beside; None = it gives none."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class TranslationModel:
    """A row of Table 2: BLEU on newstest2014, and training cost in floating point operations.

    Attributes:
      name: the model.
      bleu_ende: English to German.
      bleu_enfr: English to French.
      flops_ende: what training the English-German model cost.
      flops_enfr: what training the English-French model cost.
      hparams_set: our hyperparameter set of this row, or None.
      averaged: how many checkpoints the Transformer is the mean of (section 6.1).
    """

    name: str
    bleu_ende: float | None = None
    bleu_enfr: float | None = None
    flops_ende: float | None = None
    flops_enfr: float | None = None
    hparams_set: str | None = None
    averaged: int | None = None


@dataclasses.dataclass(frozen=True)
class Variation:
    """A row of Table 3: newstest2013, English to German, without averaging of checkpoints.

    Attributes:
      hparams_set: our hyperparameter set.
      row: the paper's name of the row or of its group.
      perplexity: a word piece.
      bleu: of the dev set.
      steps: of training; None = as base.
      millions: of weights, as rounded by the paper; None = as base.
    """

    hparams_set: str
    row: str
    perplexity: float
    bleu: float
    steps: int | None = None
    millions: int | None = None


@dataclasses.dataclass(frozen=True)
class Parser:
    """A row of Table 4: F1 on section 23 of the Wall Street Journal.

    Attributes:
      name: the parser.
      training: what it was trained on.
      f1: its score.
      hparams_set: our hyperparameter set of this row, or None.
      vocab_size: of the Transformer's vocabulary (section 6.3).
      problems: names of our problem of this row.
    """

    name: str
    training: str
    f1: float
    hparams_set: str | None = None
    vocab_size: int | None = None
    problems: tuple[str, ...] = ()


# Section 6.2, footnote: what a GPU sustains in single precision, TFLOP/s.
SUSTAINED_TFLOPS = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}

# Section 5.2: by set, hours of training on 8 P100, and seconds a step.
GPUS = 8
HARDWARE = "P100"
HOURS = {"transformer_base": 12.0, "transformer_big": 3.5 * 24}
STEP_SECONDS = {"transformer_base": 0.4, "transformer_big": 1.0}

# Section 6.1: dev is newstest2013, test newstest2014, the latter in its full edition.
NEWSTEST_LINES = {"dev": 3000, "test": 3003}

TABLE_2 = (
    TranslationModel("ByteNet", 23.75),
    TranslationModel("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    TranslationModel("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    TranslationModel("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    TranslationModel("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    TranslationModel("Deep-Att + PosUnk ensemble", None, 40.4, None, 8.0e20),
    TranslationModel("GNMT + RL ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    TranslationModel("ConvS2S ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    TranslationModel("Transformer base", 27.3, 38.1, 3.3e18, 3.3e18, "transformer_base", 5),
    TranslationModel("Transformer big", 28.4, 41.8, 2.3e19, 2.3e19, "transformer_big", 20),
)

TABLE_3 = (
    Variation("transformer_base", "base", 4.92, 25.8, 100_000, 65),
    Variation("transformer_h1", "A", 5.29, 24.9),
    Variation("transformer_h4", "A", 5.00, 25.5),
    Variation("transformer_h16", "A", 4.91, 25.8),
    Variation("transformer_h32", "A", 5.01, 25.4),
    Variation("transformer_k128", "B", 5.16, 25.1, millions=58),
    Variation("transformer_k256", "B", 5.01, 25.4, millions=60),
    Variation("transformer_l2", "C", 6.11, 23.7, millions=36),
    Variation("transformer_l4", "C", 5.19, 25.3, millions=50),
    Variation("transformer_l8", "C", 4.88, 25.5, millions=80),
    Variation("transformer_hs256", "C", 5.75, 24.5, millions=28),
    Variation("transformer_hs1024", "C", 4.66, 26.0, millions=168),
    Variation("transformer_ff1024", "C", 5.12, 25.4, millions=53),
    Variation("transformer_ff4096", "C", 4.75, 26.2, millions=90),
    Variation("transformer_dr0", "D", 5.77, 24.6),
    Variation("transformer_dr2", "D", 4.95, 25.5),
    Variation("transformer_ls0", "D", 4.67, 25.3),
    Variation("transformer_ls2", "D", 5.47, 25.7),
    Variation("transformer_learned_positions", "E", 4.92, 25.7),
    Variation("transformer_big", "big", 4.33, 26.4, 300_000, 213),
)

# "Two feed-forward layers = attention over parameters", in the paper's source only.
PARAMETER_ATTENTION = (
    Variation("transformer_parameter_attention_a", "AOP1", 4.92, 25.5, millions=65),
    Variation("transformer_parameter_attention_b", "AOP2", 4.86, 25.9, millions=65),
)

_WSJ, _SEMI = "WSJ only", "semi-supervised"
TABLE_4 = (
    Parser("Vinyals & Kaiser et al. (2014)", _WSJ, 88.3),
    Parser("Petrov et al. (2006)", _WSJ, 90.4),
    Parser("Zhu et al. (2013)", _WSJ, 90.4),
    Parser("Dyer et al. (2016)", _WSJ, 91.7),
    Parser(
        "Transformer (4 layers)",
        _WSJ,
        91.3,
        "transformer_parsing_base",
        16_000,
        ("parsing_wsj", "wsj_parsing"),
    ),
    Parser("Zhu et al. (2013)", _SEMI, 91.3),
    Parser("Huang & Harper (2009)", _SEMI, 91.3),
    Parser("McClosky et al. (2006)", _SEMI, 92.1),
    Parser("Vinyals & Kaiser et al. (2014)", _SEMI, 92.1),
    Parser(
        "Transformer (4 layers)",
        _SEMI,
        92.7,
        "transformer_parsing_big",
        32_000,
        ("parsing_wsj_semi",),
    ),
    Parser("Luong et al. (2015)", "multi-task", 93.0),
    Parser("Dyer et al. (2016)", "generative", 93.3),
)
