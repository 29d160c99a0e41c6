"""What CTranslate2 computes with an export is what the model computes."""

import dataclasses
import sys

import ctranslate2
import keras
import numpy as np
import pytest
from refusals import refused

from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import pad_rows
from t2t_keras.decoding.translator import Translator
from t2t_keras.environment import usable_cores
from t2t_keras.hyperparameters import ModelConfig
from t2t_keras.interop.engines.ctranslate2_export import CTranslate2Export
from t2t_keras.interop.exporters.ctranslate2 import unique_pieces
from t2t_keras.interop.tokenizers import SubwordTokenizer
from t2t_keras.layers.feed_forward import ACTIVATIONS
from t2t_keras.models.transformer import Transformer
from t2t_keras.serving.formats import write_format
from t2t_keras.text.tokenizer import SentencePieceTokenizer

WORDS = "the a small big dog cat man woman sees sleeps eats house tree red green"
LINES = ["the small dog sleeps", "a man", "the woman sees the small dog and the red tree", "x" * 9]
SHAPE = dict(num_layers=2, d_model=16, d_ff=24, num_heads=2)
LIMITS = dict(extra_length=4, max_input_length=60)


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train([WORDS] * 20, vocab_size=310)


@pytest.fixture(scope="module")
def make(tokenizer, randomised):
    """make(tokenizer=, settings=, **options): a translator with random weights."""

    def make(tokenizer=tokenizer, settings=None, **options):
        sizes = dict(source_vocab_size=tokenizer.source_vocab_size)
        model = Transformer(tokenizer.vocab_size, **sizes, **(SHAPE | options))
        model.build()
        problem = make_problem("translate_ende_toy")
        config = settings or DecodeConfig(**LIMITS)
        return Translator(randomised(model), tokenizer, config, problem=problem)

    return make


def test_names(tokenizer):
    """No two ids have the same."""
    lines = [
        "'<pad>_'",
        "'<EOS>_'",
        "'the_'",
        "'the'",
        "''",
        *(f"'{c}'" for c in "\\_u;0123456789"),
    ]
    names = unique_pieces(SubwordTokenizer("\n".join(lines).encode()))
    assert names[2:5] == ["the", "the<3>", "<4>"]
    assert unique_pieces(tokenizer) == list(tokenizer.vocabulary())


OPTIONS = [
    {},
    dict(pre_norm=True, attention_bias=True, softmax_bias=True, activation="gelu"),
    dict(positions="learned", max_positions=7, first_position=2, embedding_norm=True)
    | dict(activation="sigmoid"),
    dict(positions="rotary", start_id=3, num_encoder_layers=1, num_decoder_layers=3),
    dict(positions="none", scale_embedding=False, norm_epsilon=1e-2, activation="silu"),
    dict(source_bias=True, sinusoids="tensor2tensor", share_embeddings="input"),
    dict(source_end=False, activation="gelu_tanh", first_position=1),
    dict(share_embeddings="none", sinusoids="concatenated", start_id=1, softmax_bias=True),
    dict(share_embeddings="target", source_bias=True, positions="none", activation="tanh"),
]
REFUSED = {"feed_forward", "self_attention_radius", "d_k", "d_v"}


def test_no_setting_is_forgotten():
    """One that is new must be exported, and tried here, or be refused."""
    fields = {field.name for field in dataclasses.fields(ModelConfig)}
    of_training = {"attention_dropout", "dropout", "recompute", "relu_dropout"}
    of_what_is_refused = {"parameter_attention_heads"}
    tested = REFUSED.union(SHAPE, *OPTIONS, of_training, of_what_is_refused)
    assert fields == tested


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_outputs_are_the_model_s(make, tokenizer, tmp_path, options):
    if options.get("share_embeddings") in ("none", "target"):
        source = SentencePieceTokenizer.train([WORDS] * 20, vocab_size=300)
        tokenizer = tokenizer.with_source(source)
    translator = make(tokenizer, **options)
    write_format("ctranslate2", translator, tmp_path / "out", "float32")
    export = CTranslate2Export(tmp_path / "out")
    assert export.positions == (0 if options.get("positions") == "rotary" else 64)
    sources = tokenizer.source.encode(LINES)
    rows = []  # (source, ids with the end, most of them, config, score)
    for config in (DecodeConfig(beam_size=1), DecodeConfig(beam_size=3, return_beams=True)):
        config = dataclasses.replace(config, **LIMITS)
        outputs = export.load(config).outputs(sources, [[]] * len(LINES), range(9))
        for source, output in zip(sources, outputs, strict=True):
            assert len(output) == config.beam_size
            most = config.max_output_length(len(source))
            rows += [
                (source, [*hypothesis.ids, 1], most, config, hypothesis.score)
                for hypothesis in output
            ]
    pairs = {
        "source": pad_rows([row[0] for row in rows]),
        "target": pad_rows([row[1] for row in rows]),
    }
    logits = keras.ops.convert_to_numpy(translator.models[0](pairs))
    log_probs = logits - np.logaddexp.reduce(logits, axis=2, keepdims=True)
    for (_, ids, most, config, score), log_prob in zip(rows, log_probs, strict=True):
        assert len(ids) <= most
        total = log_prob[np.arange(len(ids)), ids].sum()
        assert score == pytest.approx(total / ((5 + len(ids)) / 6) ** config.alpha, abs=1e-4)
        if config.beam_size == 1:
            likeliest = 1 + log_prob[: most - 1, 1:].argmax(axis=1)  # No padding.
            assert likeliest[: len(ids)].tolist() == ids[: most - 1]


def test_a_source_with_pieces_of_its_own(make, tokenizer, tmp_path):
    """Given pairs of all target words: each side's pieces are named by its own vocabulary."""
    source = SentencePieceTokenizer.train(["der kleine Hund schläft im Haus"] * 20, vocab_size=290)
    translator = make(tokenizer.with_source(source), share_embeddings="none")
    write_format("ctranslate2", translator, tmp_path / "out", "float32")
    actual = Translator.from_run(tmp_path / "out", engine="ctranslate2")
    pairs = ["der kleine Hund", "im Haus"], [WORDS[:30], WORDS[30:]]
    for score, expected in zip(actual.score(*pairs), translator.score(*pairs), strict=True):
        np.testing.assert_allclose(score.token_log_probs, expected.token_log_probs, atol=1e-4)


def test_lengths_of_its_tables(make, tmp_path):
    """A longest source, and the longest output for it, have positions; longer ones are refused."""
    settings = DecodeConfig(beam_size=1, max_input_length=30, extra_length=9, min_length=39)
    translator = make(settings=settings)
    write_format("ctranslate2", translator, tmp_path / "out", "float32")
    actual = Translator.from_run(tmp_path / "out", engine="ctranslate2")
    assert actual.config == settings
    [longest] = actual.translate(["the dog " * 30])
    assert longest.text == translator.translate(["the dog " * 30])[0].text
    assert longest.cut > 0
    with refused("too_long", tmp_path / "out", "39", "40"):
        Translator.from_run(tmp_path / "out", None, "extra_length=10", engine="ctranslate2")
    # Of an output that needs more pieces than it was made with, only these can be aligned.
    longer = ["the dog"], [dataclasses.replace(longest, parts=("cat man dog " * 20,))]
    [aligned], [expected] = actual.align(*longer), translator.align(*longer)
    assert aligned == expected[: len(aligned)]
    assert 1 < len(aligned) < len(expected)
    pair = [np.int32([3, 1])], [np.int32([3] * 40)]
    [(_, attention)] = actual.engine.cross_attention(*pair)
    assert attention.shape == (38, 1)  # Without ends.
    with refused("too_long", "39", "40"):
        list(actual.engine.log_probs([np.int32([3, 1])], [np.int32([3] * 40)]))


@pytest.fixture(scope="module")
def wide(make):
    translator = make(d_model=64, d_ff=64)
    return translator, [score.log_prob for score in translator.score(LINES, LINES[::-1])]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "int8_float32", "int8_bfloat16"])
def test_smaller_weights(wide, tmp_path, monkeypatch, dtype):
    translator, expected = wide
    folder = write_format("ctranslate2", translator, tmp_path / dtype, dtype)
    in_float32 = 4 * sum(weight.size for weight in translator.models[0].get_weights())
    assert (folder / "model.bin").stat().st_size < 0.6 * in_float32
    computed, kind = [], ctranslate2.Translator
    monkeypatch.setattr(
        ctranslate2,
        "Translator",
        lambda *arguments, **options: computed.append(options) or kind(*arguments, **options),
    )
    settings = "batches_at_once=2"
    actual = Translator.from_run(tmp_path / dtype, None, settings, engine="ctranslate2")
    assert actual.engine.name == f"ctranslate2 {dtype}"
    threads = dict(inter_threads=2, intra_threads=max(usable_cores() // 2, 1))
    kinds = "int8" if "int8" in dtype else "float32"  # Others would be rounded in each product.
    assert computed == [dict(compute_type=kinds) | threads]
    # Weights are rounded: the same pairs are about as likely.
    scores = [score.log_prob for score in actual.score(LINES, LINES[::-1])]
    assert scores == pytest.approx(expected, rel=0.1)


class Other(Transformer):
    pass


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (dict(feed_forward="parameter_attention"), ["feed_forward=parameter_attention"]),
        (dict(self_attention_radius=2, d_k=4), ["self_attention_radius=2", "d_k=4"]),
        (dict(d_v=4), ["d_v=4"]),
        (dict(source_bias=True, positions="rotary"), ["source_bias=True"]),
        (dict(activation="mine"), ["activation=mine"]),
    ],
)
def test_what_it_cannot_represent(make, tmp_path, own_registry, options, named):
    ACTIVATIONS.add(lambda x: x, "mine")
    with refused("not_supported", *named):
        write_format("ctranslate2", make(**options), tmp_path / "out", "float32")
    assert not list(tmp_path.iterdir())


def test_what_else_is_refused(make, tokenizer, tmp_path, monkeypatch):
    model = make().models[0]
    other = Other(tokenizer.vocab_size, **SHAPE)
    for name, *translator in (
        ("2", [model, model], tokenizer),
        ("Other", other, tokenizer),
        ("weights_dtype", model, tokenizer, DecodeConfig(weights_dtype="bfloat16")),
        ("forbidden", model, tokenizer, None, ["cat"]),
        ("parallel_text", model, tokenizer),
    ):
        with refused("unregistered_problem" if name == "parallel_text" else "not_supported", name):
            write_format("ctranslate2", Translator(*translator), tmp_path / "out", "int8")
    with refused("bad_value", "--dtype", "float32, bfloat16", "int4"):
        write_format("ctranslate2", make(), tmp_path / "out", "int4")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.delitem(sys.modules, "t2t_keras.interop.exporters.ctranslate2")
    with refused("missing_package", "'.[ctranslate2]'"):
        write_format("ctranslate2", make(), tmp_path / "out", "int8")
