"""Masks reach attention as they reach `keras.layers.MultiHeadAttention`, on every backend.

Eager, in a functional model, and in a subclassed one, the latter two compiled by `predict`.
`test_on_jax` calls this on JAX.
"""

import keras
import numpy as np
import pytest

from t2t_keras.layers import (
    MultiHeadAttention,
    RestrictedSelfAttention,
    TransformerDecoder,
    TransformerEncoder,
)

HEADS, WIDTH, LENGTH = 2, 8, 5
QUERY = np.array([[3, 2, 4, 1, 5], [4, 1, 0, 0, 0]], np.int32)
VALUE = np.array([[1, 2, 0, 0, 0], [5, 4, 3, 2, 0]], np.int32)
ALLOWED = np.random.default_rng(0).random((2, LENGTH, LENGTH)) < 0.7
ALLOWED |= np.eye(LENGTH, dtype=bool)
INPUTS = [QUERY, VALUE, ALLOWED]
# By name: whether it is self-attention, and the arguments of the call.
CASES = {
    "self": (True, {}),
    "causal": (True, {"use_causal_mask": True}),
    "attention mask": (True, {"attention_mask": True}),
    "cross": (False, {}),
    "cross with an attention mask": (False, {"attention_mask": True}),
    "explicit": (True, {"query_mask": True, "value_mask": True}),
    "explicit, of keys": (False, {"key_mask": True, "attention_mask": True}),
}
# By name: the layer, whether it reads the second ids, and the names of its explicit masks.
LAYERS = {
    "restricted": (
        lambda: RestrictedSelfAttention(1, HEADS, 3),
        False,
        ("query_mask", "value_mask"),
    ),
    "encoder": (lambda: TransformerEncoder(12, HEADS), False, ("padding_mask",)),
    "decoder": (
        lambda: TransformerDecoder(12, HEADS),
        True,
        ("decoder_padding_mask", "encoder_padding_mask"),
    ),
}


class Subclassed(keras.Model):
    """Calls a layer with embedded ids; options that are True become their masks."""

    def __init__(self, embedding, layer, inputs, options):
        super().__init__()
        self.embedding, self.layer = embedding, layer
        self.inputs_read, self.options = inputs, options

    def call(self, inputs):
        query, value, allowed = inputs
        masks = {"attention_mask": allowed, "query_mask": keras.ops.not_equal(query, 0)}
        read = query if self.inputs_read == 1 else value
        masks |= dict.fromkeys(("value_mask", "key_mask"), keras.ops.not_equal(read, 0))
        options = {name: masks.get(name, option) for name, option in self.options.items()}
        query = self.embedding(query)
        value = query if self.inputs_read == 1 else self.embedding(value)
        if not isinstance(self.layer, MultiHeadAttention | keras.layers.MultiHeadAttention):
            return self.layer(*[query, value][: self.inputs_read])
        return self.layer(query, value, **options)


def outputs_of(embedding, layer, inputs, options):
    """Returns what a layer computes eagerly, subclassed and compiled, and functional."""
    model = Subclassed(embedding, layer, inputs, options)
    symbols = [keras.Input((LENGTH,), dtype="int32") for _ in range(2)]
    symbols.append(keras.Input((LENGTH, LENGTH), dtype="bool"))
    functional = keras.Model(symbols, model.call(symbols))
    eager = keras.ops.convert_to_numpy(model(list(map(keras.ops.array, INPUTS))))
    return eager, model.predict(INPUTS, verbose=0), functional.predict(INPUTS, verbose=0)


def pair_of_layers():
    """Returns our layer and Keras's with the same weights."""
    ours = MultiHeadAttention(HEADS, 3)
    theirs = keras.layers.MultiHeadAttention(HEADS, 3, use_bias=False)
    ours.build((None, None, WIDTH), (None, None, WIDTH))
    theirs.build((None, None, WIDTH), (None, None, WIDTH))
    for name in ("query", "key", "value", "output"):
        kernel = keras.ops.convert_to_numpy(getattr(ours, f"{name}_projection").kernel)
        weight = getattr(theirs, f"_{name}_dense").kernel
        weight.assign(kernel.reshape(weight.shape))
    return ours, theirs


@pytest.mark.parametrize("name", CASES)
def test_masks(name):
    is_self, options = CASES[name]
    embedding = keras.layers.Embedding(9, WIDTH, mask_zero="explicit" not in name)
    inputs = 1 if is_self else 2
    ours, theirs = (
        outputs_of(embedding, pair_layer, inputs, options) for pair_layer in pair_of_layers()
    )
    # A query that sees nothing gets zeros here, a mean there.
    visible = ((QUERY if is_self else VALUE) != 0)[:, None] & np.ones((LENGTH, 1), bool)
    visible = visible & ALLOWED if options.get("attention_mask") else visible
    real = (QUERY != 0) & visible.any(-1)
    for output in (*ours, *theirs):
        np.testing.assert_allclose(output[real], theirs[-1][real], atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_masks_of_other_layers(name):
    make, has_memory, masks = LAYERS[name]
    layer, embedding = make(), keras.layers.Embedding(9, WIDTH, mask_zero=True)
    outputs = outputs_of(embedding, layer, 1 + has_memory, {})
    # The same masks as arguments, beside tensors that have none.
    tensors = [keras.ops.array(keras.ops.convert_to_numpy(embedding(ids))) for ids in INPUTS[:2]]
    of_ids = [QUERY != 0, (VALUE if has_memory else QUERY) != 0]
    explicit = dict(zip(masks, map(keras.ops.array, of_ids), strict=False))
    expected = keras.ops.convert_to_numpy(layer(*tensors[: 1 + has_memory], **explicit))
    unmasked = keras.ops.convert_to_numpy(layer(*tensors[: 1 + has_memory]))
    assert np.abs(expected - unmasked)[QUERY != 0].max() > 1e-3
    for output in outputs:
        np.testing.assert_allclose(output[QUERY != 0], expected[QUERY != 0], atol=1e-5)


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_padding_attends_to_nothing(name):
    make, _, (mask, *_) = LAYERS[name]
    x, is_token = keras.random.normal((2, LENGTH, WIDTH)), QUERY != 0
    _, weights = make()(x, **{mask: is_token}, return_attention_scores=True)
    visible = is_token[:, None, :, None] & is_token[:, None, None, :]
    visible = np.tril(visible) if name == "decoder" else visible
    expected = np.repeat(visible, HEADS, axis=1)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(weights) > 0, expected)
