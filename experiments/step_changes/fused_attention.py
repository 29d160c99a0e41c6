"""Scaled dot-product attention as one kernel of a GPU (Pallas, Triton), for packed rows.

    python fused_attention.py    # compares it with plain attention, on any device

Scores are never written to memory; the gradient computes them again (Dao et al., 2022).
"""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

_BLOCK = 64  # Queries, or keys, that a program computes at once.
_HIDDEN = -1e9


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def fused_attention(query, key, value, mask, interpret=False):
    """softmax(Q K^T / sqrt(d_k)) V; a query without any visible key gets zeros.

    Args:
      query: [batch, heads, query length, d_k]; lengths are multiples of 64, widths powers of two.
      key: [batch, heads, key length, d_k].
      value: [batch, heads, key length, d_v].
      mask: boolean [batch, query length, key length], True = visible.
      interpret: whether to run the kernel step by step, on any device.

    Returns:
      [batch, heads, query length, d_v].
    """
    return _forward_pass(query, key, value, mask, interpret)[0]


def _forward(q, k, v, mask, out, log_sums):
    query = q[...]

    def add_block(i, state):
        total, largest, result = state
        keys = pl.ds(i * _BLOCK, _BLOCK)
        visible = mask[:, keys] != 0
        scores = jnp.where(visible, triton.dot(query, k[keys, :], trans_b=True), _HIDDEN)
        new_largest = jnp.maximum(largest, scores.max(axis=1))
        weights = jnp.where(visible, jnp.exp(scores - new_largest[:, None]), 0.0)
        factor = jnp.exp(largest - new_largest)
        result = result * factor[:, None] + triton.dot(weights.astype(v.dtype), v[keys, :])
        return total * factor + weights.sum(axis=1), new_largest, result

    start = jnp.zeros(_BLOCK), jnp.full(_BLOCK, _HIDDEN), jnp.zeros(out.shape, jnp.float32)
    total, largest, result = jax.lax.fori_loop(0, k.shape[0] // _BLOCK, add_block, start)
    total = jnp.maximum(total, 1e-30)
    out[...] = (result / total[:, None]).astype(out.dtype)
    log_sums[...] = largest + jnp.log(total)


def _weights(query, key, value, upstream, log_sums, products, visible):
    """Returns a block's attention weights, and the gradient of its scores."""
    scores = triton.dot(query, key, trans_b=True)
    weights = jnp.where(visible, jnp.exp(scores - log_sums[:, None]), 0.0)
    return weights, weights * (triton.dot(upstream, value, trans_b=True) - products[:, None])


def _query_gradient(q, k, v, mask, upstream, log_sums, products, d_q):
    rows = upstream[...], log_sums[...], products[...]

    def add_block(i, total):
        keys = pl.ds(i * _BLOCK, _BLOCK)
        visible = mask[:, keys] != 0
        _, d_scores = _weights(q[...], k[keys, :], v[keys, :], *rows, visible)
        return total + triton.dot(d_scores.astype(k.dtype), k[keys, :])

    start = jnp.zeros(d_q.shape, jnp.float32)
    d_q[...] = jax.lax.fori_loop(0, k.shape[0] // _BLOCK, add_block, start).astype(d_q.dtype)


def _key_gradient(q, k, v, mask, upstream, log_sums, products, d_k, d_v):
    key, value = k[...], v[...]

    def add_block(i, state):
        rows = pl.ds(i * _BLOCK, _BLOCK)
        query, gradient, visible = q[rows, :], upstream[rows, :], mask[rows, :] != 0
        sums = log_sums[rows], products[rows]
        weights, d_scores = _weights(query, key, value, gradient, *sums, visible)
        return (
            state[0] + triton.dot(d_scores.astype(query.dtype), query, trans_a=True),
            state[1] + triton.dot(weights.astype(gradient.dtype), gradient, trans_a=True),
        )

    start = jnp.zeros(d_k.shape, jnp.float32), jnp.zeros(d_v.shape, jnp.float32)
    totals = jax.lax.fori_loop(0, q.shape[0] // _BLOCK, add_block, start)
    d_k[...], d_v[...] = (total.astype(d_k.dtype) for total in totals)


def _call(kernel, arguments, results, interpret):
    """Calls a kernel for each row, head and block of the first result's side.

    Arguments and results are pairs of an array, [rows, heads, ...] or without heads the mask, and
    the number of the axis that is divided into blocks, or None.
    """

    def spec(x, divided):
        leading = 1 if x.dtype == jnp.int8 else 2
        block = [*[None] * leading, *x.shape[leading:]]
        if divided:
            block[divided] = _BLOCK
        at = lambda *place: (*place[:leading], *(place[2] * (a == divided) for a in axes))  # noqa: E731
        axes = range(leading, x.ndim)
        return pl.BlockSpec(tuple(block), at)

    return pl.pallas_call(
        kernel,
        grid=(*results[0][0].shape[:2], results[0][0].shape[2] // _BLOCK),
        in_specs=[spec(*argument) for argument in arguments],
        out_specs=[spec(*result) for result in results],
        out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x, _ in results],
        compiler_params=triton.CompilerParams(num_warps=4),
        interpret=interpret,
    )(*(x for x, _ in arguments))


def _forward_pass(query, key, value, mask, interpret):
    query = query * query.shape[-1] ** -0.5
    mask = mask.astype(jnp.int8)
    out = jax.ShapeDtypeStruct((*query.shape[:3], value.shape[3]), value.dtype)
    log_sums = jax.ShapeDtypeStruct(query.shape[:3], jnp.float32)
    arguments = (query, 2), (key, None), (value, None), (mask, 1)
    out, log_sums = _call(_forward, arguments, ((out, 2), (log_sums, 2)), interpret)
    return out, (query, key, value, mask, out, log_sums)


def _backward_pass(interpret, residuals, upstream):
    query, key, value, mask, out, log_sums = residuals
    products = (out.astype(jnp.float32) * upstream.astype(jnp.float32)).sum(axis=-1)
    arrays = query, key, value, mask, upstream, log_sums, products
    by_query = list(zip(arrays, (2, None, None, 1, 2, 2, 2), strict=True))
    by_key = list(zip(arrays, (None, 2, 2, 2, None, None, None), strict=True))
    (d_query,) = _call(_query_gradient, by_query, [(query, 2)], interpret)
    d_key, d_value = _call(_key_gradient, by_key, [(key, 2), (value, 2)], interpret)
    return d_query * query.shape[-1] ** -0.5, d_key, d_value, None


fused_attention.defvjp(_forward_pass, _backward_pass)


def main() -> None:
    """Compares outputs and gradients with plain attention; compiles the kernels for CUDA."""
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = (2, 2, 128, 32), (2, 2, 192, 32), (2, 2, 192, 16)
    arrays = [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=False)]
    mask = jax.random.uniform(keys[3], (2, 128, 192)) < 0.02

    def plain(query, key, value):
        scores = jnp.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
        weights = jax.nn.softmax(jnp.where(mask[:, None], scores, _HIDDEN))
        return jnp.einsum("bhqk,bhkd->bhqd", jnp.where(mask[:, None], weights, 0.0), value)

    def fused(*arrays):
        return fused_attention(*arrays, mask, True)

    def gradients(function):
        return jax.grad(lambda *x: jnp.sin(function(*x)).sum(), argnums=(0, 1, 2))(*arrays)

    pairs = zip(
        (fused(*arrays), *gradients(fused)), (plain(*arrays), *gradients(plain)), strict=True
    )
    print("largest differences:", *(f"{abs(a - b).max():.1e}" for a, b in pairs))
    row = jax.ShapeDtypeStruct((97, 16, 256, 64), jnp.bfloat16)
    masks = jax.ShapeDtypeStruct((97, 256, 256), jnp.bool_)
    step = jax.jit(jax.grad(lambda *x: fused_attention(*x).astype(jnp.float32).sum(), (0, 1, 2)))
    text = step.trace(row, row, row, masks).lower(lowering_platforms=("cuda",)).as_text()
    print("kernels for CUDA:", text.count("custom_call @"))


if __name__ == "__main__":
    main()
