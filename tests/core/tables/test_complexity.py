"""Table 1: the paper's formulas, and our layers counted against the graph that they make."""

import math

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.layers import MultiHeadAttention, RestrictedSelfAttention
from t2t_keras.tables import attention_cost, complexity_table


@pytest.mark.parametrize(
    ("n", "d", "radius"),
    [(33, 64, 0), (64, 32, 4), (100, 32, 20), (24, 32, 64), (5, 16, 4)],
)
def test_multiplications_are_those_of_the_graph(n, d, radius):
    sizes = 4, d // 4
    layer = RestrictedSelfAttention(radius, *sizes) if radius else MultiHeadAttention(*sizes)
    graph = tf.function(layer).get_concrete_function(tf.TensorSpec([1, n, d])).graph
    actual = {"MatMul": 0, "BatchMatMulV2": 0}
    for product in graph.get_operations():
        if product.type in actual:
            inner = product.inputs[0].shape[-1]
            actual[product.type] += math.prod(product.outputs[0].shape) * inner
    cost = attention_cost(n, d, radius)
    assert list(actual.values()) == [cost["our_projections"], cost["our_multiplications"]]


@pytest.mark.parametrize(("n", "radius"), [(7, 0), (40, 13), (41, 13), (40, 20), (12, 1)])
def test_path_is_the_layers_until_every_position_sees_every_other(n, radius):
    position = np.arange(n)
    sees = np.abs(position[:, None] - position) <= (radius or n)
    reached, layers = sees, 1
    while not reached.all():
        reached, layers = reached @ sees, layers + 1
    assert attention_cost(n, 16, radius)["our_path"] == layers


def test_rows_for_the_paper_s_sizes():
    rows = {row["layer"]: row for row in complexity_table(n=64, d=512, k=3, r=9).rows}
    assert [(row["operations"], round(row["path"], 4)) for row in rows.values()] == [
        (2_097_152, 1),
        (16_777_216, 64),
        (50_331_648, 3.7856),
        (294_912, 7.1111),
        (50_331_648, 21.3333),
        (98_304 + 16_777_216, 21.3333),
    ]
    ours = [name for name, row in rows.items() if "our_path" in row]
    assert ours == ["self-attention", "self-attention (restricted)"]
    restricted = rows["self-attention (restricted)"]
    # Nine positions are four on either side: 63 / 4 layers.
    assert (restricted["our_multiplications"], restricted["our_path"]) == (2 * 64 * 48 * 512, 16)
