"""Table 1: the paper's formulas, and our layers counted against closed forms."""

import pytest

from t2t_keras.errors import UserError
from t2t_keras.tables.complexity import Sizes, complexity_table
from t2t_keras.tables.traced_attention import layers_until_all_meet, trace_attention


@pytest.mark.parametrize(("n", "d"), [(10, 16), (33, 64)])
def test_full_attention_multiplies_every_pair_twice(n, d):
    traced = trace_attention(n, d)
    assert traced.multiplications == 2 * n * n * d
    assert traced.projections == 4 * n * d * d
    assert traced.loops == 0


@pytest.mark.parametrize(
    ("n", "radius", "block"), [(64, 4, 16), (128, 4, 16), (100, 20, 20), (24, 64, 24), (5, 4, 5)]
)
def test_restricted_attention_multiplies_three_blocks_a_position(n, radius, block):
    traced = trace_attention(n, 32, radius)
    assert traced.multiplications == 2 * n * 3 * block * 32
    assert traced.projections == 4 * n * 32 * 32
    assert traced.loops == 0


@pytest.mark.parametrize(
    ("n", "radius", "layers"), [(7, 0, 1), (40, 0, 1), (40, 13, 3), (41, 13, 4), (40, 1, 39)]
)
def test_layers_until_the_ends_meet(n, radius, layers):
    assert layers_until_all_meet(n, radius) == layers


def test_rows_for_the_paper_s_sizes():
    rows = {row["layer"]: row for row in complexity_table(Sizes(n=64, d=512, k=3, r=9)).rows}
    assert rows["self-attention"]["operations"] == 2_097_152
    assert rows["recurrent"]["operations"] == 16_777_216
    assert rows["recurrent"]["path"] == 64
    assert rows["convolutional (dilated)"]["operations"] == 50_331_648
    assert 3 ** rows["convolutional (dilated)"]["path"] == pytest.approx(64)
    assert rows["convolutional (contiguous)"]["path"] == pytest.approx(21.3333, abs=1e-4)
    assert rows["separable convolutional"]["operations"] == 98_304 + 16_777_216
    assert rows["self-attention (restricted)"]["operations"] == 294_912
    assert rows["self-attention (restricted)"]["path"] == pytest.approx(7.1111, abs=1e-4)
    ours = rows["self-attention"]
    assert ours["our_multiplications"] == 2 * 2_097_152
    assert (ours["our_sequential"], ours["our_path"]) == (1, 1)
    ours = rows["self-attention (restricted)"]
    assert ours["our_multiplications"] == 2 * 64 * 48 * 512
    assert (ours["our_sequential"], ours["our_path"]) == (1, 16)
    assert "our_path" not in rows["recurrent"]


@pytest.mark.parametrize("sizes", [Sizes(r=8), Sizes(r=1), Sizes(k=1)])
def test_sizes_that_mean_nothing(sizes):
    with pytest.raises(UserError, match=r"--[rk]"):
        complexity_table(sizes)
