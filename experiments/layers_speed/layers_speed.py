"""The time of our layers beside Keras's attention and KerasHub's layers, in turns, in one process.

KERAS_BACKEND=tensorflow python experiments/layers_speed/layers_speed.py
KERAS_BACKEND=jax python experiments/layers_speed/layers_speed.py --dtypes=float32 --lengths=32,128

Prints a line for each case: the median of the other's time over ours, forward and for a training
step (forward, gradients of all weights). Above 1, ours is faster.
"""

import argparse
import statistics
import time

import keras
import keras_hub
import numpy as np

from t2t_keras.layers import (
    MultiHeadAttention,
    RaggedLayout,
    TransformerDecoder,
    TransformerEncoder,
)

WIDTH, HEADS, INNER, TOKENS = 512, 8, 2048, 2048
# Ours leaves the padding out, which takes shapes that depend on values: not on JAX.
PACKED = "encoder without the padding"


def layers(kind):
    """Returns our layer and the other's, each with what it is called with beside the inputs."""
    if "encoder" in kind:
        return TransformerEncoder(INNER, HEADS), keras_hub.layers.TransformerEncoder(INNER, HEADS)
    if kind == "decoder":
        return TransformerDecoder(INNER, HEADS), keras_hub.layers.TransformerDecoder(INNER, HEADS)
    size = WIDTH // HEADS
    return (
        MultiHeadAttention(HEADS, size),
        keras.layers.MultiHeadAttention(HEADS, size, use_bias=False),
    )


def call(kind, layer, x, memory, mask):
    """Returns the outputs of a layer, with the padding that it knows, or causal."""
    if kind == "encoder":
        return layer(x, padding_mask=mask)
    if kind == PACKED:
        if not isinstance(layer, TransformerEncoder):
            return layer(x, padding_mask=mask)
        layout = RaggedLayout(mask)
        return layout.unpack(layer(layout.pack(x), padding_mask=mask, layout=layout))
    if kind == "decoder":
        return layer(x, memory, encoder_padding_mask=mask)
    if kind == "causal attention":
        return layer(x, x, use_causal_mask=True)
    return layer(x, x, value_mask=mask)


def compiled(kind, layer, x, memory, mask, trained):
    """Returns a function without arguments that computes once, and waits for the result."""
    call(kind, layer, x, memory, mask)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        @tf.function
        def forward():
            return call(kind, layer, x, memory, mask)

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                total = tf.reduce_sum(tf.cast(call(kind, layer, x, memory, mask), tf.float32) ** 2)
            return tape.gradient(total, layer.trainable_variables)

        function = step if trained else forward
        return lambda: keras.tree.map_structure(lambda each: each.numpy().ravel()[:1], function())
    import jax

    weights = [weight.value for weight in layer.trainable_variables]
    others = [weight.value for weight in layer.non_trainable_variables]

    def outputs(weights):
        scope = keras.StatelessScope(
            [
                *zip(layer.trainable_variables, weights, strict=True),
                *zip(layer.non_trainable_variables, others, strict=True),
            ]
        )
        with scope:
            return call(kind, layer, x, memory, mask)

    def total(weights):
        return (outputs(weights).astype("float32") ** 2).sum()

    function = jax.jit(jax.grad(total) if trained else outputs)
    return lambda: jax.block_until_ready(function(weights))


def main():
    """Prints a line for each case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--lengths", default="32,128,512")
    parser.add_argument("--kinds", help="of layers; default: all")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    print("backend, type, length, layer: the other's time over ours, forward and step")
    for dtype in options.dtypes.split(","):
        keras.config.set_dtype_policy("mixed_bfloat16" if dtype == "bfloat16" else dtype)
        for length in map(int, options.lengths.split(",")):
            shape = (TOKENS // length, length, WIDTH)
            x, memory = (keras.ops.array(random.normal(size=shape), dtype) for _ in range(2))
            # As in batches of similar length: the shortest sentence has three quarters.
            lengths = random.integers(length * 3 // 4, length + 1, shape[0])
            mask = keras.ops.array(np.arange(length) < lengths[:, None])
            kinds = ["padded attention", "causal attention", "encoder", "decoder"]
            if keras.backend.backend() == "tensorflow":
                kinds.append(PACKED)
            for kind in kinds if not options.kinds else options.kinds.split(","):
                ratios = []
                for trained in (False, True):
                    functions = [
                        compiled(kind, layer, x, memory, mask, trained) for layer in layers(kind)
                    ]
                    times = []
                    for _ in range(options.rounds + 1):
                        for function in functions:
                            start = time.perf_counter()
                            function()
                            times.append(time.perf_counter() - start)
                    times = times[2:]  # The first is compiled.
                    pairs = zip(times[1::2], times[::2], strict=True)
                    ratios.append(statistics.median(theirs / ours for theirs, ours in pairs))
                name = f"{keras.backend.backend()}, {dtype}, {length}, {kind}"
                print(f"{name}: {ratios[0]:.2f} {ratios[1]:.2f}", flush=True)


if __name__ == "__main__":
    main()
