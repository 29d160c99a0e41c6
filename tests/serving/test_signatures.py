"""Each signature gives what `Translator` gives in the same process, and refuses what it must."""

import dataclasses
import json
import re
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.serving.signatures import TranslationModule

PAIRS = [("The small dog sleeps.", "Der Hund."), ("a", "Haus, während die Katze"), ("", "x")]


@pytest.fixture(scope="module")
def signatures(loaded):
    return loaded.signatures


@pytest.fixture(scope="module")
def predict(server):
    """predict(signature, **inputs): what the server answers to the official client."""
    with grpc.insecure_channel(f"127.0.0.1:{server['grpc']}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

        def predict(signature, **inputs):
            request = predict_pb2.PredictRequest()
            request.model_spec.name = "translate"
            request.model_spec.signature_name = signature
            for name, value in inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
            outputs = stub.Predict(request, timeout=30).outputs
            return {name: tf.make_ndarray(proto) for name, proto in outputs.items()}

        yield predict


@pytest.fixture
def translators(translator):
    """translators(**changes): the translator with other settings."""

    def changed(**changes):
        config = dataclasses.replace(translator.config, **changes)
        return Translator(translator.models, translator.tokenizer, config)

    return changed


@pytest.mark.parametrize("alpha", [0.6, 2.0])
def test_n_best(signatures, translators, lines, alpha):
    found = signatures["nbest"](text=tf.constant(lines), alpha=tf.constant(alpha))
    expected = translators(return_beams=True, alpha=alpha).translate(lines)
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


def test_alpha_has_a_default_over_grpc_and_none_over_rest(predict, server, translators, lines):
    """As in TensorFlow Serving, whose REST interface asks for every input."""
    expected = [t.text for t in translators(return_beams=True).translate(lines)]
    left_out = predict("nbest", text=lines)
    assert [row[0].decode() for row in left_out["translations"]] == expected
    given = predict("nbest", text=lines, alpha=np.float32(0.6))
    assert given["translations"].tolist() == left_out["translations"].tolist()
    other = predict("nbest", text=lines, alpha=np.float32(3.0))
    assert other["scores"].tolist() != left_out["scores"].tolist()

    def post(inputs):
        url = f"http://127.0.0.1:{server['rest']}/v1/models/translate:predict"
        body = json.dumps({"signature_name": "nbest", "inputs": inputs}).encode()
        with urllib.request.urlopen(url, body, timeout=30) as response:
            return json.load(response)["outputs"]

    with pytest.raises(urllib.error.HTTPError, match="400") as caught:
        post({"text": lines})
    assert b"Missing named input: alpha" in caught.value.read()
    caught.value.close()
    assert [row[0] for row in post({"text": lines, "alpha": 0.6})["translations"]] == expected


@pytest.mark.parametrize(
    ("signature", "inputs", "message"),
    [
        ("serving_default", {"text": [b"good", b"\xff", b"a\xc3"]}, r"text is not UTF-8 .*1 2\]"),
        ("nbest", {"text": [b"\xff"]}, "text is not UTF-8"),
        ("score", {"text": ["a"], "translation": [b"\xff"]}, "translation is not UTF-8"),
        ("score", {"text": ["a"], "translation": ["a", "b"]}, r"as many texts as .*1 2\]"),
        ("attention", {"text": ["a", "b"], "translation": ["a"]}, "as many texts as"),
        ("nbest", {"text": ["a"], "alpha": np.float32(-1)}, r"alpha must be 0 or more, not.*-1"),
        ("nbest", {"text": ["a"], "alpha": np.float32("nan")}, "alpha must be 0 or more"),
        ("tokens", {"ids": np.int32([[4, 5, 330, 1]])}, r"not in the vocabulary.*0 to 329.*330"),
        ("tokens", {"ids": np.int32([[4, -1, 1]])}, r"not in the vocabulary.*-1"),
        ("tokens", {"ids": np.int32([[4, 1], [4, 5]])}, r"then one 1 as their end.*\[1\]"),
        ("tokens", {"ids": np.int32([[4, 0, 1], [4, 1, 5], [0, 0, 0]])}, r"as their end.*0 1 2\]"),
        ("tokens", {"ids": np.int32([[4, 1, 1]])}, r"as their end"),
        ("tokens", {"ids": np.int32([[4] * 600 + [1]])}, r"may have 512 tokens.*601"),
        ("serving_default", {"text": [1, 2]}, "expected string"),
        ("serving_default", {"text": [["a"]]}, "expected string"),
        ("serving_default", {"words": ["a"]}, "does not match signature"),
    ],
)
def test_what_is_refused(predict, signature, inputs, message):
    with pytest.raises(grpc.RpcError) as caught:
        predict(signature, **inputs)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert re.search(message, caught.value.details(), flags=re.DOTALL), caught.value.details()


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("split_long", True, "cannot split long lines"),
        ("xla", True, "cannot have its search compiled by XLA"),
        ("weights_dtype", "bfloat16", "leave weights_dtype=bfloat16 out .* --dtype=bfloat16"),
    ],
)
def test_what_a_graph_cannot_do_is_refused(translators, setting, value, message):
    with pytest.raises(UserError, match=message):
        TranslationModule(translators(**{setting: value}))


def test_attention_is_float32_whatever_the_run_computes_in(small_translator, translator):
    half = small_translator(translator.tokenizer, dict(dtype="mixed_bfloat16"))
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
    assert set(TranslationModule(both).signatures()) == {
        "serving_default",
        "nbest",
        "score",
        "tokens",
    }
