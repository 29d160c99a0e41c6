"""The layers against KerasHub's, an implementation that shares no code with ours."""

import numpy as np
import pytest

from t2t_keras.layers import DecoderLayer, EncoderLayer
from t2t_keras.layers.position import sinusoids

HEADS, D_K, D_MODEL, D_FF = 2, 4, 8, 16
LENGTHS = dict(source=5, target=4)


@pytest.fixture(scope="module")
def keras_hub_layers():
    """KerasHub's layers; the import takes seconds."""
    return pytest.importorskip("keras_hub").layers


@pytest.fixture
def inputs():
    """States of source and target, and which source positions are real."""
    generator = np.random.default_rng(0)
    source = generator.normal(size=(3, LENGTHS["source"], D_MODEL)).astype(np.float32)
    target = generator.normal(size=(3, LENGTHS["target"], D_MODEL)).astype(np.float32)
    return source, target, np.arange(LENGTHS["source"]) < np.array([[5], [3], [1]])


def copy_attention(ours, theirs):
    """Gives KerasHub's attention the weights of ours; it splits heads into an axis of their own."""
    for name in ("query", "key", "value"):
        weight = getattr(ours, f"{name}_projection").numpy()
        dense = getattr(theirs, f"_{name}_dense")
        dense.kernel.assign(weight.reshape(D_MODEL, HEADS, D_K))
    theirs._output_dense.kernel.assign(ours.output_projection.numpy().reshape(HEADS, D_K, D_MODEL))


def copy_rest(ours, theirs, norms):
    """Gives KerasHub's layer the feed-forward and normalisation weights of ours, made random."""
    generator = np.random.default_rng(1)
    pairs = [
        (ours.feed_forward.inner, theirs._feedforward_intermediate_dense),
        (ours.feed_forward.outer, theirs._feedforward_output_dense),
        *((residual.norm, norm) for residual, norm in norms),
    ]
    for mine, other in pairs:
        for weight, same in zip(mine.trainable_variables, other.trainable_variables, strict=True):
            weight.assign(weight.numpy() + 0.1 * generator.normal(size=weight.shape))
            same.assign(weight.numpy())


def test_encoder_layer(keras_hub_layers, inputs):
    source, _, mask = inputs
    ours = EncoderLayer(HEADS, D_K, D_FF)
    theirs = keras_hub_layers.TransformerEncoder(D_FF, HEADS, layer_norm_epsilon=1e-6)
    ours(source)
    theirs(source)
    copy_attention(ours.self_attention, theirs._self_attention_layer)
    norms = [
        (ours.residual_1, theirs._self_attention_layer_norm),
        (ours.residual_2, theirs._feedforward_layer_norm),
    ]
    copy_rest(ours, theirs, norms)
    wanted = np.asarray(theirs(source, padding_mask=mask))
    np.testing.assert_allclose(np.asarray(ours(source, mask=mask))[mask], wanted[mask], atol=1e-5)


def test_decoder_layer(keras_hub_layers, inputs):
    source, target, mask = inputs
    ours = DecoderLayer(HEADS, D_K, D_FF)
    theirs = keras_hub_layers.TransformerDecoder(D_FF, HEADS, layer_norm_epsilon=1e-6)
    ours(target, source)
    theirs(target, source)
    copy_attention(ours.self_attention, theirs._self_attention_layer)
    copy_attention(ours.memory_attention, theirs._cross_attention_layer)
    norms = [
        (ours.residual_1, theirs._self_attention_layer_norm),
        (ours.residual_2, theirs._cross_attention_layer_norm),
        (ours.residual_3, theirs._feedforward_layer_norm),
    ]
    copy_rest(ours, theirs, norms)
    wanted = np.asarray(theirs(target, source, encoder_padding_mask=mask))
    found = np.asarray(ours(target, source, memory_mask=mask))
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_positions(keras_hub_layers):
    zeros = np.zeros((1, 40, D_MODEL), np.float32)
    wanted = np.asarray(keras_hub_layers.SinePositionEncoding()(zeros))[0]
    np.testing.assert_allclose(sinusoids(np.arange(40), D_MODEL), wanted, atol=1e-5)
