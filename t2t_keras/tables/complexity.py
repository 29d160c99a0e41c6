"""Table 1: what layers cost, by the paper's formulas and counted from our attention's shapes."""

import math

from t2t_keras.errors import UserError
from t2t_keras.layers.attention import block_length
from t2t_keras.tables.rendering import Table

_COLUMNS = {
    "layer": "layer",
    "operations_formula": "O(operations)",
    "sequential_formula": "O(sequential)",
    "path_formula": "O(path)",
    "operations": "operations",
    "sequential": "sequential",
    "path": "path",
    "our_multiplications": "our multiplications",
    "our_sequential": "our sequential",
    "our_path": "our path",
}
_NOTES = """
The paper's columns hold up to a constant factor. Ours follow from the shapes that
MultiHeadAttention computes with for one sentence: the multiplications of scalars in Q K^T and in
weights·V, so twice n²·d; the four projections are not included (in JSON: our_projections).

Restricted self-attention computes blocks of max(radius, 16) positions, or of n if that is less,
against themselves and the blocks beside them, r = 2·radius + 1, and masks what lies beyond the
radius: more than r positions, but as many for any n.

Sequential: 1, as nothing loops over positions. Path: layers until every output depends on every
input; with a radius the ends are (n - 1) / radius layers apart.
"""


def complexity_table(n: int = 64, d: int = 512, k: int = 3, r: int = 9) -> Table:
    """Returns Table 1 for n >= 2 positions of width d; its last two rows are from section 4's text.

    A convolution's kernel is k >= 2 positions wide, restricted self-attention's neighbourhood,
    centred on its position, r >= 3.
    """
    if r % 2 == 0:
        raise UserError(
            f"--r must be odd, as 2 * self_attention_radius + 1 is, got {r}.", code="bad_value"
        )
    separable = k * n * d + n * d**2
    # Formulas up to a constant factor, and their values: operations of a layer, those that must
    # wait for each other, and the longest way between an input and an output, in layers.
    layers = (
        ("self-attention", "n²·d", "1", "1", n**2 * d, 1, 1),
        ("recurrent", "n·d²", "n", "n", n * d**2, n, n),
        ("convolutional (dilated)", "k·n·d²", "1", "log_k(n)", k * n * d**2, 1, math.log(n, k)),
        ("self-attention (restricted)", "r·n·d", "1", "n/r", r * n * d, 1, n / r),
        ("convolutional (contiguous)", "k·n·d²", "1", "n/k", k * n * d**2, 1, n / k),
        ("separable convolutional", "k·n·d + n·d²", "1", "n/k", separable, 1, n / k),
    )
    rows = [dict(zip(_COLUMNS, layer, strict=False)) for layer in layers]
    rows[0] |= attention_cost(n, d)
    rows[3] |= attention_cost(n, d, radius=(r - 1) // 2)
    title = f"Table 1: complexity of a layer for n={n}, d={d}, k={k}, r={r}"
    return Table(title, _COLUMNS, rows, _NOTES)


def attention_cost(n: int, d: int, radius: int = 0) -> dict[str, int]:
    """Returns what our self-attention costs for a sentence of n positions, d wide.

    With a radius, a position sees so far; 0 = all positions.
    """
    block = block_length(radius, n) if radius else n
    queries, keys = math.ceil(n / block) * block, 3 * block if radius else n
    return {
        "our_multiplications": 2 * queries * keys * d,
        "our_projections": 4 * n * d * d,
        "our_sequential": 1,
        "our_path": math.ceil((n - 1) / radius) if radius else 1,
    }
