"""A training step: its speed, its matrix products by themselves, and its operators.

    python benchmarks/step_profile.py --hparams_set=transformer_base --vocab_size=32000
        --tokens=1024 --length=32 [--hparams=...] [--xla] [--peak_tflops=989]
    KERAS_BACKEND=jax python benchmarks/step_profile.py ...

The step is the trainer's own, on the device that Keras's backend takes. Printed is the median of
some steps; operations are those of the matrix products, forward and backward, without those that
`recompute` does again; divided by `--peak_tflops`, what the device's maker says of its matrix units
in that type, they are the model FLOPs utilisation. For TensorFlow on a CPU also what the same
products take when nothing else is done, in turns with the steps, and milliseconds by operator, from
a trace of one step by TensorFlow's profiler. Operators run in parallel, so their sum may exceed the
step.
"""

from absl import app, flags
from measuring import ModelFlags, median_seconds, new_step, print_operators

_MODEL = ModelFlags()
_TOKENS = flags.DEFINE_integer("tokens", 1024, "Tokens of the step on either side.")
_LENGTH = flags.DEFINE_integer("length", 32, "Tokens of each sentence.")
_XLA = flags.DEFINE_boolean("xla", False, "Compile with XLA, which shows no operators.")
_PEAK = flags.DEFINE_float("peak_tflops", None, "Peak of the device, 10^12 operations a second.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Number of timed steps, and of turns of products.")
_ROWS = flags.DEFINE_integer("rows", 16, "Number of operators to name; the others are one row.")


def main(_) -> None:
    """Times steps and products in turns, then traces a step."""
    import keras

    from t2t_keras.data.batches import Batch
    from t2t_keras.training.cost import hardware_name

    step = new_step(_MODEL.hparams(), _MODEL.vocab_size, worker_gpu=None, xla=_XLA.value)
    if step.num_replicas > 1:
        raise app.UsageError("Several GPUs are seen; set CUDA_VISIBLE_DEVICES to one.")
    ids = _MODEL.random_ids(_TOKENS.value // _LENGTH.value, _LENGTH.value)
    hparams = _MODEL.hparams()
    shapes = product_shapes(hparams, _MODEL.vocab_size, *ids.shape)
    operations = step_operations(shapes)

    def whole_step() -> None:
        float(step.update(step.steps_done(), [[Batch(ids, ids)]])["loss"])

    ways = {"step": whole_step}
    backend = keras.backend.backend()
    if backend == "tensorflow" and not step.gpus:
        products = [product for count, each in shapes for product in [_product_of(*each)] * count]
        ways["its matrix products alone"] = lambda: [product() for product in products]
    print(
        f"{hparams.set_name}, {hparams.compute_dtype}, {backend}{', XLA' * _XLA.value}, "
        f"{hardware_name(step.gpus)}\n\n| what | ms | target tokens/s | GFLOP/s | of the peak |\n"
        "|---|---|---|---|---|"
    )
    for name, seconds in median_seconds(ways, _ROUNDS.value).items():
        share = f"{operations / seconds / 1e12 / _PEAK.value:.1%}" if _PEAK.value else ""
        print(
            f"| {name} | {seconds * 1e3:,.0f} | {ids.size / seconds:,.0f} "
            f"| {operations / seconds / 1e9:,.0f} | {share} |"
        )
    if len(ways) > 1:
        print_operators(whole_step, _ROWS.value)


def product_shapes(hparams, vocab_size: int, sentences: int, length: int) -> list[tuple]:
    """Returns (how many, (batch, m, k, n)) of the forward pass's products [m, k] x [k, n]."""
    tokens, width, heads = sentences * length, hparams.d_model, hparams.num_heads
    d_k, d_v = hparams.head_widths()
    encoders, decoders = hparams.depths()
    attentions, layers = encoders + 2 * decoders, encoders + decoders
    return [
        (2 * attentions, (1, tokens, width, heads * d_k)),
        (attentions, (1, tokens, width, heads * d_v)),
        (attentions, (1, tokens, heads * d_v, width)),
        (attentions, (sentences * heads, length, d_k, length)),
        (attentions, (sentences * heads, length, length, d_v)),
        (layers, (1, tokens, width, hparams.d_ff)),
        (layers, (1, tokens, hparams.d_ff, width)),
        (1, (1, tokens, width, vocab_size)),
    ]


def step_operations(shapes: list[tuple]) -> int:
    """Returns multiplications and additions of these products and of those of their gradients."""
    return sum(count * 3 * 2 * b * m * k * n for count, (b, m, k, n) in shapes)


def _product_of(batch: int, m: int, k: int, n: int):
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
