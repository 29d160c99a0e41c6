"""What a Keras user expects of any layer."""

import doctest
import importlib
import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import t2t_keras.layers
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

ATTENTION = dict(num_heads=2, key_dim=3, value_dim=5, seed=1)
ROTARY = dict(num_heads=2, key_dim=4, use_bias=True, rotary=True, table_length=9)
STACK = dict(
    num_heads=2, d_k=3, d_v=5, d_ff=10, dropout=0.25, attention_dropout=0.125, relu_dropout=0.0625
)
OPTIONS = dict(
    self_attention_radius=1,
    feed_forward="parameter_attention",
    parameter_attention_heads=3,
    pre_norm=True,
)
# The layer, its arguments (none a default), and the number of its inputs.
LAYERS = [
    (TransformerDecoder, STACK, 2),
    (TransformerDecoder, STACK | OPTIONS, 2),
    (TransformerEncoder, dict(num_heads=2, d_ff=10), 1),
    (TransformerEncoder, STACK | OPTIONS | dict(seed=3), 1),
    (FeedForward, dict(d_ff=10, dropout=0.0625, activation="silu", seed=1), 1),
    (LayerNormalization, dict(epsilon=0.5), 1),
    (LearnedPositions, dict(max_positions=3), 1),
    (LearnedPositions, dict(max_positions=4, first=1), 1),
    (MultiHeadAttention, ATTENTION | dict(dropout=0.125), 1),
    (MultiHeadAttention, ROTARY, 1),
    (MultiHeadAttention, ATTENTION, 2),
    (
        ParameterAttention,
        dict(num_heads=3, num_pairs=10, key_dim=4, value_dim=5, dropout=0.0625, seed=1),
        1,
    ),
    (RestrictedSelfAttention, ATTENTION | dict(radius=1, dropout=0.125), 1),
    (RestrictedSelfAttention, ROTARY | dict(radius=2), 1),
    (Residual, dict(dropout=0.25, epsilon=0.5, seed=1), 2),
    (Residual, dict(pre_norm=True), 2),
    (SharedEmbedding, dict(vocab_size=6, d_model=8), 1),
    (
        SharedEmbedding,
        dict(vocab_size=6, d_model=8, scale=False, tied=False, bias=True, padding_id=1),
        1,
    ),
    (SinusoidalPositions, dict(layout="concatenated", first=1, table_length=9), 1),
]
every_layer = pytest.mark.parametrize(("kind", "arguments", "inputs"), LAYERS)


def arrays(random, kind, inputs):
    """Inputs [2, length] of ids or [2, length, 8] of states; a residual's are of equal length."""
    lengths = (3, 3 if kind is Residual else 4)[:inputs]
    if kind is SharedEmbedding:
        return [random.integers(0, 6, (2, length), np.int32) for length in lengths]
    return [random.normal(size=(2, length, 8)).astype(np.float32) for length in lengths]


def test_no_layer_is_missing_here():
    exported = [getattr(t2t_keras.layers, name) for name in t2t_keras.layers.__all__]
    layers = {layer for layer in exported if issubclass(layer, keras.layers.Layer)}
    assert {kind for kind, _, _ in LAYERS} == layers


def test_no_argument_of_a_layer_is_missing_here():
    ours = {kind for kind, _, _ in LAYERS} - {
        TransformerDecoder,
        TransformerEncoder,
        LayerNormalization,
    }
    for kind in ours:
        arguments = inspect.signature(kind.__init__).parameters.keys() - {"self", "kwargs"}
        assert {
            name
            for layer, layer_arguments, _ in LAYERS
            if layer is kind
            for name in layer_arguments
        } == arguments


@every_layer
def test_config_and_type(kind, arguments, inputs, random):
    layer = kind(**arguments, name="mine", dtype=keras.DTypePolicy("mixed_bfloat16"))
    config = layer.get_config()
    assert {name: config[name] for name in arguments} == arguments
    copy = keras.layers.deserialize(keras.layers.serialize(layer))
    assert (type(copy), copy.get_config(), copy.name) == (kind, config, "mine")
    assert keras.saving.get_registered_name(kind) == f"t2t_keras>{kind.__name__}"
    for instance in (layer, copy):
        output = instance(*arrays(random, kind, inputs))
        assert output.dtype.name == "bfloat16"
        assert {weight.dtype for weight in instance.trainable_variables} <= {"float32"}
        assert {part.dtype_policy.name for part in instance._flatten_layers()} == {"mixed_bfloat16"}


@every_layer
def test_saved_and_loaded_in_a_functional_model(
    kind, arguments, inputs, random, randomised, tmp_path
):
    layer_inputs = arrays(random, kind, inputs)
    symbolic = [keras.Input((None, *x.shape[2:]), dtype=x.dtype.name) for x in layer_inputs]
    model = randomised(keras.Model(symbolic, kind(**arguments)(*symbolic)))
    model.save(tmp_path / "model.keras")
    copy = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(copy(layer_inputs).numpy(), model(layer_inputs).numpy())


@every_layer
def test_output_shape_and_gradients_of_every_weight(kind, arguments, inputs, random):
    layer, layer_inputs = kind(**arguments), arrays(random, kind, inputs)
    with tf.GradientTape() as tape:
        output = layer(*layer_inputs)
        used = output + layer.sublayer_input(layer_inputs[0]) if kind is Residual else output
        loss = tf.reduce_sum(tf.cast(used, tf.float32) ** 3)
        if kind is SharedEmbedding:
            loss += tf.reduce_sum(layer.logits(output) ** 3)
    for gradient in tape.gradient(loss, [weight.value for weight in layer.trainable_variables]):
        assert np.abs(tf.convert_to_tensor(gradient)).max() > 0
    assert layer.compute_output_shape(*(x.shape for x in layer_inputs)) == tuple(output.shape)
    unknown = [(None, None, *x.shape[2:]) for x in layer_inputs]
    assert layer.compute_output_shape(*unknown) == (None, None, *output.shape[2:])


def test_in_a_sequential_model(tmp_path):
    # Without an Input: ids arrive as floats.
    model = keras.Sequential(
        [
            SharedEmbedding(6, 8),
            SinusoidalPositions(),
            MultiHeadAttention(2, 3),
            FeedForward(10),
            TransformerEncoder(num_heads=2, d_k=3, d_ff=10),
        ]
    )
    ids = np.array([[3, 2, 4, 1], [4, 1, 0, 0]])
    output = model(ids).numpy()
    assert output.shape == (2, 4, 8)
    # Padding is masked all the way, so it could as well not be there.
    np.testing.assert_allclose(model(ids[1:, :2]).numpy()[0], output[1, :2], atol=1e-5)
    model.save(tmp_path / "model.keras")
    copy = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(copy(ids).numpy(), output)


@pytest.mark.parametrize("name", ["attention", "base", "embedding", "feed_forward", "stacks"])
def test_the_examples_of_docstrings(name):
    module = importlib.import_module(f"t2t_keras.layers.{name}")
    names = {"np": np, "FeedForward": FeedForward}
    failed, _ = doctest.testmod(module, extraglobs=names)
    assert not failed
