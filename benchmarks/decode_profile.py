"""Where the time of a decoding step goes: its operators, and its products with weights alone.

    python benchmarks/decode_profile.py --hparams_set=transformer_base --vocab_size=32000
        --sentences=1 --length=25 [--hparams=...] [--compute_dtype=bfloat16] [--xla]

Weights are random; the search is the translator's, beam 4, 50 symbols, one batch. Prints the median
time of a step; in turns with it, what the same products with weights take when nothing else is
done, a lower bound for a decoder on these kernels; and milliseconds by operator, from a trace of
one translation by TensorFlow's profiler. Operators run in parallel, so their sum may exceed the
step. The first translation prepares the graph; what XLA compiles for it is found by the next run.
"""

import time

from absl import app, flags
from measuring import ModelFlags, median_seconds, print_operators, random_translator, search_of

from t2t_keras.environment import keep_compiled

_MODEL = ModelFlags()
_SENTENCES = flags.DEFINE_integer("sentences", 1, "Sentences of the batch.")
_LENGTH = flags.DEFINE_integer("length", 25, "Tokens of each sentence.")
_DTYPE = flags.DEFINE_string("compute_dtype", "float32", "Type of weights and products.")
_XLA = flags.DEFINE_boolean("xla", False, "Compile with XLA, which shows no operators.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Number of timed translations, and of turns.")
_ROWS = flags.DEFINE_integer("rows", 20, "Number of operators to name; the others are one row.")

_BEAM_SIZE, _STEPS = 4, 50


def main(_) -> None:
    """Times translations and products in turns, then traces a translation."""
    keep_compiled()
    translator = random_translator(
        _MODEL.hparams(),
        _MODEL.vocab_size,
        _DTYPE.value,
        beam_size=_BEAM_SIZE,
        xla=_XLA.value,
        batches_at_once=1,
        min_length=_STEPS,
        max_length=_STEPS,
    )
    source = _MODEL.random_ids(_SENTENCES.value, _LENGTH.value)
    search = search_of(translator, _SENTENCES.value)
    search.graph.get_concrete_function()
    start = time.perf_counter()
    search(source).ids.numpy()
    print(f"first translation: {time.perf_counter() - start:.1f} s\n")
    ways = {
        "step": lambda: search(source).ids.numpy(),
        "its products with weights alone": _weight_products(_SENTENCES.value * _BEAM_SIZE),
    }
    print("| what | ms | tokens/s |\n|---|---|---|")
    for name, seconds in median_seconds(ways, _ROUNDS.value).items():
        median = seconds / _STEPS
        print(f"| {name} | {median * 1e3:,.1f} | {_SENTENCES.value / median:,.0f} |")
    print_operators(ways["step"], _ROWS.value, _STEPS)


def _weight_products(rows: int):
    """Returns what computes a decoder's products [rows, k] x [k, n] for every step, in a chain."""
    import tensorflow as tf

    model = _MODEL.hparams()
    width, (d_k, d_v) = model.d_model, model.head_widths()
    keys, values = model.num_heads * d_k, model.num_heads * d_v
    layer = [(width, keys), (width, keys), (width, values), (values, width)]
    layer += [(width, keys), (values, width), (width, model.d_ff), (model.d_ff, width)]
    dtype = tf.as_dtype(_DTYPE.value)
    weights = [
        tf.Variable(tf.cast(tf.random.normal(shape, stddev=0.02), dtype))
        for shape in [*layer * model.num_layers, (width, _MODEL.vocab_size)]
    ]

    @tf.function(autograph=False)
    def products():
        def step(index, before):
            for each in weights:
                x = tf.zeros((rows, each.shape[0]), dtype) + before
                before = tf.matmul(x, each)[0, 0] * 0
            return index + 1, before

        start = tf.constant(0), tf.zeros((), dtype)
        return tf.while_loop(lambda index, _: index < _STEPS, step, start)[1]

    return lambda: float(products())


if __name__ == "__main__":
    app.run(main)
