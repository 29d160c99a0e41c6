"""Odd shapes and sizes are computed correctly, or refused with the expected ones."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras import SmoothedCrossEntropy, TransformerSchedule
from t2t_keras.errors import UserError
from t2t_keras.layers import (
    FeedForward,
    LayerNormalization,
    LearnedPositions,
    MultiHeadAttention,
    ParameterAttention,
    Residual,
    RestrictedSelfAttention,
    SharedEmbedding,
    SinusoidalPositions,
    TransformerDecoder,
    TransformerEncoder,
)
from t2t_keras.registry import ACTIVATIONS

SMALL = dict(num_heads=2, d_ff=4)
ATTENTION, LOCAL = MultiHeadAttention(2, 3), RestrictedSelfAttention(1, 2, 3)


def zeros(*shape):
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize("shape", [(2, 1, 5, 16), (2, 3, 1, 16), (2, 3, 5, 16), (5, 16)])
@pytest.mark.parametrize("layer", [SinusoidalPositions(), LearnedPositions(7)])
def test_positions_are_those_of_the_axis_before_the_last(layer, shape):
    expected = layer(zeros(1, shape[-2], shape[-1]))[0]
    actual = layer(zeros(*shape))
    np.testing.assert_array_equal(actual, np.broadcast_to(expected, shape))
    assert shape[-2] == 1 or np.abs(expected[0] - expected[1]).max() > 0
    started = layer(zeros(*shape), start=1)
    assert np.abs(np.reshape(started, (-1, 16))[0] - expected[0]).max() > 0


@pytest.mark.parametrize(
    ("layer", "inputs", "options"),
    [
        (ATTENTION, [(2, 3, 1, 16)], {}),
        (ATTENTION, [(3, 16)], {}),
        (ATTENTION, [(2, 3, 16), (2, 3, 1, 16)], {}),
        (TransformerEncoder(**SMALL), [(2, 3, 1, 16)], {}),
        (TransformerDecoder(**SMALL), [(2, 3, 1, 16), (2, 3, 16)], {}),
        (TransformerDecoder(**SMALL), [(2, 3, 16), (2, 3, 1, 16)], {}),
        (ATTENTION, [(2, 3, 16)], {"value_mask": np.ones((2, 1), bool)}),
        (ATTENTION, [(2, 3, 16)], {"value_mask": np.ones((2, 3, 4), bool)}),
        (ATTENTION, [(2, 3, 16)], {"attention_mask": np.ones(3, bool)}),
        (ATTENTION, [(2, 3, 16)], {"query_mask": np.ones((2, 1, 3, 3), bool)}),
        (ATTENTION, [(2, 3, 16), (2, 4, 16)], {"key_mask": np.ones((2, 3), bool)}),
        (LOCAL, [(2, 3, 16)], {"value_mask": np.ones((2, 3, 3), bool)}),
    ],
)
def test_other_shapes_are_refused(layer, inputs, options):
    with refused("bad_shape") as refusal:
        layer(*(zeros(*shape) for shape in inputs), **options)
    shapes = [*inputs, *(mask.shape for mask in options.values())]
    assert any(str([*shape]) in str(refusal.value) for shape in shapes)


@pytest.mark.parametrize("name", ["query_mask", "value_mask", "key_mask", "attention_mask"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_what_is_added_to_logits_is_no_mask(name, dtype):
    # As tensor2tensor and PyTorch hide the last: as a boolean it would hide all others.
    shape = (2, 3, 3) if name == "attention_mask" else (2, 3)
    added = np.broadcast_to(np.array([0, 0, -1e4], dtype), shape)
    for mask in (added, keras.ops.convert_to_tensor(added)):
        with refused("float_mask", name):
            ATTENTION(zeros(2, 3, 16), **{name: mask})
    for mask in (added == 0, (added == 0).astype("int8")):
        assert ATTENTION(zeros(2, 3, 16), **{name: mask}).shape == (2, 3, 16)


def test_a_functional_model_refuses_them_as_well():
    MultiHeadAttention(2, 3)(keras.Input((None, 16)))
    # In a graph a size may be known of one alone.
    sizes = [tf.TensorSpec([None, 4, 16]), tf.TensorSpec([None, None], tf.bool)]
    tf.function(lambda x, mask: ATTENTION(x, value_mask=mask), sizes).get_concrete_function()
    for layer in (MultiHeadAttention(2, 3), ATTENTION):
        with pytest.raises(UserError):
            layer(keras.Input((3, 1, 16)))


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        *((MultiHeadAttention, arguments) for arguments in ([0, 3], [2, 0], [2, 3, -1])),
        (RestrictedSelfAttention, [0, 2, 3]),
        (FeedForward, [0]),
        *((ParameterAttention, arguments) for arguments in ([0, 2, 2], [2, 0, 2], [2, 2, 0])),
        *((SharedEmbedding, arguments) for arguments in ([0, 2], [2, 0])),
        *((LearnedPositions, arguments) for arguments in ([0], [2, -1])),
        *((SinusoidalPositions, arguments) for arguments in (["interlaced"], ["interleaved", -1])),
        (Residual, [0.0, False, -1e-6]),
        (lambda: LayerNormalization(epsilon=-1e-6), []),
        (lambda: SinusoidalPositions()(zeros(1, 2, 5)), []),
        *((TransformerSchedule, arguments) for arguments in ([0, 10], [8, 0])),
        *((SmoothedCrossEntropy, arguments) for arguments in ([-0.1], [1.0])),
    ],
)
def test_sizes_that_no_layer_has_are_refused(kind, arguments):
    with pytest.raises(UserError):
        kind(*arguments)


def test_every_activation_keeps_the_width():
    for name in ACTIVATIONS:
        assert FeedForward(4, activation=name)(zeros(1, 2, 6)).shape == (1, 2, 6), name


def test_the_least_sizes():
    for layer in (
        MultiHeadAttention(1, 1),
        RestrictedSelfAttention(1, 1, 1),
        ParameterAttention(1, 1, 1),
        FeedForward(1),
        LearnedPositions(1, 0),
    ):
        assert layer(zeros(1, 2, 2)).shape == (1, 2, 2)
    assert SharedEmbedding(1, 1)(np.zeros((1, 2), np.int32)).shape == (1, 2, 1)
    assert float(TransformerSchedule(1, 1)(0)) == 1.0
    assert SmoothedCrossEntropy(0.0).label_smoothing == 0.0
