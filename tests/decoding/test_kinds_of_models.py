"""Beam search, with kept keys and values, over each kind of model without them."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator
from t2t_keras.models.transformer import Transformer

VOCAB_SIZE = 6
ALPHA = 2.0  # Long outputs win.
SOURCES = [[3, 5, 4, 2, 1], [5, 1], [4, 4, 1]]
# Outputs are longer than the radius, and have more symbols than there are learned positions.
KINDS = {
    "restricted": dict(self_attention_radius=1),
    "every option": dict(
        self_attention_radius=2, learned_positions=3, parameter_attention_heads=2, pre_norm=True
    ),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def model(request):
    """Random weights, so large that no symbol is as likely as another."""
    model = Transformer(
        VOCAB_SIZE, num_layers=2, d_model=8, d_ff=12, num_heads=2, name="model", **request.param
    )
    model.build()
    random = np.random.default_rng(0)
    for weight in model.trainable_variables:
        around = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(random.normal(around, 0.4, weight.shape))
    return model


@pytest.mark.parametrize("beam_size", [1, 3])
def test_beam_search_over_the_whole_model(model, padded, plain_beam_search, beam_size):
    whole = tf.function(
        lambda source, target: model({"source": source, "target": target}),
        input_signature=[tf.TensorSpec([1, None], tf.int32)] * 2,
    )
    config = DecodeConfig(beam_size=beam_size, alpha=ALPHA, extra_length=4)
    ids, scores = Translator(model, None, config).search(padded(SOURCES))
    lengths = []
    for source, found, score in zip(SOURCES, ids.numpy()[:, 0], scores.numpy()[:, 0], strict=True):

        def following(prefix, source=source):
            # What the last target is does not matter: its logits have not seen it.
            logits = whole(np.array([source], np.int32), np.array([[*prefix, 1]], np.int32))[0, -1]
            return tf.nn.log_softmax(tf.cast(logits, tf.float64)).numpy()

        expected, expected_score = plain_beam_search(following, len(source) + 4, ALPHA, beam_size)[
            0
        ]
        assert tuple(found[found != 0].tolist()) == expected
        assert score == pytest.approx(expected_score, abs=1e-4)
        lengths.append(len(expected))
    assert max(lengths) > 4
