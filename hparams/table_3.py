"""Table 3: the base model's variations, rows (A) to (E), and attention over parameters.

Each row is a set. Perplexity (per word piece) and BLEU are the paper's on newstest2013 after
100,000 steps, without averaging; `t2t-eval` measures both. In the commands, `data` is the output of
t2t-datagen.
"""

import dataclasses
from typing import Any, NamedTuple

from t2t_keras.hparams.transformer import transformer_base
from t2t_keras.hyperparameters import HParams
from t2t_keras.registry import register_hparams


class Variation(NamedTuple):
    """A row of Table 3; None = as base."""

    row: str  # The paper's name for the row or its group.
    hparams_set: str
    perplexity: float
    bleu: float
    million_weights: int | None  # Weights, as rounded by the paper.
    steps: int | None = None


def _register(
    row: str,
    name: str,
    perplexity: float,
    bleu: float,
    million_weights: int | None,
    summary: str,
    **changes: Any,
) -> Variation:
    """Registers a set that changes the base model, with its figures and command as docstring."""

    def make_hparams() -> HParams:
        return dataclasses.replace(transformer_base(), **changes)

    origin = f"Table 3, row ({row})" if len(row) == 1 else f"{row} of the paper's source"
    make_hparams.__name__ = f"transformer_{name}"
    make_hparams.__doc__ = (
        f"{summary}: {origin}, perplexity {perplexity:.2f}, {bleu} BLEU.\n\n"
        f"    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/{name} \\\n"
        f"        --hparams_set=transformer_{name}\n"
    )
    register_hparams(make_hparams)
    return Variation(row, make_hparams.__name__, perplexity, bleu, million_weights)


# The sets of the first and the last row are in hparams/transformer.py.
TABLE_3 = (
    Variation("base", "transformer_base", 4.92, 25.8, 65, steps=100_000),
    _register("A", "h1", 5.29, 24.9, None, "One head of width 512", num_heads=1),
    _register("A", "h4", 5.00, 25.5, None, "4 heads of width 128", num_heads=4),
    _register("A", "h16", 4.91, 25.8, None, "16 heads of width 32", num_heads=16),
    _register("A", "h32", 5.01, 25.4, None, "32 heads of width 16", num_heads=32),
    _register("B", "k128", 5.16, 25.1, 58, "128 key channels over all heads, d_k 16", d_k=16),
    _register("B", "k256", 5.01, 25.4, 60, "256 key channels over all heads, d_k 32", d_k=32),
    _register("C", "l2", 6.11, 23.7, 36, "2 layers", num_layers=2),
    _register("C", "l4", 5.19, 25.3, 50, "4 layers", num_layers=4),
    _register("C", "l8", 4.88, 25.5, 80, "8 layers", num_layers=8),
    _register("C", "hs256", 5.75, 24.5, 28, "d_model 256, so d_k and d_v 32", d_model=256),
    _register("C", "hs1024", 4.66, 26.0, 168, "d_model 1024, so d_k and d_v 128", d_model=1024),
    _register("C", "ff1024", 5.12, 25.4, 53, "d_ff 1024", d_ff=1024),
    _register("C", "ff4096", 4.75, 26.2, 90, "d_ff 4096", d_ff=4096),
    _register("D", "dr0", 5.77, 24.6, None, "No dropout", dropout=0.0),
    _register("D", "dr2", 4.95, 25.5, None, "P_drop 0.2", dropout=0.2),
    _register("D", "ls0", 4.67, 25.3, None, "No label smoothing", label_smoothing=0.0),
    _register("D", "ls2", 5.47, 25.7, None, "Label smoothing 0.2", label_smoothing=0.2),
    # max_positions equals max_length: no training sentence has more tokens.
    _register("E", "learned_positions", 4.92, 25.7, None, "Learned positions", positions="learned"),
    Variation("big", "transformer_big", 4.33, 26.4, 213, steps=300_000),
)

# "Two feed-forward layers = attention over parameters", with d_pk = d_pv = 64. A sub-layer has
# 2,097,152 weights, like a feed-forward network without biases; a step takes about 30 % longer.
# In the paper's source, AOP2 has 16 heads in the table, 8 in the text; 16 give these weights.
PARAMETER_ATTENTION = tuple(
    _register(
        row,
        name,
        perplexity,
        bleu,
        65,
        f"Attention over parameters, h_p {heads}, n_p {pairs}",
        feed_forward="parameter_attention",
        parameter_attention_heads=heads,
        d_ff=pairs,
    )
    for row, name, perplexity, bleu, heads, pairs in (
        ("AOP1", "parameter_attention_a", 4.92, 25.5, 8, 1536),
        ("AOP2", "parameter_attention_b", 4.86, 25.9, 16, 512),
    )
)
