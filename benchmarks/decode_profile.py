"""Where the time of a decoding step goes: its operators, and its products with weights alone.

    python benchmarks/decode_profile.py --hparams_set=transformer_base --vocab_size=32000
        --sentences=1 --length=25 [--hparams=...] [--compute_dtype=bfloat16] [--xla]

Weights are random; the search is the translator's, beam 4, 50 symbols, one batch. Prints the median
time of a step; in turns with it, what the same products with weights take when nothing else is
done, which no decoder on these kernels is below; and milliseconds by operator, from a trace of one
translation by TensorFlow's profiler. Operators run side by side, so that together they may take
longer than the step.
"""

from absl import app, flags
from operator_trace import operator_table, traced
from profiled_model import VOCAB_SIZE, hparams
from turns import median_seconds

_SENTENCES = flags.DEFINE_integer("sentences", 1, "Sentences of the batch.")
_LENGTH = flags.DEFINE_integer("length", 25, "Tokens of each sentence.")
_DTYPE = flags.DEFINE_string("compute_dtype", "float32", "Type of weights and products.")
_XLA = flags.DEFINE_boolean("xla", False, "Compiles by XLA; then no operators are seen.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Translations, and turns of products, timed.")
_ROWS = flags.DEFINE_integer("rows", 20, "Operators that are named; the others are one row.")

_BEAM_SIZE, _STEPS = 4, 50


def main(_) -> None:
    """Times translations and products in turns, then traces a translation."""
    import numpy as np

    from t2t_keras.decoding.config import DecodeConfig
    from t2t_keras.decoding.side_by_side import share_cores
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.models.transformer import Transformer

    config = DecodeConfig(
        beam_size=_BEAM_SIZE,
        min_length=_STEPS,
        max_length=_STEPS,
        xla=_XLA.value,
        batches_at_once=1,
    )
    share_cores(config)
    model = Transformer.from_hparams(hparams(), VOCAB_SIZE.value, _DTYPE.value)
    translator = Translator(model, None, config)
    source = np.random.default_rng(0).integers(
        3, VOCAB_SIZE.value, (_SENTENCES.value, _LENGTH.value), np.int32
    )

    def translation() -> None:
        translator.search(source).ids.numpy()

    products = weight_products(hparams(), VOCAB_SIZE.value, _SENTENCES.value * _BEAM_SIZE)
    times = median_seconds(
        {"step": translation, "its products with weights alone": products}, _ROUNDS.value
    )
    print("| what | ms | tokens/s |\n|---|---|---|")
    for name, seconds in times.items():
        median = seconds / _STEPS
        print(f"| {name} | {median * 1e3:,.1f} | {_SENTENCES.value / median:,.0f} |")
    print()
    print("\n".join(operator_table(traced(translation), _ROWS.value, _STEPS)))


def weight_products(hparams, vocab_size: int, rows: int):
    """Returns what computes a decoder's products [rows, k] x [k, n] for every step, in a chain."""
    import tensorflow as tf

    width, (d_k, d_v) = hparams.d_model, hparams.head_widths()
    keys, values = hparams.num_heads * d_k, hparams.num_heads * d_v
    layer = [(width, keys), (width, keys), (width, values), (values, width)]
    layer += [(width, keys), (values, width), (width, hparams.d_ff), (hparams.d_ff, width)]
    dtype = tf.as_dtype(_DTYPE.value)
    weights = [
        tf.Variable(tf.cast(tf.random.normal(shape, stddev=0.02), dtype))
        for shape in [*layer * hparams.num_layers, (width, vocab_size)]
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
