"""What each signature of an export computes, and the weights it stores."""

import dataclasses
import sys
import types
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Hypothesis
from t2t_keras.decoding.translator import Translator
from t2t_keras.models.transformer import Transformer
from t2t_keras.serving.signatures import BLANK, StoredWeight, TranslationModule, export_settings
from t2t_keras.text.files import is_blank
from t2t_keras.text.tokenizer import SentencePieceTokenizer

TEXTS = ["The small dog sleeps.", "a", ""]
TRANSLATIONS = ["Der Hund.", "Haus, während die Katze", "x"]


@pytest.fixture
def signature(loaded):
    """signature(name, **inputs): the outputs, as NumPy's arrays."""

    def signature(name, **inputs):
        inputs = {key: tf.constant(value) for key, value in inputs.items()}
        return {key: tensor.numpy() for key, tensor in loaded.signatures[name](**inputs).items()}

    return signature


def changed(translator, **settings):
    config = dataclasses.replace(translator.config, **settings)
    return Translator(translator.models, translator.tokenizer, config)


def test_n_best(signature, translator, lines):
    actual = signature("nbest", text=lines, alpha=2.0)
    blank = [Hypothesis("", 0.0)] * 3
    translations = changed(translator, return_beams=True, alpha=2.0).translate(lines)
    hypotheses = [translation.hypotheses or blank for translation in translations]
    texts = [[text.decode() for text in row] for row in actual["translations"]]
    assert texts == [[translation.text for translation in row] for row in hypotheses]
    scores = [[translation.score for translation in row] for row in hypotheses]
    np.testing.assert_allclose(actual["scores"], scores, atol=1e-5)


@pytest.mark.parametrize("tokens", [23, 24, 25, 26])
def test_a_text_that_is_cut_keeps_its_end(signature, translator, tokens):
    encode = translator.tokenizer.encode
    texts = ("Haus " * 6 + "x" * more for more in range(30))
    text = next(text for text in texts if len(encode([text])[0]) == tokens)
    actual = signature("serving_default", text=[text])
    [expected] = translator.translate([text])
    assert expected.cut == max(0, tokens - 24)
    assert actual["cut"].tolist() == [expected.cut]
    assert actual["translation"][0].decode() == expected.text
    np.testing.assert_allclose(actual["score"], [expected.score], rtol=1e-5)


def test_score(signature, translator):
    actual = signature("score", text=TEXTS, translation=TRANSLATIONS)
    scores = translator.score(TEXTS, TRANSLATIONS)
    log_probs = [score.log_prob for score in scores]
    np.testing.assert_allclose(actual["log_probability"], log_probs, atol=1e-4)
    assert actual["tokens"].tolist() == [len(score.token_log_probs) for score in scores]


def test_tokens(signature, translator, lines):
    numbers = [0, 3, 5, 7]
    sources = translator.prepare([lines[number] for number in numbers])
    ids = [source.parts[0].ids for source in sources]
    padded = tf.ragged.constant([row.tolist() for row in ids], tf.int32).to_tensor()
    actual = signature("tokens", ids=padded, alpha=0.0)
    best = translator.tokenizer.decode(actual["ids"][:, 0])
    expected = changed(translator, alpha=0.0).translate([lines[number] for number in numbers])
    assert best == [translation.text for translation in expected]
    scores = [translation.score for translation in expected]
    np.testing.assert_allclose(actual["scores"][:, 0], scores, rtol=1e-5)


def test_the_largest_inputs(signature):
    assert len(signature("tokens", ids=[[499] * 23 + [1]], alpha=0.6)["ids"]) == 1


def assert_same_weights(attention, row, expected, tolerance):
    for name in ("cross", "encoder", "decoder"):
        weights = getattr(expected, name)
        queries, keys = weights.shape[2:]
        output = attention["weights" if name == "cross" else f"{name}_weights"]
        assert output.dtype == np.float32
        same = output[row, :, :, :queries, :keys]
        np.testing.assert_allclose(same, weights, atol=tolerance)


def test_attention(signature, translator):
    actual = signature("attention", text=TEXTS, translation=TRANSLATIONS)
    for row, attention in enumerate(translator.attention(TEXTS, TRANSLATIONS)):
        assert_same_weights(actual, row, attention, 1e-5)
        for side, pieces in (("text", attention.source), ("translation", attention.target)):
            shown = [piece.decode() for piece in actual[f"{side}_pieces"][row]]
            assert shown == [*pieces, *[""] * (len(shown) - len(pieces))]


def test_attention_is_float32_whatever_the_run_computes_in(small_translator):
    half = small_translator(dtype="mixed_bfloat16")
    pair = TEXTS[:1], TRANSLATIONS[:1]
    actual = TranslationModule(half).signatures()["attention"](*map(tf.constant, pair))
    [attention] = half.attention(*pair)
    half_outputs = {name: tensor.numpy() for name, tensor in actual.items()}
    assert_same_weights(half_outputs, 0, attention, 0.02)


def test_a_source_with_its_own_vocabulary(lines, randomised):
    text = [line for line in lines if line.strip()] * 20
    target = SentencePieceTokenizer.train(text, vocab_size=300)
    tokenizer = target.with_source(SentencePieceTokenizer.train(text, 296, "unigram"))
    model = Transformer(
        300,
        source_vocab_size=296,
        share_embeddings="none",
        **dict(num_layers=1, d_model=16, d_ff=16, num_heads=2, dropout=0.0, start_id=1),
        **dict(attention_bias=True, softmax_bias=True, embedding_norm=True, source_bias=True),
    )
    model.build()
    translator = Translator(
        randomised(model), tokenizer, DecodeConfig(beam_size=2, max_input_length=24)
    )
    module = TranslationModule(translator)
    actual = module.signatures()["serving_default"](tf.constant(lines))
    translations = translator.translate(lines)
    assert [text.decode() for text in actual["translation"].numpy()] == [
        t.text for t in translations
    ]
    scores = [translation.score for translation in translations]
    np.testing.assert_allclose(actual["score"].numpy(), scores, rtol=1e-5)
    for unknown in (296, 300):
        with pytest.raises(tf.errors.InvalidArgumentError, match="0 to 295"):
            module.tokens(tf.constant([[unknown, 1]]), tf.constant(0.6))
    pair = tf.constant(TEXTS), tf.constant(TRANSLATIONS)
    log_probability = module.score(*pair)["log_probability"]
    log_probs = [pair_score.log_prob for pair_score in translator.score(TEXTS, TRANSLATIONS)]
    np.testing.assert_allclose(log_probability.numpy(), log_probs, atol=1e-4)
    pieces = module.attention(*pair)["text_pieces"]
    for row, attention in zip(
        pieces.numpy(), translator.attention(TEXTS, TRANSLATIONS), strict=True
    ):
        assert [piece.decode() for piece in row if piece] == list(attention.source)


def test_an_ensemble_has_no_attention(translator):
    both = Translator([*translator.models] * 2, translator.tokenizer, translator.config)
    names = {"serving_default", "nbest", "score", "tokens"}
    assert set(TranslationModule(both).signatures()) == names


def test_alpha_has_a_default(served):
    """TensorFlow Serving fills it in over gRPC, not over REST."""
    signatures = served.graph.signature_def.items()
    defaults = {name: spec.defaults for name, spec in signatures if spec.defaults}
    assert set(defaults) == {"nbest", "tokens"}
    for default in defaults.values():
        assert tf.make_ndarray(default["alpha"]) == np.float32(0.6)


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("serving_default", {"text": [b"good", b"\xff", b"a\xc3"]}, r"\[text .*UTF-8 .*1 2\]"),
        ("nbest", {"text": [b"\xff"], "alpha": 0.6}, r"\[text .*UTF-8"),
        ("score", {"text": ["a"], "translation": [b"\xff"]}, r"\[translation .*UTF-8"),
        ("score", {"text": ["a"], "translation": ["a", "b"]}, r"translation .*1 2\]"),
        (
            "attention",
            {"text": ["a", "b"], "translation": ["a"]},
            r"translation .*2 1\]",
        ),
        ("nbest", {"text": ["a"], "alpha": -1.0}, r"alpha .*0.*-1"),
        ("nbest", {"text": ["a"], "alpha": float("nan")}, "alpha .*0"),
        ("tokens", {"ids": [[4, 1]], "alpha": -1.0}, r"alpha .*0.*-1"),
        ("tokens", {"ids": [[4, 1]], "alpha": float("nan")}, "alpha .*0"),
        ("tokens", {"ids": [[4, 5, 500, 1]]}, r"0 to 499.*500"),
        ("tokens", {"ids": [[4, -1, 1]]}, r"0 to 499.*-1"),
        ("tokens", {"ids": [[4, 1], [4, 5]]}, r"one 1.*\[1\]"),
        ("tokens", {"ids": [[4, 0, 1], [4, 1, 5], [0, 0, 0]]}, r"one 1.*0 1 2\]"),
        ("tokens", {"ids": [[4, 1, 1]]}, "one 1"),
        ("tokens", {"ids": [[4] * 30 + [1]]}, r"24 .*31"),
        ("score", {"text": ["a " * 30], "translation": ["a"]}, "24 "),
    ],
)
def test_refused_inputs(signature, name, inputs, message):
    inputs = {"alpha": 0.6, **inputs} if name == "tokens" else inputs
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"(?s){message}"):
        signature(name, **inputs)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("split_long", True),
        ("xla", True),
        ("xla_for_one", True),
        ("terms", "a=b"),
        ("check_placeholders", True),
        ("weights_dtype", "bfloat16"),
    ],
)
def test_unsupported_settings(translator, name, value):
    with refused("not_supported", f"{name}={value}"):
        TranslationModule(changed(translator, **{name: value}))


class Checking(Problem):
    decoding = types.MappingProxyType({"check_placeholders": True})


def test_a_problem_s_own_check_of_placeholders_is_left_out(translator):
    checking = changed(translator, check_placeholders=True)
    checking.problem = Checking()
    assert export_settings(checking, "float32") == translator.config


def test_blank_is_what_a_translator_calls_blank():
    characters = [chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) != "Cs"]
    actual = tf.strings.regex_full_match(tf.constant(characters), BLANK).numpy()
    assert actual.tolist() == list(map(is_blank, characters))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_detokenizer_is_the_tokenizers(kind, lines):
    """Random ids: spaces, bytes that are no UTF-8, and the unknown id, in all positions."""
    text = [line for line in lines if line.strip()] * 20
    tokenizer = SentencePieceTokenizer.train(text, vocab_size=300, kind=kind)
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    space = [i for i, piece in enumerate(pieces) if piece.startswith("\u2581")]
    random = np.random.default_rng(0)
    ids = random.integers(2, tokenizer.vocab_size, [2000, 8])
    ids[::2, :2] = random.choice(space, [1000, 2])
    ids[np.arange(2000), random.integers(0, 8, 2000)] = 1
    ended = np.where(np.cumsum(ids == 1, axis=1) > 0, 1, ids)
    actual = tokenizer.graph_tokenizer().detokenize(tf.constant(ended, tf.int32)).numpy()
    assert [text.decode() for text in actual] == tokenizer.decode(ids)


MATRIX = np.random.default_rng(0).normal(size=[40, 3, 5]) * [1, 2, 5, 10, 0]
MATRIX = MATRIX.astype(np.float32)
VECTOR = MATRIX[0, 0]


def to_bfloat16(values):
    """The nearest numbers with 8 bits of precision, by NumPy alone."""
    mantissas, exponents = np.frexp(values)
    return np.ldexp(np.round(mantissas * 256), exponents - 8)


def to_int8(values):
    """127 steps to the largest entry of each column."""
    steps = np.abs(values).max(axis=(0, 1)) / 127
    return np.round(values / np.maximum(steps, 1e-9)) * steps


@pytest.mark.parametrize(
    ("dtype", "weight", "bytes_each", "expected"),
    [
        ("float32", MATRIX, 4, MATRIX),
        ("bfloat16", MATRIX, 2, to_bfloat16(MATRIX)),
        ("bfloat16", VECTOR, 2, to_bfloat16(VECTOR)),
        ("int8", MATRIX, 1, to_int8(MATRIX)),
        ("int8", VECTOR, 4, VECTOR),
    ],
)
def test_what_is_stored(dtype, weight, bytes_each, expected):
    stored = StoredWeight(weight, dtype)
    assert stored.stored.numpy().nbytes == bytes_each * weight.size
    np.testing.assert_allclose(stored.value(), expected, rtol=1e-6)
