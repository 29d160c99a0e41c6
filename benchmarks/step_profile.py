"""Where the time of a training step goes: its operators, and its matrix products by themselves.

    python benchmarks/step_profile.py --hparams_set=transformer_base --vocab_size=32000
        --tokens=1024 --length=32 [--hparams=...]

Prints the median of some steps; what the same matrix products take when nothing else is done, in
turns with the steps; and milliseconds by operator, from a trace of one step by TensorFlow's
profiler. Operators run side by side, so that together they may take longer than the step.
"""

from absl import app, flags
from matrix_products import product_shapes, step_operations
from operator_trace import operator_table, traced
from profiled_model import VOCAB_SIZE, hparams, new_step
from turns import median_seconds

_TOKENS = flags.DEFINE_integer("tokens", 1024, "Tokens of the step on either side.")
_LENGTH = flags.DEFINE_integer("length", 32, "Tokens of each sentence.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Steps, and turns of products, that are timed.")
_ROWS = flags.DEFINE_integer("rows", 16, "Operators that are named; the others are one row.")


def main(_) -> None:
    """Times steps and products in turns, then traces a step."""
    import numpy as np

    from t2t_keras.data.batches import TokenArrays

    step = new_step()
    shape = (_TOKENS.value // _LENGTH.value, _LENGTH.value)
    ids = np.random.default_rng(0).integers(3, VOCAB_SIZE.value, shape, np.int32)
    parts = [[TokenArrays(ids, ids)]]

    def whole_step() -> None:
        float(step.update(step.steps_done(), parts)["loss"])

    shapes = product_shapes(hparams(), VOCAB_SIZE.value, *shape)
    products = [product for count, each in shapes for product in [product_of(*each)] * count]

    def all_products() -> None:
        for product in products:
            product()

    operations = step_operations(shapes)
    times = median_seconds(
        {"step": whole_step, "its matrix products alone": all_products}, _ROUNDS.value
    )
    print("| what | ms | GFLOP/s |\n|---|---|---|")
    for name, seconds in times.items():
        print(f"| {name} | {seconds * 1e3:,.0f} | {operations / seconds / 1e9:,.0f} |")

    print()
    print("\n".join(operator_table(traced(whole_step), _ROWS.value)))


def product_of(batch: int, m: int, k: int, n: int):
    """Returns what computes one product forward, and the two of its gradient."""
    import tensorflow as tf

    left, right, gradient = (
        tf.random.normal((batch, rows, columns)) for rows, columns in ((m, k), (k, n), (m, n))
    )

    @tf.function(autograph=False)
    def products(left, right, gradient):
        forward = tf.matmul(left, right)
        to_left = tf.matmul(gradient, right, transpose_b=True)
        to_right = tf.matmul(left, gradient, transpose_a=True)
        return [tf.reduce_max(each[..., :1, :1]) for each in (forward, to_left, to_right)]

    return lambda: [float(each) for each in products(left, right, gradient)]


if __name__ == "__main__":
    app.run(main)
