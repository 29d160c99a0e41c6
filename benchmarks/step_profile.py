"""A step of training or decoding: its speed, its matrix products alone, and its operators.

    python benchmarks/step_profile.py --hparams_set=transformer_base --vocab_size=32000
        --tokens=1024 --length=32 [--hparams=...] [--xla] [--peak_tflops=989]
    KERAS_BACKEND=jax python benchmarks/step_profile.py ...
    python benchmarks/step_profile.py --decode --tokens=25 --length=25 [--xla]

The training step is the trainer's own, on the default device of Keras's backend. With --decode it
is a step of the translator's search, with random weights, beam 4, 50 symbols and one batch of
`tokens` / `length` sentences, in the type of --hparams=compute_dtype.

Prints the median of several steps. Counts the operations of the matrix products, forward and
backward, without those that `recompute` repeats; their share of `--peak_tflops`, the maker's figure
for that type, is the model FLOPs utilisation. With TensorFlow on a CPU, also times the products (in
decoding, those with weights) alone, in turns with the steps, and prints milliseconds by operator
from a trace of a step, which run in parallel. The first translation prepares the graph; the next
process reuses what XLA has compiled.
"""

import time

from absl import app, flags
from measuring import ModelFlags, median_seconds, new_step, print_operators, random_translator

_MODEL = ModelFlags()
_DECODE = flags.DEFINE_boolean("decode", False, "Profile a step of the search.")
_TOKENS = flags.DEFINE_integer("tokens", 1024, "Tokens of the batch on either side.")
_LENGTH = flags.DEFINE_integer("length", 32, "Tokens of each sentence.")
_XLA = flags.DEFINE_boolean("xla", False, "Compile with XLA, which shows no operators.")
_PEAK = flags.DEFINE_float("peak_tflops", None, "Peak of the device, 10^12 operations a second.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Number of rounds; each times a step and the products.")
_ROWS = flags.DEFINE_integer("rows", 20, "Number of operators to name; the others are one row.")

_BEAM_SIZE, _STEPS = 4, 50


def main(_) -> None:
    """Times steps and products in turns, then traces a step."""
    (_profile_decoding if _DECODE.value else _profile_training)()


def _profile_training() -> None:
    import keras

    from t2t_keras.data.batches import Batch
    from t2t_keras.training.cost import hardware_name

    hparams, ids = _MODEL.hparams(), _source()
    step = new_step(hparams, _MODEL.vocab_size, worker_gpu=None, xla=_XLA.value)
    if step.num_replicas > 1:
        raise app.UsageError("Several GPUs are seen; set CUDA_VISIBLE_DEVICES to one.")
    shapes = product_shapes(hparams, _MODEL.vocab_size, *ids.shape)
    # One product forward and two for gradients, each of multiplications and additions.
    operations = sum(count * 3 * 2 * b * m * k * n for count, (b, m, k, n) in shapes)

    def whole_step() -> None:
        float(step.update(step.steps_done(), [[Batch(ids, ids)]])["loss"])

    ways = {"step": whole_step}
    backend = keras.backend.backend()
    if backend == "tensorflow" and not step.gpus:
        products = [(count, _product_of(*shape)) for count, shape in shapes]
        ways["its matrix products alone"] = lambda: [p() for n, p in products for _ in range(n)]
    title = hparams.set_name, hparams.compute_dtype, backend, hardware_name(step.gpus)
    print(f"{', '.join(title)}{', XLA' * _XLA.value}\n")
    print("| what | ms | target tokens/s | GFLOP/s | of the peak |\n|---|---|---|---|---|")
    for name, seconds in median_seconds(ways, _ROUNDS.value).items():
        tokens, gflops = ids.size / seconds, operations / seconds / 1e9
        share = f"{gflops / 1e3 / _PEAK.value:.1%}" if _PEAK.value else ""
        print(f"| {name} | {seconds * 1e3:,.0f} | {tokens:,.0f} | {gflops:,.0f} | {share} |")
    if len(ways) > 1:
        print_operators(whole_step, _ROWS.value)


def _profile_decoding() -> None:
    from t2t_keras.environment import enable_compile_cache

    enable_compile_cache()
    hparams, source = _MODEL.hparams(), _source()
    settings = dict(beam_size=_BEAM_SIZE, min_length=_STEPS, max_length=_STEPS, batches_at_once=1)
    settings |= dict(dtype=hparams.compute_dtype, xla=_XLA.value)
    search = random_translator(hparams, _MODEL.vocab_size, **settings).search
    search.graph.get_concrete_function()
    start = time.perf_counter()
    search(source).ids.numpy()
    print(f"first translation: {time.perf_counter() - start:.1f} s\n")
    products = _weight_products(len(source) * _BEAM_SIZE)
    ways = {"step": lambda: search(source).ids.numpy(), "its products with weights alone": products}
    print("| what | ms | tokens/s |\n|---|---|---|")
    for name, seconds in median_seconds(ways, _ROUNDS.value).items():
        median = seconds / _STEPS
        print(f"| {name} | {median * 1e3:,.1f} | {len(source) / median:,.0f} |")
    print_operators(ways["step"], _ROWS.value, _STEPS)


def _source():
    return _MODEL.random_ids(_TOKENS.value // _LENGTH.value, _LENGTH.value)


def product_shapes(hparams, vocab_size: int, sentences: int, length: int) -> list[tuple]:
    """Returns (count, (batch, m, k, n)) of the forward pass's products [m, k] x [k, n]."""
    tokens, width, heads = sentences * length, hparams.d_model, hparams.num_heads
    d_k, d_v = hparams.head_widths(hparams.d_model)
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


def _product_of(batch: int, m: int, k: int, n: int):
    """Returns a function that computes a product and the two products of its gradient."""
    import tensorflow as tf

    shapes = (m, k), (k, n), (m, n)
    left, right, gradient = (tf.random.normal((batch, *shape)) for shape in shapes)

    @tf.function(autograph=False)
    def products(left, right, gradient):
        forward = tf.matmul(left, right)
        to_left = tf.matmul(gradient, right, transpose_b=True)
        to_right = tf.matmul(left, gradient, transpose_a=True)
        return [tf.reduce_max(product[..., :1, :1]) for product in (forward, to_left, to_right)]

    return lambda: [float(product) for product in products(left, right, gradient)]


def _weight_products(rows: int):
    """Returns a function: a decoder's products [rows, k] x [k, n] for every step, in a chain."""
    import tensorflow as tf

    hparams = _MODEL.hparams()
    width, (d_k, d_v) = hparams.d_model, hparams.head_widths(hparams.d_model)
    keys, values = hparams.num_heads * d_k, hparams.num_heads * d_v
    # Self-attention has four matrices; the memory's keys and values are computed once.
    shapes = 3 * [(width, keys)] + [(width, values)] + 2 * [(values, width)]
    shapes = [*shapes, (width, hparams.d_ff), (hparams.d_ff, width)] * hparams.num_layers
    shapes, dtype = [*shapes, (width, _MODEL.vocab_size)], tf.as_dtype(hparams.compute_dtype)
    random = (tf.random.normal(shape, stddev=0.02) for shape in shapes)
    weights = [tf.Variable(tf.cast(values, dtype)) for values in random]

    def step(index, previous):
        for weight in weights:
            x = tf.zeros((rows, weight.shape[0]), dtype) + previous
            previous = tf.matmul(x, weight)[0, 0] * 0
        return index + 1, previous

    @tf.function(autograph=False)
    def products():
        start = tf.constant(0), tf.zeros((), dtype)
        return tf.while_loop(lambda index, _: index < _STEPS, step, start)[1]

    return lambda: float(products())


if __name__ == "__main__":
    app.run(main)
