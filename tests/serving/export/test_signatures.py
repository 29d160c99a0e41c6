"""Each signature gives what `Translator` gives in the same process, and refuses what it must."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.translation import Hypothesis
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.serving.export.signatures import TranslationModule

PAIRS = [("The small dog sleeps.", "Der Hund."), ("a", "Haus, während die Katze"), ("", "x")]


@pytest.fixture(scope="module")
def signatures(loaded):
    return loaded.signatures


@pytest.fixture
def translators(translator):
    """translators(**changes): the translator with other settings."""

    def changed(**changes):
        config = dataclasses.replace(translator.config, **changes)
        return Translator(translator.models, translator.tokenizer, config)

    return changed


def test_n_best(signatures, translators, lines):
    found = signatures["nbest"](text=tf.constant(lines), alpha=tf.constant(2.0))
    expected = translators(return_beams=True, alpha=2.0).translate(lines)
    blank = [Hypothesis("", 0.0)] * 3
    hypotheses = [each.hypotheses or blank for each in expected]
    texts = [[text.decode() for text in row] for row in found["translations"].numpy()]
    assert texts == [[each.text for each in row] for row in hypotheses]
    scores = [[each.score for each in row] for row in hypotheses]
    np.testing.assert_allclose(found["scores"], scores, atol=1e-5)


def test_score(signatures, translator):
    texts, translations = zip(*PAIRS, strict=True)
    found = signatures["score"](text=tf.constant(texts), translation=tf.constant(translations))
    expected = translator.score(texts, translations)
    np.testing.assert_allclose(
        found["log_probability"], [each.log_prob for each in expected], atol=1e-4
    )
    assert found["tokens"].numpy().tolist() == [len(each.token_log_probs) for each in expected]


def test_tokens(signatures, translator, lines):
    rows = translator.tokenizer.encode([line for line in lines if line.strip()])
    ids = np.zeros([len(rows), max(map(len, rows))], np.int32)
    for padded, row in zip(ids, rows, strict=True):
        padded[: len(row)] = row
    found = signatures["tokens"](ids=tf.constant(ids), alpha=tf.constant(0.6))
    translations = translator.tokenizer.decode(found["ids"].numpy()[:, 0])
    expected = [t for t in translator.translate(lines) if t.text]
    assert translations == [translation.text for translation in expected]
    scores = [translation.score for translation in expected]
    np.testing.assert_allclose(found["scores"][:, 0], scores, atol=1e-5)


def named_weights(expected):
    return {
        "weights": expected.cross,
        "encoder_weights": expected.encoder,
        "decoder_weights": expected.decoder,
    }


def test_attention(signatures, translator):
    texts, translations = zip(*PAIRS, strict=True)
    found = signatures["attention"](text=tf.constant(texts), translation=tf.constant(translations))
    found = {name: tensor.numpy() for name, tensor in found.items()}
    for row, expected in enumerate(translator.attention(texts, translations)):
        for name, pieces in (
            ("text_pieces", expected.source),
            ("translation_pieces", expected.target),
        ):
            shown = [piece.decode() for piece in found[name][row]]
            assert shown == [*pieces, *[""] * (len(shown) - len(pieces))]
        for name, weights in named_weights(expected).items():
            queries, keys = weights.shape[2:]
            np.testing.assert_allclose(found[name][row, :, :, :queries, :keys], weights, atol=1e-5)


def test_alpha_has_a_default(graph):
    """TensorFlow Serving fills it in over gRPC, not over REST."""
    for name in ("nbest", "tokens"):
        defaults = graph.signature_def[name].defaults
        assert {key: tf.make_ndarray(value) for key, value in defaults.items()} == {
            "alpha": np.float32(0.6)
        }
    assert not graph.signature_def["serving_default"].defaults


@pytest.mark.parametrize(
    ("signature", "inputs", "message"),
    [
        ("serving_default", {"text": [b"good", b"\xff", b"a\xc3"]}, r"text is not UTF-8 .*1 2\]"),
        ("nbest", {"text": [b"\xff"], "alpha": 0.6}, "text is not UTF-8"),
        ("score", {"text": ["a"], "translation": [b"\xff"]}, "translation is not UTF-8"),
        ("score", {"text": ["a"], "translation": ["a", "b"]}, r"translation a text.*1 2\]"),
        ("attention", {"text": ["a", "b"], "translation": ["a"]}, "translation a text"),
        ("nbest", {"text": ["a"], "alpha": -1.0}, r"alpha must be >= 0.*-1"),
        ("nbest", {"text": ["a"], "alpha": float("nan")}, "alpha must be >= 0"),
        ("tokens", {"ids": [[4, 5, 500, 1]]}, r"in the vocabulary, 0 to 499.*500"),
        ("tokens", {"ids": [[4, -1, 1]]}, r"in the vocabulary.*-1"),
        ("tokens", {"ids": [[4, 1], [4, 5]]}, r"then one 1.*\[1\]"),
        ("tokens", {"ids": [[4, 0, 1], [4, 1, 5], [0, 0, 0]]}, r"then one 1.*0 1 2\]"),
        ("tokens", {"ids": [[4, 1, 1]]}, "then one 1"),
        ("tokens", {"ids": [[4] * 30 + [1]]}, r"at most 24 tokens.*31"),
        ("score", {"text": ["a " * 30], "translation": ["a"]}, "at most 24 tokens"),
    ],
)
def test_refused_inputs(signatures, signature, inputs, message):
    inputs = {"alpha": 0.6, **inputs} if signature == "tokens" else inputs
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"(?s){message}"):
        signatures[signature](**{name: tf.constant(value) for name, value in inputs.items()})


@pytest.mark.parametrize(
    ("dtype", "settings", "named"),
    [
        ("float32", {"split_long": True}, "split_long=True"),
        ("float32", {"xla": True}, "xla=True"),
        ("float32", {"weights_dtype": "bfloat16"}, "weights_dtype=bfloat16"),
        ("int4", {}, "--dtype.*int4"),
    ],
)
def test_unsupported_settings(translators, dtype, settings, named):
    with pytest.raises(UserError, match=named):
        TranslationModule(translators(**settings), dtype)


def test_attention_is_float32_whatever_the_run_computes_in(small_translator):
    half = small_translator(dtype="mixed_bfloat16")
    signature = TranslationModule(half).signatures()["attention"]
    found = signature(*(tf.constant([text]) for text in PAIRS[0]))
    [expected] = half.attention(*([text] for text in PAIRS[0]))
    for name, weights in named_weights(expected).items():
        assert found[name].dtype == tf.float32
        np.testing.assert_allclose(found[name][0], weights, atol=0.02)


def test_an_ensemble_has_no_attention(translator):
    both = Translator([*translator.models] * 2, translator.tokenizer, translator.config)
    names = {"serving_default", "nbest", "score", "tokens"}
    assert set(TranslationModule(both).signatures()) == names
