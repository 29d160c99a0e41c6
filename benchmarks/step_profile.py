"""Where the time of a training step goes: its operators, and its matrix products by themselves.

    python benchmarks/step_profile.py --hparams_set=transformer_base --vocab_size=32000
        --tokens=1024 --length=32 [--hparams=...]

Prints the median of some steps; what the same matrix products take when nothing else is done, in
turns with the steps; and milliseconds by operator, from a trace of one step by TensorFlow's
profiler. Operators run in parallel, so their sum may exceed the step.
"""

from absl import app, flags
from measuring import median_seconds, print_operators
from profiled_model import (
    VOCAB_SIZE,
    hparams,
    new_step,
    product_shapes,
    random_ids,
    step_operations,
)

_TOKENS = flags.DEFINE_integer("tokens", 1024, "Tokens of the step on either side.")
_LENGTH = flags.DEFINE_integer("length", 32, "Tokens of each sentence.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Number of timed steps, and of turns of products.")
_ROWS = flags.DEFINE_integer("rows", 16, "Number of operators to name; the others are one row.")


def main(_) -> None:
    """Times steps and products in turns, then traces a step."""
    from t2t_keras.data.batches import Batch

    step = new_step()
    ids = random_ids(_TOKENS.value // _LENGTH.value, _LENGTH.value)
    shapes = product_shapes(hparams(), VOCAB_SIZE.value, *ids.shape)
    products = [product for count, each in shapes for product in [product_of(*each)] * count]

    def whole_step() -> None:
        float(step.update(step.steps_done(), [[Batch(ids, ids)]])["loss"])

    def all_products() -> None:
        for product in products:
            product()

    ways = {"step": whole_step, "its matrix products alone": all_products}
    print("| what | ms | GFLOP/s |\n|---|---|---|")
    for name, seconds in median_seconds(ways, _ROUNDS.value).items():
        print(f"| {name} | {seconds * 1e3:,.0f} | {step_operations(shapes) / seconds / 1e9:,.0f} |")
    print_operators(whole_step, _ROWS.value)


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
