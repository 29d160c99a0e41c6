"""Table 1: what layers cost, by the paper's formulas and counted from our attention layers."""

import dataclasses
import math
from collections.abc import Callable

from t2t_keras.errors import UserError
from t2t_keras.tables.rendering import Table


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What the formulas of Table 1 are about.

    Attributes:
      n: length of the sequence.
      d: width of the representations.
      k: width of a convolution's kernel.
      r: size of the neighbourhood of restricted self-attention, centred on its position.
    """

    n: int = 64
    d: int = 512
    k: int = 3
    r: int = 9


@dataclasses.dataclass(frozen=True)
class LayerKind:
    """A row of Table 1, with formulas up to a constant factor.

    Attributes:
      name: the kind of layer.
      operations: per layer.
      sequential: operations that must wait for each other.
      path: the longest way between an input and an output, in layers.
      values: the three as functions of the sizes.
    """

    name: str
    operations: str
    sequential: str
    path: str
    values: tuple[Callable[[Sizes], float], ...]


def _one(sizes: Sizes) -> int:
    return 1


_SELF_ATTENTION = LayerKind(
    "self-attention", "n²·d", "1", "1", (lambda s: s.n**2 * s.d, _one, _one)
)
_RESTRICTED = LayerKind(
    "self-attention (restricted)",
    "r·n·d",
    "1",
    "n/r",
    (lambda s: s.r * s.n * s.d, _one, lambda s: s.n / s.r),
)
# Table 1; the last two are those of the text of section 4.
LAYER_KINDS = (
    _SELF_ATTENTION,
    LayerKind(
        "recurrent", "n·d²", "n", "n", (lambda s: s.n * s.d**2, lambda s: s.n, lambda s: s.n)
    ),
    LayerKind(
        "convolutional (dilated)",
        "k·n·d²",
        "1",
        "log_k(n)",
        (lambda s: s.k * s.n * s.d**2, _one, lambda s: math.log(s.n, s.k)),
    ),
    _RESTRICTED,
    LayerKind(
        "convolutional (contiguous)",
        "k·n·d²",
        "1",
        "n/k",
        (lambda s: s.k * s.n * s.d**2, _one, lambda s: s.n / s.k),
    ),
    LayerKind(
        "separable convolutional",
        "k·n·d + n·d²",
        "1",
        "n/k",
        (lambda s: s.k * s.n * s.d + s.n * s.d**2, _one, lambda s: s.n / s.k),
    ),
)

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
_NOTES = (
    (
        "The paper's columns hold up to a constant factor. Ours are counted in the graph of "
        "MultiHeadAttention over one sentence: the multiplications of scalars in Q K^T and in "
        "weights·V, so twice n²·d; the four projections are not among them (in JSON they are "
        "our_projections)."
    ),
    (
        "Restricted self-attention computes blocks of max(radius, 16) positions, or of n where "
        "that is less, against themselves and the blocks beside them, r = 2·radius + 1, and masks "
        "what lies beyond the radius: more than r positions, but as many for any n."
    ),
    (
        "Sequential: 1 where the graph has no loop. Path: layers until every output has a gradient "
        "with respect to every input; with a radius the ends are (n - 1) / radius layers apart."
    ),
)


def complexity_table(sizes: Sizes) -> Table:
    """Returns Table 1 for these sizes.

    Raises:
      UserError: the sizes do not fit together.
    """
    if sizes.k < 2 or sizes.n < 2 or sizes.d < 1:
        raise UserError("Table 1 needs --n and --k of at least 2 and --d of at least 1.")
    if sizes.r < 3 or sizes.r % 2 == 0:
        raise UserError(
            f"--r={sizes.r}: a neighbourhood centred on its position has an odd number of at least "
            f"3 positions, 2 * self_attention_radius + 1."
        )
    radius = {_SELF_ATTENTION: 0, _RESTRICTED: (sizes.r - 1) // 2}
    rows = []
    for kind in LAYER_KINDS:
        operations, sequential, path = (value(sizes) for value in kind.values)
        row = {
            "layer": kind.name,
            "operations_formula": kind.operations,
            "sequential_formula": kind.sequential,
            "path_formula": kind.path,
            "operations": operations,
            "sequential": sequential,
            "path": path,
        }
        if kind in radius:
            row |= _counted(sizes, radius[kind])
        rows.append(row)
    n, d, k, r = dataclasses.astuple(sizes)
    return Table(
        title=f"Table 1: complexity of a layer for n={n}, d={d}, k={k}, r={r}",
        columns=_COLUMNS,
        rows=rows,
        notes=_NOTES,
    )


def _counted(sizes: Sizes, radius: int) -> dict[str, int]:
    from t2t_keras.tables.traced_attention import layers_until_all_meet, trace_attention

    traced = trace_attention(sizes.n, sizes.d, radius)
    return {
        "our_multiplications": traced.multiplications,
        "our_projections": traced.projections,
        # Without a loop nothing waits for the positions before it.
        "our_sequential": sizes.n if traced.loops else 1,
        "our_path": layers_until_all_meet(sizes.n, radius),
    }
