"""Time and memory of restricted self-attention against full self-attention, by length.

    python benchmarks/restricted_attention.py [--radius=64] [--lengths=512,1024,...]

The layer is the base model's (d_model 512, 8 heads, section 3.2.2) on one sentence. "train" is one
forward and backward pass, "decode" one more position after so many kept ones. Each figure is the
median of `--rounds` rounds, in which the two take turns; memory is the peak of a process of its
own, less that of the same process at the shortest sentence. Table 1 of the paper: n²·d against
r·n·d, here r = 2·radius + 1.
"""

import resource
import subprocess
import sys

from absl import app, flags
from turns import median_seconds

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

_RADIUS = flags.DEFINE_integer("radius", 64, "Positions seen to each side.", 1)
_LENGTHS = flags.DEFINE_list("lengths", ["512", "1024", "2048", "4096", "8192"], "Lengths n.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Rounds; the median counts.", 1)
_PEAK_OF = flags.DEFINE_string("peak_of", "", "radius:length, for the process of its own.")

_D_MODEL, _NUM_HEADS, _D_K = 512, 8, 64
# Where the peak is no more than what TensorFlow itself takes.
_SHORTEST = 16


def main(_) -> None:
    """Prints the table, or the peak memory of one case."""
    if _PEAK_OF.value:
        print(_peak(*map(int, _PEAK_OF.value.split(":"))))
        return
    kinds = {"full": 0, "restricted": _RADIUS.value}
    floors = {kind: _peak_of(radius, _SHORTEST) for kind, radius in kinds.items()}
    print(f"radius {_RADIUS.value}, r = {2 * _RADIUS.value + 1}")
    print("     n   train, ms              memory, MiB            decode, ms")
    print("         full restricted ratio  full restricted ratio  full restricted ratio")
    for length in map(int, _LENGTHS.value):
        training, decoding = (
            median_seconds(
                {kind: make(radius, length) for kind, radius in kinds.items()}, _ROUNDS.value
            )
            for make in (_training, _decoding)
        )
        memory = {
            kind: max(_peak_of(radius, length) - floors[kind], 1) for kind, radius in kinds.items()
        }
        columns = "  ".join(
            f"{of['full'] * unit:5.{digits}f} {of['restricted'] * unit:10.{digits}f} "
            f"{of['full'] / of['restricted']:5.1f}"
            for of, unit, digits in ((training, 1e3, 0), (memory, 1, 0), (decoding, 1e3, 2))
        )
        print(f"{length:6d} {columns}", flush=True)


def _layer(radius: int):
    from t2t_keras.layers import MultiHeadAttention

    layer = MultiHeadAttention(_NUM_HEADS, _D_K, radius=radius)
    layer.build((None, None, _D_MODEL))
    return layer


def _training(radius: int, length: int):
    """Returns a function that does one forward and backward pass."""
    import tensorflow as tf

    layer, x = _layer(radius), tf.random.normal([1, length, _D_MODEL])

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x) ** 2)
        return tape.gradient(loss, [weight.value for weight in layer.weights])

    return lambda: step()[0].numpy()


def _decoding(radius: int, length: int):
    """Returns a function that attends from one more position to the kept ones."""
    import tensorflow as tf

    layer, x = _layer(radius), tf.random.normal([1, 1, _D_MODEL])
    kept = min(length, radius or length)
    past = {name: tf.random.normal([1, _NUM_HEADS, kept, _D_K]) for name in ("key", "value")}
    step = tf.function(lambda: layer.attend(x, [past, layer.keys_and_values(x)]))
    return lambda: step().numpy()


def _peak_of(radius: int, length: int) -> float:
    """Returns the peak memory of a process that trains one case, in MiB."""
    command = [sys.executable, __file__, f"--peak_of={radius}:{length}"]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(found.stdout)


def _peak(radius: int, length: int) -> float:
    step = _training(radius, length)
    for _ in range(2):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    app.run(main)
