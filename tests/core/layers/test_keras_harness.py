"""Keras's own harness for layers, `run_layer_test`. `test_on_jax` calls this on JAX.

It checks configs, shapes before and after a call, symbols, seeds, types, a training step, saving,
cloning and pickling, with quantized and half-precision policies too.
"""

import keras
import pytest

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

testing = pytest.importorskip("keras.src.testing")
pytestmark = [
    pytest.mark.filterwarnings("ignore:.shuffle=True. was passed:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*rms_scaling=True.*:UserWarning"),
]

X, Y = (2, 5, 8), (2, 3, 8)
PAIR = {"query_shape": Y, "value_shape": X}
DECODER = {"decoder_sequence_shape": Y, "encoder_sequence_shape": X}
REGULARIZED = dict(activity_regularizer="l2", kernel_regularizer="l2")
STACK = dict(intermediate_dim=12, num_heads=2, dropout=0.1)
# A layer, its arguments, shapes of its inputs and of its output, its weights, and its seeds.
CASES = [
    (MultiHeadAttention, dict(num_heads=2, key_dim=3, dropout=0.1), X, X, 4, 1),
    (MultiHeadAttention, dict(num_heads=2, d_k=4, d_v=5, use_bias=True, rotary=True), X, X, 8, 0),
    (MultiHeadAttention, dict(num_heads=2, key_dim=3, **REGULARIZED), PAIR, Y, 4, 0),
    (RestrictedSelfAttention, dict(radius=1, num_heads=2, key_dim=3, dropout=0.1), X, X, 4, 1),
    (FeedForward, dict(d_ff=12, dropout=0.1, **REGULARIZED), X, X, 4, 1),
    (FeedForward, dict(d_ff=12, activation=keras.activations.silu), X, X, 4, 0),
    (ParameterAttention, dict(num_heads=2, num_pairs=6, d_k=3, dropout=0.1), X, X, 4, 1),
    (ParameterAttention, dict(num_heads=2, num_pairs=6, d_k=3, **REGULARIZED), X, X, 4, 0),
    (Residual, dict(dropout=0.1), {"x_shape": X, "sublayer_output_shape": X}, X, 2, 1),
    (LayerNormalization, dict(), X, X, 2, 0),
    (LayerNormalization, dict(axis=[1, 2], center=False), X, X, 1, 0),
    (LayerNormalization, dict(rms_scaling=True), X, X, 1, 0),
    (LearnedPositions, dict(max_positions=6, activity_regularizer="l2"), X, X, 1, 0),
    (SinusoidalPositions, dict(), X, X, 0, 0),
    (SharedEmbedding, dict(vocab_size=9, d_model=8), (2, 5), X, 1, 0),
    (TransformerEncoder, STACK, X, X, 12, 2),
    (TransformerEncoder, STACK | dict(normalize_first=True, seed=7), X, X, 12, 2),
    (TransformerEncoder, STACK | dict(kernel_regularizer="l2"), X, X, 12, 2),
    (TransformerDecoder, STACK, DECODER, Y, 18, 3),
    (TransformerDecoder, STACK, Y, Y, 12, 2),
]


@pytest.mark.parametrize(("kind", "arguments", "shapes", "output", "weights", "seeds"), CASES)
def test_layer(kind, arguments, shapes, output, weights, seeds):
    of_inputs = dict(input_shape=shapes)
    if kind is SharedEmbedding:
        of_inputs["input_dtype"] = "int32"
    testing.TestCase().run_layer_test(
        kind,
        init_kwargs=arguments,
        **of_inputs,
        expected_output_shape=output,
        expected_num_trainable_weights=weights,
        expected_num_seed_generators=seeds,
        expected_num_losses=None,
        supports_masking=True,
        # Its model has one input, and weights.
        run_training_check=weights > 0 and not isinstance(shapes, dict),
        # Types are the same on every backend, and each takes as long as all else.
        run_mixed_precision_check=keras.backend.backend() == "tensorflow",
    )
