"""Time and memory of restricted self-attention against full self-attention, by length.

    python experiments/restricted_attention/restricted_attention.py [--radius=64]
        [--lengths=512,1024,...]

"train" is one forward and backward pass of the base model's layer (d_model 512, 8 heads, section
3.2.2) on one sentence. "decode" is a greedy translation of so many symbols by a model of one layer
of this width, a symbol. Each time is the median of `--rounds` rounds, of "decode" of one, in which
the two take turns; memory is the peak of a process of its own, less that of the same process at the
shortest sentence. Table 1 of the paper: n²·d against r·n·d, here r = 2·radius + 1.
"""

import functools
import sys
from collections.abc import Callable
from pathlib import Path

from absl import app, flags

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from measuring import in_own_process, median_seconds, peak_bytes, random_translator

_RADIUS = flags.DEFINE_integer("radius", 64, "Positions seen to each side.", 1)
_LENGTHS = flags.DEFINE_list("lengths", ["512", "1024", "2048", "4096", "8192"], "Lengths n.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Number of rounds; the median counts.", 1)

_D_MODEL, _NUM_HEADS, _D_K = 512, 8, 64
# Where the peak is no more than what TensorFlow itself takes.
_SHORTEST = 16


def main(_) -> None:
    """Prints the tables."""
    peak_mib = functools.cache(functools.partial(in_own_process, _peak))
    print(f"radius {_RADIUS.value}, r = {2 * _RADIUS.value + 1}")
    for what, rounds, unit in (("train", _ROUNDS.value, "ms"), ("decode", 1, "ms a symbol")):
        print(f"\n{what:>6}   {unit:26} memory, MiB")
        print("     n     full restricted ratio      full restricted ratio")
        for length in map(int, _LENGTHS.value):
            symbols = 1 if what == "train" else length
            radii = 0, _RADIUS.value
            ways = {radius: _WAYS[what](radius, length) for radius in radii}
            seconds = median_seconds(ways, rounds).values()
            memory = [
                max(peak_mib(what, radius, length) - peak_mib(what, radius, _SHORTEST), 1)
                for radius in radii
            ]
            times = _columns(*(1e3 * each / symbols for each in seconds), digits=2)
            print(f"{length:6d} {times}     {_columns(*memory, digits=0)}", flush=True)


def _columns(full: float, restricted: float, digits: int) -> str:
    return f"{full:8.{digits}f} {restricted:10.{digits}f} {full / restricted:5.1f}"


def _training(radius: int, length: int) -> Callable[[], object]:
    """Returns a function that does one forward and backward pass."""
    import tensorflow as tf

    from t2t_keras.layers import MultiHeadAttention, RestrictedSelfAttention

    sizes = _NUM_HEADS, _D_K
    layer = RestrictedSelfAttention(radius, *sizes) if radius else MultiHeadAttention(*sizes)
    layer.build((None, None, _D_MODEL))
    x = tf.random.normal([1, length, _D_MODEL])

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x) ** 2)
        return tape.gradient(loss, [weight.value for weight in layer.weights])

    return lambda: step()[0].numpy()


def _decoding(radius: int, length: int) -> Callable[[], object]:
    """Returns a function that translates a short sentence into so many symbols."""
    import numpy as np

    from t2t_keras import hyperparameters

    changes = dict(num_layers=1, d_ff=_D_MODEL, self_attention_radius=radius)
    translator = random_translator(
        hyperparameters.hparams("transformer_base", changes),
        vocab_size=64,
        beam_size=1,
        min_length=length,
        max_length=length,
        extra_length=length,
        batches_at_once=1,
    )
    source = np.arange(3, 11, dtype=np.int32)[None]
    return lambda: translator.search(source).ids.numpy()


_WAYS = {"train": _training, "decode": _decoding}


def _peak(what: str, radius: int, length: int) -> float:
    run = _WAYS[what](radius, length)
    for _ in range(2):
        run()
    return peak_bytes() / 2**20


if __name__ == "__main__":
    app.run(main)
