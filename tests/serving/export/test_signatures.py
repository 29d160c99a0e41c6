"""Each signature gives what `Translator` gives in the same process, and refuses what it must."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

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
    assert found["translations"].shape == [len(lines), 3]
    for texts, scores, translation in zip(
        found["translations"].numpy(), found["scores"].numpy(), expected, strict=True
    ):
        hypotheses = translation.hypotheses
        if not hypotheses:
            assert (texts == b"").all()
            assert (scores == 0).all()
            continue
        assert [text.decode() for text in texts] == [each.text for each in hypotheses]
        np.testing.assert_allclose(scores, [each.score for each in hypotheses], atol=1e-5)


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


def test_attention(signatures, translator):
    texts, translations = zip(*PAIRS, strict=True)
    found = signatures["attention"](text=tf.constant(texts), translation=tf.constant(translations))
    found = {name: tensor.numpy() for name, tensor in found.items()}
    for row, expected in enumerate(translator.attention(texts, translations)):
        m, n = len(expected.source), len(expected.target)
        for name, pieces, count in (
            ("text_pieces", expected.source, m),
            ("translation_pieces", expected.target, n),
        ):
            assert [piece.decode() for piece in found[name][row, :count]] == list(pieces)
            assert (found[name][row, count:] == b"").all()
        for name, weights, queries, keys in (
            ("weights", expected.cross, n, m),
            ("encoder_weights", expected.encoder, m, m),
            ("decoder_weights", expected.decoder, n, n),
        ):
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
    ("setting", "value"), [("split_long", True), ("xla", True), ("weights_dtype", "bfloat16")]
)
def test_unsupported_settings(translators, setting, value):
    with pytest.raises(UserError, match=f"{setting}={value}"):
        TranslationModule(translators(**{setting: value}))


def test_unknown_dtype(translator):
    with pytest.raises(UserError, match=r"--dtype.*int4"):
        TranslationModule(translator, "int4")


def test_attention_is_float32_whatever_the_run_computes_in(small_translator):
    half = small_translator(dtype="mixed_bfloat16")
    signature = TranslationModule(half).signatures()["attention"]
    found = signature(*(tf.constant([text]) for text in PAIRS[0]))
    [expected] = half.attention(*([text] for text in PAIRS[0]))
    for name, weights in (
        ("weights", expected.cross),
        ("encoder_weights", expected.encoder),
        ("decoder_weights", expected.decoder),
    ):
        assert found[name].dtype == tf.float32
        np.testing.assert_allclose(found[name][0], weights, atol=0.02)


def test_an_ensemble_has_no_attention(translator):
    both = Translator([*translator.models] * 2, translator.tokenizer, translator.config)
    names = {"serving_default", "nbest", "score", "tokens"}
    assert set(TranslationModule(both).signatures()) == names
