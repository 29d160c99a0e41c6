"""A layer against KerasHub's, an implementation that shares no code with ours."""

import numpy as np
import pytest

from t2t_keras.layers import TransformerDecoder

HEADS, D_K, D_MODEL, D_FF = 2, 4, 8, 16


def copy_attention(ours, theirs):
    """Gives KerasHub's attention, which splits heads into an axis, the weights of ours."""
    for name in ("query", "key", "value"):
        weight = getattr(ours, f"{name}_projection").kernel.numpy()
        getattr(theirs, f"_{name}_dense").kernel.assign(weight.reshape(D_MODEL, HEADS, D_K))
    output = ours.output_projection.kernel.numpy()
    theirs._output_dense.kernel.assign(output.reshape(HEADS, D_K, D_MODEL))


def test_decoder_layer(random, randomised):
    """It has all that an encoder layer has."""
    keras_hub = pytest.importorskip("keras_hub")
    source, target = random.normal(size=(2, 3, 5, D_MODEL)).astype(np.float32)
    mask = np.arange(5) < [[5], [3], [1]]
    ours = TransformerDecoder(num_heads=HEADS, d_k=D_K, d_ff=D_FF)
    theirs = keras_hub.layers.TransformerDecoder(D_FF, HEADS, layer_norm_epsilon=1e-6)
    for layer in (ours, theirs):
        layer(target, source)
    randomised(ours)
    copy_attention(ours.self_attention, theirs._self_attention_layer)
    copy_attention(ours.memory_attention, theirs._cross_attention_layer)
    for mine, other in (
        (ours.residual_1.norm, theirs._self_attention_layer_norm),
        (ours.residual_2.norm, theirs._cross_attention_layer_norm),
        (ours.feed_forward.inner, theirs._feedforward_intermediate_dense),
        (ours.feed_forward.outer, theirs._feedforward_output_dense),
        (ours.residual_3.norm, theirs._feedforward_layer_norm),
    ):
        other.set_weights(mine.get_weights())
    expected = theirs(target, source, encoder_padding_mask=mask)
    actual = ours(target, source, encoder_padding_mask=mask)
    np.testing.assert_allclose(actual, expected, atol=1e-5)
