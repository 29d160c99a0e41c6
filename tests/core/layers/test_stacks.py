"""Residuals, layer normalisation, and Keras masks around whole layers.

The numbers of whole layers are tested in tests/core/models.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras.errors import UserError
from t2t_keras.layers import (
    DenseLayout,
    FeedForward,
    LayerNormalization,
    MultiHeadAttention,
    ParameterAttention,
    RaggedLayout,
    Residual,
    SharedEmbedding,
    SinusoidalPositions,
    TransformerDecoder,
    TransformerEncoder,
)
from t2t_keras.layers.base import Dropout


def expected_norm(x, gamma, beta, epsilon=1e-6):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta


@pytest.mark.parametrize("epsilon", [1e-6, 0.5])
@pytest.mark.parametrize("pre_norm", [False, True])
def test_formula(randomised, random, pre_norm, epsilon):
    layer = Residual(pre_norm=pre_norm, epsilon=epsilon)
    layer.build((None, None, 8))
    gamma, beta = (weight.numpy() for weight in randomised(layer).weights)
    x, y = random.normal(size=(2, 2, 3, 8)).astype(np.float32)
    expected, read = x.astype(float) + y, layer.sublayer_input(x)
    if pre_norm:
        normalised = expected_norm(x.astype(float), gamma, beta, epsilon)
        np.testing.assert_allclose(read.numpy(), normalised, rtol=0, atol=1e-5)
    else:
        assert read is x
        expected = expected_norm(expected, gamma, beta, epsilon)
    np.testing.assert_allclose(layer(x, y).numpy(), expected, rtol=0, atol=1e-5)
    actual = layer.apply(lambda read, training: read + y, x)
    np.testing.assert_array_equal(actual, layer(x, read + y))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_dropout_has_its_rate_in_every_type(dtype, rate):
    dropout = Dropout(rate, dtype=dtype)
    actual = np.array(keras.ops.cast(dropout(np.ones([1000, 1001]), training=True), "float32"))
    # Four standard deviations of a million draws; where numbers are bfloat16's, it is 5 and 13.
    assert np.mean(actual == 0) == pytest.approx(rate, abs=4 * (rate * (1 - rate)) ** 0.5 / 1000)
    assert set(np.round(actual.ravel() * (1 - rate), 2)) == {0.0, 1.0}
    pairs = (actual[:, :500] == 0) & (actual[:, 501:] == 0)
    assert np.mean(pairs) == pytest.approx(rate**2, abs=4 * rate / 700), "drawn independently"
    assert np.all(np.array(keras.ops.cast(dropout(np.ones(9)), "float32")) == 1)


def test_dropout_is_on_the_sublayer_output_before_the_sum():
    layer = Residual(dropout=0.5)
    layer.build((None, 1000))
    # The normalised sum takes four values only if 0 or twice the output is added to x.
    x = np.where(np.arange(1000) < 500, 0.0, 10.0)[None].astype(np.float32)
    ones = np.ones_like(x)
    values = np.unique(layer.apply(lambda _, training: ones, x, training=True).numpy().round(4))
    assert len(values) == 4
    np.testing.assert_allclose((values[1] - values[0]) * 4, values[2] - values[1], rtol=0.01)
    assert len(np.unique(layer(x, ones).numpy().round(4))) == 2


def both(randomised, dtype="float32"):
    """Returns our layer normalisation and Keras's with the same weights."""
    kinds = (LayerNormalization, keras.layers.LayerNormalization)
    ours, theirs = (kind(epsilon=1e-6, dtype=dtype, name="norm") for kind in kinds)
    for layer in (ours, theirs):
        layer.build((None, 8))
    theirs.set_weights(randomised(ours).get_weights())
    return ours, theirs


def value_and_gradients(layer, x, **training):
    """Of a sum in which every number counts differently."""
    with tf.GradientTape() as tape:
        inputs = tf.constant(x)
        tape.watch(inputs)
        output = layer(inputs, **training)
        factors = np.linspace(-1, 2, x.size, dtype=np.float32).reshape(x.shape)
        total = tf.reduce_sum(tf.cast(output, tf.float32) * factors)
    weights = [weight.value for weight in layer.trainable_variables]
    return [output, *tape.gradient(total, [inputs, *weights])]


# The epsilon of 1e-6 matters at the smallest scale: a variance of 1e-6.
@pytest.mark.parametrize("scale", [1.0, 1e-3])
@pytest.mark.parametrize("shape", [(5, 8), (2, 3, 8), (0, 8)])
def test_normalisation_and_its_gradients_are_those_of_keras(randomised, random, shape, scale):
    x = random.normal(0.5 * scale, scale, shape).astype(np.float32)
    ours, theirs = both(randomised)
    assert [weight.path for weight in ours.weights] == [weight.path for weight in theirs.weights]
    all_expected = value_and_gradients(theirs, x)
    for training in (True, False):
        all_found = value_and_gradients(ours, x, training=training)
        for actual, expected in zip(all_found, all_expected, strict=True):
            assert actual.shape == expected.shape
            largest = np.abs(expected).max(initial=0.0)
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * max(largest, 1.0))


def test_normalisation_in_half_precision_is_computed_in_float32(randomised):
    # bfloat16 has 8 bits: the mean of these numbers and their squares are not among its values.
    x = tf.cast((100 + 0.5 * np.arange(32)).reshape(4, 8), tf.bfloat16).numpy()
    ours, theirs = both(randomised, "mixed_bfloat16")
    np.testing.assert_array_equal(ours(x), theirs(x))
    assert {weight.dtype for weight in ours.weights} == {"float32"}


SIZES = dict(num_heads=2, d_k=3, d_ff=10, d_v=5)
SOURCE = np.array([[3, 2, 4, 1], [4, 1, 0, 0]], np.int32)
TARGET = np.array([[2, 1, 0], [3, 3, 1]], np.int32)


def test_padding_masks_propagate_by_themselves(randomised):
    encoder, decoder = TransformerEncoder(**SIZES), TransformerDecoder(**SIZES)
    embed = keras.Sequential([SharedEmbedding(6, 8), SinusoidalPositions()])
    ids = [keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")]
    encoded = encoder(embed(ids[0]))
    model = randomised(keras.Model(ids, [encoded, decoder(embed(ids[1]), encoded)]))
    memory, states = model([SOURCE, TARGET])
    # Without Keras masks: plain arrays and explicit masks.
    x, y = (embed(ids).numpy() for ids in (SOURCE, TARGET))
    expected_memory = encoder(x, padding_mask=SOURCE != 0).numpy()
    expected = decoder(y, expected_memory, encoder_padding_mask=SOURCE != 0).numpy()
    real = SOURCE != 0
    np.testing.assert_allclose(memory.numpy()[real], expected_memory[real], atol=1e-6)
    np.testing.assert_allclose(states.numpy()[TARGET != 0], expected[TARGET != 0], atol=1e-6)
    unmasked = decoder(y, encoder(x).numpy()).numpy()
    assert np.abs(unmasked - expected)[1].max() > 1e-2
    np.testing.assert_array_equal(memory._keras_mask, SOURCE != 0)
    np.testing.assert_array_equal(states._keras_mask, TARGET != 0)


def test_attention_weights_beside_the_states_of_symbols(randomised):
    memory, x = keras.Input((4, 8)), keras.Input((None, 8))
    encoded = TransformerEncoder(**SIZES)(x, return_attention_scores=True)
    decoded = TransformerDecoder(**SIZES)(x, memory, return_attention_scores=True)
    model = randomised(keras.Model([memory, x], [*encoded, *decoded]))
    states, weights = (None, None, 8), (None, 2, None, None)
    shapes = [output.shape for output in model.outputs]
    assert shapes == [states, weights, states, weights, (None, 2, None, 4)]
    actual = [output.shape for output in model([np.ones((5, 4, 8)), np.ones((5, 3, 8))])]
    assert actual == [(5, 3, 8), (5, 2, 3, 3), (5, 3, 8), (5, 2, 3, 3), (5, 2, 3, 4)]


@pytest.mark.parametrize("is_ragged", [False, True])
@pytest.mark.parametrize("radius", [0, 1])
def test_every_layout_has_the_same_states(random, is_ragged, radius):
    layout = RaggedLayout(SOURCE != 0) if is_ragged else DenseLayout(2, 4)
    x, memory = random.normal(size=(2, 2, 4, 8)).astype(np.float32)
    mask, rows = SOURCE != 0, (layout.pack(x), layout.pack(memory))
    encoder = TransformerEncoder(**SIZES, self_attention_radius=radius)
    decoder = TransformerDecoder(**SIZES, self_attention_radius=radius)
    pairs = [
        (encoder(x, padding_mask=mask), encoder(rows[0], padding_mask=mask, layout=layout)),
        (
            decoder(x, memory, encoder_padding_mask=mask),
            decoder(*rows, encoder_padding_mask=mask, layout=layout, memory_layout=layout),
        ),
    ]
    for expected, actual in pairs:
        actual = layout.unpack(actual).numpy()[mask]
        np.testing.assert_allclose(actual, expected.numpy()[mask], atol=1e-6)


def test_an_unknown_setting_is_refused():
    with pytest.raises(ValueError, match="num_haeds"):
        TransformerEncoder(num_haeds=2)


@pytest.mark.parametrize(
    "options",
    [dict(axis=[1, 2]), dict(axis=1), dict(center=False), dict(scale=False), dict(axis=2)],
)
def test_normalisation_has_keras_s_arguments(random, randomised, options):
    x = random.normal(size=(2, 3, 8)).astype(np.float32)
    ours, theirs = LayerNormalization(**options), keras.layers.LayerNormalization(**options)
    ours.build(x.shape)
    theirs.build(x.shape)
    theirs.set_weights(randomised(ours).get_weights())
    np.testing.assert_allclose(ours(x, training=True), theirs(x), atol=1e-5)


def test_a_decoder_without_memory_is_a_language_model(random):
    decoder, x = TransformerDecoder(**SIZES), random.normal(size=(2, 4, 8)).astype(np.float32)
    output = decoder(x).numpy()
    assert not hasattr(decoder, "memory_attention")
    np.testing.assert_allclose(decoder(x[:, :2]), output[:, :2], atol=1e-6)
    earlier = decoder(x, use_causal_mask=False).numpy()
    assert np.abs(earlier[:, :3] - output[:, :3]).max() > 1e-3
    with pytest.raises(UserError):
        decoder(x, x)


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("with_memory", [False, True])
def test_caches_of_keras_hub_s_form(random, with_memory, rotary):
    """One position after the other is the whole at once."""
    sizes = dict(num_heads=2, d_k=4, d_ff=10, positions="rotary" if rotary else "none")
    decoder = TransformerDecoder(**sizes)
    x, memory = random.normal(size=(2, 2, 4, 8)).astype(np.float32)
    encoder_output = (memory,) if with_memory else ()
    masks = {"encoder_padding_mask": np.arange(4) < [[4], [2]]} if with_memory else {}
    expected = decoder(x, *encoder_output, **masks).numpy()
    cache = np.zeros((2, 2, 4, 2, 4), np.float32)
    caches = {"self_attention_cache": cache}
    if with_memory:
        caches |= {"cross_attention_cache": cache, "cross_attention_cache_update_index": 0}
    for index in range(4):
        caches["self_attention_cache_update_index"] = index
        output, *new_caches = decoder(x[:, index : index + 1], *encoder_output, **masks, **caches)
        np.testing.assert_allclose(output[:, 0], expected[:, index], atol=1e-5)
        names = ["self_attention_cache", "cross_attention_cache"]
        caches |= dict(zip(names, new_caches, strict=False))
        caches.pop("cross_attention_cache_update_index", None)
    assert len(new_caches) == 1 + with_memory
    # Two positions at once, after which the third and the fourth are read.
    caches = {"self_attention_cache": cache}
    if with_memory:
        caches |= {"cross_attention_cache": cache, "cross_attention_cache_update_index": 0}
    for first in (0, 2):
        caches["self_attention_cache_update_index"] = first
        output, caches["self_attention_cache"], *_ = decoder(
            x[:, first : first + 2], *encoder_output, **masks, **caches
        )
        np.testing.assert_allclose(output, expected[:, first : first + 2], atol=1e-5)


def test_a_cache_and_the_keras_mask_of_the_new_position():
    decoder, embedding = TransformerDecoder(**SIZES | {"d_v": 3}), SharedEmbedding(6, 8)
    cache = np.zeros((2, 2, 4, 2, 3), np.float32)
    options = dict(self_attention_cache=cache, self_attention_cache_update_index=0)
    output, _ = decoder(embedding(TARGET[:, :1]), **options)
    expected = decoder(embedding(TARGET[:, :1]))
    np.testing.assert_allclose(output, expected, atol=1e-6)
    restricted = TransformerDecoder(**SIZES | {"d_v": 3}, self_attention_radius=1)
    with pytest.raises(UserError):
        restricted(embedding(TARGET[:, :1]), **options)


def test_an_explicit_mask_replaces_that_of_the_embedding(random):
    encoder, embedding = TransformerEncoder(**SIZES), SharedEmbedding(6, 8)
    ones = np.ones(SOURCE.shape, bool)
    expected = encoder(embedding(SOURCE).numpy())
    np.testing.assert_allclose(encoder(embedding(SOURCE), padding_mask=ones), expected, atol=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        *(dict(num_heads=0), dict(positions="learnt"), dict(norm_epsilon=-1.0), dict(d_ff=0)),
        *(dict(self_attention_radius=-1), dict(dropout=1.0), dict(activation="rely")),
    ],
)
def test_declared_bounds_and_choices(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))) as refusal:
        TransformerEncoder(**wrong)
    assert refusal.value.code == "bad_value"


def test_heads_that_do_not_divide_the_width():
    with pytest.raises(UserError, match="num_heads=3"):
        TransformerEncoder(16, 3)(np.zeros((1, 2, 8), np.float32))


def test_initialisers_reach_every_projection():
    options = dict(kernel_initializer="ones", bias_initializer="ones", attention_bias=True)
    layer = TransformerEncoder(16, 2, **options)
    layer(np.zeros((1, 2, 8), np.float32))
    weights = [weight for weight in layer.weights if "norm" not in weight.path]
    assert len(weights) == 12
    assert all((weight.numpy() == 1).all() for weight in weights)


def test_each_dropout_of_a_layer_has_a_seed_of_its_own():
    x, options = np.ones((2, 4, 8), np.float32), dict(kernel_initializer="ones", seed=3)
    layer, again = (TransformerEncoder(12, 2, dropout=0.5, **options) for _ in range(2))
    np.testing.assert_array_equal(layer(x, training=True), again(x, training=True))
    dropouts = layer.residual_1.dropout, layer.residual_2.dropout
    first, second = (dropout(x, training=True).numpy() for dropout in dropouts)
    assert (first != second).any()
    # The layer above, with the next seed, shares none of them.
    above = TransformerEncoder(12, 2, dropout=0.5, seed=4)
    above.build(x.shape)
    seeds = [
        [stack_layer.residual_1.seed, stack_layer.residual_2.seed] for stack_layer in (layer, above)
    ]
    assert not set(seeds[0]) & set(seeds[1])


def test_keys_and_values_of_attention_over_parameters_are_drawn_apart():
    keras.utils.set_random_seed(1)
    layer = ParameterAttention(num_heads=2, num_pairs=5, key_dim=3)
    layer.build((None, None, 8))
    correlation = np.corrcoef(layer.keys.numpy().ravel(), layer.values.numpy().ravel())[0, 1]
    assert abs(correlation) < 0.7


@pytest.mark.parametrize(
    "names", [("intermediate_dim", "d_ff"), ("normalize_first", "pre_norm"), ("key_dim", "d_k")]
)
def test_two_names_of_one_argument_are_refused(names):
    with pytest.raises(TypeError, match=f"{names[0]} .*{names[1]}"):
        TransformerEncoder(**dict.fromkeys(names, 4))
    for kind in (MultiHeadAttention, functools.partial(ParameterAttention, num_pairs=3)):
        with pytest.raises(TypeError, match=r"key_dim .*d_k"):
            kind(2, key_dim=4, d_k=8)
        with pytest.raises(TypeError, match="key_dim"):
            kind(2)


def test_attention_over_parameters_has_no_biases():
    with pytest.raises(ValueError, match="bias_initializer"):
        ParameterAttention(2, 3, 4, bias_initializer="ones")
    options = dict(feed_forward="parameter_attention", parameter_attention_heads=2)
    layer = TransformerEncoder(16, 2, kernel_initializer="ones", bias_initializer="ones", **options)
    layer(np.zeros((1, 2, 8), np.float32))
    assert len(layer.feed_forward.weights) == 4
    assert all((weight.numpy() == 1).all() for weight in layer.feed_forward.weights)


@keras.saving.register_keras_serializable("tests")
def doubled_relu(x):
    return 2 * keras.ops.relu(x)


@pytest.mark.parametrize(
    "activation", [doubled_relu, lambda x: 2 * keras.ops.relu(x), keras.layers.LeakyReLU(0.5)]
)
@pytest.mark.parametrize("kind", [TransformerEncoder, TransformerDecoder])
def test_a_function_of_the_user_s_own_as_activation(random, tmp_path, kind, activation):
    x = random.normal(size=(2, 3, 8)).astype(np.float32)
    layer = kind(16, 2, activation=activation)
    model = keras.Sequential([keras.Input((None, 8)), layer])
    inner = layer.feed_forward.inner
    product = x @ inner.kernel.numpy()
    np.testing.assert_allclose(inner(x), activation(product), atol=1e-6)
    if activation.__class__.__name__ != "function" or activation is doubled_relu:
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        np.testing.assert_allclose(loaded(x), model(x), atol=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_place_in_a_cache_in_any_type(random, dtype):
    decoder = TransformerDecoder(12, 2)
    x = random.normal(size=(1, 1, 8)).astype(np.float32)
    cache = random.normal(size=(1, 2, 4, 2, 4)).astype(np.float32)
    expected = decoder(x, self_attention_cache=cache, self_attention_cache_update_index=2)
    for index in (np.array(2, dtype), keras.ops.convert_to_tensor(2, dtype)):
        output = decoder(x, self_attention_cache=cache, self_attention_cache_update_index=index)
        for ours, theirs in zip(output, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("index", [-1, 4])
def test_what_does_not_fit_into_a_cache_is_refused(index):
    cache = dict(self_attention_cache=np.zeros((1, 2, 4, 2, 4), np.float32))
    cache["self_attention_cache_update_index"] = index
    with refused("bad_value"):
        TransformerDecoder(12, 2)(np.zeros((1, 1, 8), np.float32), **cache)


def test_a_cache_takes_the_next_position_in_rows(random):
    decoder = TransformerDecoder(12, 2)
    x, memory = (random.normal(size=(2, length, 8)).astype(np.float32) for length in (1, 3))
    decoder.build(x.shape, memory.shape)
    cache = np.zeros((2, 2, 4, 2, 4), np.float32)
    caches = dict(self_attention_cache=cache, self_attention_cache_update_index=0)
    caches |= dict(cross_attention_cache=np.zeros((2, 2, 3, 2, 4), np.float32))
    caches |= dict(cross_attention_cache_update_index=0)
    expected = decoder(x, memory, **caches)
    layouts = dict(layout=DenseLayout(2, 1), memory_layout=DenseLayout(2, 3))
    outputs = decoder(x[:, 0], memory.reshape(6, 8), **caches, **layouts)
    np.testing.assert_allclose(outputs[0], expected[0][:, 0], atol=1e-6)
    for output, other in zip(outputs[1:], expected[1:], strict=True):
        np.testing.assert_allclose(output, other, atol=1e-6)


def test_a_residual_in_a_functional_model_is_saved_and_loaded(random, randomised, tmp_path):
    x = random.normal(size=(2, 3, 8)).astype(np.float32)
    symbols = keras.Input((None, 8))
    residual = Residual(0.1, pre_norm=True)
    model = randomised(keras.Model(symbols, residual.apply(FeedForward(12), symbols)))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(x), model(x))
    feed_forward = model.get_layer(index=2)
    expected = x + feed_forward(residual.norm(x)).numpy()
    np.testing.assert_allclose(model(x), expected, atol=1e-5)


def test_a_place_without_a_cache_is_refused():
    with refused("bad_value", "self_attention_cache"):
        decoder = TransformerDecoder(12, 2)
        decoder(np.zeros((1, 1, 8), np.float32), self_attention_cache_update_index=0)


@pytest.mark.parametrize("wrong", [dict(intermediate_dim=16.5), dict(num_heads="two")])
def test_sizes_are_integers(wrong):
    with refused("bad_value"):
        TransformerEncoder(**wrong)
