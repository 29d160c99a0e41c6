"""What an attention layer costs, found in the layer itself: its graph and its gradients.

Nothing here is computed from a formula, so that Table 1's formulas can be compared with it.
"""

import dataclasses
import math

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.layers import MultiHeadAttention

# What stands between a weight and the product that it enters.
_PASSES_ON = {"Cast", "Identity", "ReadVariableOp", "Reshape", "Transpose"}
_LOOPS = {"While", "StatelessWhile", "Scan"}
# Queries whose gradients are taken at once: it bounds the memory.
_QUERIES_AT_ONCE = 32


@dataclasses.dataclass(frozen=True)
class TracedAttention:
    """What was found in the graph of a self-attention layer, for one sentence.

    Attributes:
      multiplications: scalar multiplications of the matrix products of two activations: queries
        with keys, and attention weights with values.
      projections: those of the matrix products with a weight: W^Q, W^K, W^V and W^O.
      loops: loops over positions.
    """

    multiplications: int
    projections: int
    loops: int


def trace_attention(length: int, d_model: int, radius: int = 0) -> TracedAttention:
    """Traces a self-attention layer over one sentence and counts what its graph holds.

    Args:
      length: n, positions.
      d_model: d, divided among 8 heads where it can be.
      radius: how far a position sees; 0 = all positions.
    """
    heads = math.gcd(8, d_model)
    layer = MultiHeadAttention(heads, d_model // heads, radius=radius)
    layer.build((1, length, d_model))
    graph = tf.function(layer).get_concrete_function(tf.TensorSpec([1, length, d_model])).graph
    products = {True: 0, False: 0}
    loops = 0
    for operation in graph.get_operations():
        loops += operation.type in _LOOPS
        if count := _multiplications(operation):
            products[any(_is_weight(operand) for operand in operation.inputs)] += count
    return TracedAttention(products[False], products[True], loops)


def layers_until_all_meet(length: int, radius: int = 0) -> int:
    """Returns how many layers lie, at most, between an input and an output that depends on it.

    Which outputs of one layer depend on which inputs is read from gradients; how far stacked layers
    reach follows from that.

    Args:
      length: n, positions.
      radius: how far a position sees; 0 = all positions.
    """
    one_layer = _reached(length, radius)
    reached, layers = one_layer, 1
    while not reached.all():
        further = reached.astype(np.float32) @ one_layer.astype(np.float32) > 0
        if (further == reached).all():
            raise ValueError("Some outputs depend on some inputs through no number of layers.")
        reached, layers = further, layers + 1
    return layers


def _reached(length: int, radius: int) -> np.ndarray:
    """Returns whether the output at i depends on the input at j, boolean [length, length]."""
    # Who sees whom does not depend on the width.
    layer = MultiHeadAttention(num_heads=1, d_k=4, radius=radius)
    sentence = keras.random.normal((1, length, 4), seed=1)
    found = []
    for first in range(0, length, _QUERIES_AT_ONCE):
        queries = tf.range(first, min(first + _QUERIES_AT_ONCE, length))
        # A copy of the sentence for each query, so that its gradient is that query's alone.
        copies = tf.repeat(sentence, len(queries), axis=0)
        with tf.GradientTape() as tape:
            tape.watch(copies)
            outputs = tf.gather(layer(copies), queries, batch_dims=1)
        gradients = tape.gradient(outputs, copies)
        found.append((gradients.numpy() != 0).any(axis=-1))
    return np.concatenate(found)


def _multiplications(operation: tf.Operation) -> int:
    """Returns how many multiplications of scalars a matrix product needs; 0 for anything else."""
    if operation.type == "Einsum":
        inputs, _, _ = operation.get_attr("equation").decode().partition("->")
        sizes = {}
        for labels, operand in zip(inputs.split(","), operation.inputs, strict=True):
            sizes |= dict(zip(labels, operand.shape, strict=True))
        return math.prod(sizes.values())
    if operation.type == "MatMul" or operation.type.startswith("BatchMatMul"):
        # Each number of the result sums up as many products as the left factor's rows are long.
        transposed = {"MatMul": "transpose_a"}.get(operation.type, "adj_x")
        left = operation.inputs[0].shape
        return (
            math.prod(operation.outputs[0].shape)
            * left[-2 if operation.get_attr(transposed) else -1]
        )
    return 0


def _is_weight(tensor: tf.Tensor) -> bool:
    while tensor.op.type in _PASSES_ON:
        tensor = tensor.op.inputs[0]
    return tensor.dtype == tf.resource
