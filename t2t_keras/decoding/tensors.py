"""Tensor operations of the search beyond `keras.ops`, on TensorFlow and on JAX.

On TensorFlow a search is one graph for all shapes. JAX compiles it for each shape.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

IS_JAX = keras.config.backend() == "jax"
if IS_JAX:
    import jax
    import jax.numpy as jnp
else:
    import tensorflow as tf

Tensor = Any  # a tensor of Keras's backend
# Shape and type of an argument; None = any length.
Signature = tuple[tuple[int | None, ...], str]

# TensorFlow's default generator differs under XLA and between devices.
_RANDOM_ALGORITHM = "philox"


def compiled(
    function: Callable, signatures: Sequence[Signature], models: Sequence[keras.Model]
) -> Any:
    """Returns a function as a graph, which reads the models' weights at every call."""
    if not IS_JAX:
        # Autograph has nothing to convert here, and took most of the start-up time.
        specs = [tf.TensorSpec(*signature) for signature in signatures]
        return tf.function(function, input_signature=specs, autograph=False)
    variables = [variable for model in models for variable in model.variables]

    @jax.jit
    def stateless(values: list[Any], *arguments: Any) -> Any:
        # Captured arrays would be compiled as constants.
        with keras.StatelessScope(zip(variables, values, strict=True)):
            return function(*arguments)

    def call(*arguments: Any) -> Any:
        # While a run trains on several devices, each has all weights; the first one searches.
        values = [variable.value.addressable_data(0) for variable in variables]
        types = [dtype for _, dtype in signatures]
        return stateless(values, *map(np.asarray, arguments, types))

    return call


def compiled_with_xla(function: Callable) -> Callable:
    """Returns a function that XLA compiles for each shape; JAX compiles the whole search."""
    return function if IS_JAX else tf.function(function, jit_compile=True, autograph=False)


def is_eager() -> bool:
    """Returns whether tensors have values now."""
    return IS_JAX or tf.executing_eagerly()


def has_gpu() -> bool:
    """Returns whether the process uses a GPU."""
    return jax.default_backend() == "gpu" if IS_JAX else bool(tf.config.get_visible_devices("GPU"))


def set_threads(count: int) -> None:
    """Limits the threads of an operator; `RuntimeError` after TensorFlow's first computation."""
    if not IS_JAX:
        tf.config.threading.set_intra_op_parallelism_threads(count)


def free_shape(x: Tensor, *axes: int) -> Any:
    """Returns a tensor's shape for `loop`, in which `axes` may change their lengths."""
    return tf.TensorShape([None if axis in axes else size for axis, size in enumerate(x.shape)])


def loop(has_work: Callable, body: Callable, state: tuple, shapes: tuple) -> tuple:
    """Runs a `while` loop whose tensors change their shapes; not on JAX."""
    return tf.while_loop(has_work, body, state, shape_invariants=shapes)


def gather(x: Tensor, indices: Tensor, axis: int = 0, batch_dims: int = 0) -> Tensor:
    """Gathers entries of x along an axis; x and `indices` share the first `batch_dims` axes."""
    axis = max(axis, batch_dims)
    if not IS_JAX:
        return tf.gather(x, indices, axis=axis, batch_dims=batch_dims)
    take = functools.partial(jnp.take, axis=axis - batch_dims, mode="clip")
    for _ in range(batch_dims):
        take = jax.vmap(take)
    return take(x, indices)


def exclusive_cumsum(x: Tensor, axis: int) -> Tensor:
    """Returns, for each entry, the sum of the entries before it along an axis."""
    return jnp.cumsum(x, axis) - x if IS_JAX else tf.cumsum(x, axis=axis, exclusive=True)


def softmax(x: Tensor) -> Tensor:
    """Returns the softmax over the last axis; Keras's warns if that has only one entry."""
    return jax.nn.softmax(x) if IS_JAX else tf.nn.softmax(x)


def random_bits(seed: int, numbers: Tensor, index: Tensor, count: int) -> Tensor:
    """Returns integers int32 [B, count] that depend only on seed, numbers [B] and index [].

    TensorFlow and JAX draw different integers.
    """

    def draw_with_jax(number: Tensor) -> Tensor:
        key = jax.random.key(seed & 0xFFFFFFFF)
        for data in (seed >> 32 & 0xFFFFFFFF, number, index):
            key = jax.random.fold_in(key, data)
        return jax.random.bits(key, [count], "uint32").astype("int32")

    def draw(number: Tensor) -> Tensor:
        random = tf.random.experimental
        key = random.stateless_fold_in([seed, 0], number, _RANDOM_ALGORITHM)
        key = random.stateless_fold_in(key, index, _RANDOM_ALGORITHM)
        # Draw integers: XLA and TensorFlow's kernel convert the same bits to different floats.
        integers = dict(minval=None, maxval=None, dtype=tf.int32)
        return tf.random.stateless_uniform([count], key, **integers, alg=_RANDOM_ALGORITHM)

    if IS_JAX:
        return jax.vmap(draw_with_jax)(numbers)
    return tf.map_fn(draw, numbers, fn_output_signature=tf.int32)


def on_host(function: Callable, ids: Tensor, num_flags: int) -> Tensor:
    """Returns what a Python function computes from ids [B, S] on the host: bool [B, S, flags]."""
    if IS_JAX:
        shape = jax.ShapeDtypeStruct((*ids.shape, num_flags), bool)
        return jax.pure_callback(lambda x: function(np.asarray(x)), shape, ids)
    return tf.ensure_shape(tf.numpy_function(function, [ids], tf.bool), [None, None, num_flags])
