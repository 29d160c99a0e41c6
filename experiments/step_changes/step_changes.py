"""What each way to make a training step faster is worth: the step in turns with one that lacks it.

    python experiments/step_changes/step_changes.py --hparams_set=transformer_base
        --vocab_size=32000
        --tokens=1024 --length=32 [--hparams=...] [--only=padding,Adam]

The ratio of a round is that of two steps that follow each other; the median counts. A ratio above
1: slower than the code as it is.
"""

import statistics
import sys
import types
from pathlib import Path
from unittest import mock

from absl import app, flags

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from measuring import ModelFlags, new_step, seconds_in_turns

_MODEL = ModelFlags()
_TOKENS = flags.DEFINE_integer("tokens", 1024, "Positions of the step on either side.")
_LENGTH = flags.DEFINE_integer("length", 32, "Tokens of the longest sentence; the shortest: 3/4.")
_ROUNDS = flags.DEFINE_integer("rounds", 9, "Number of rounds in turns.", lower_bound=1)
_ONLY = flags.DEFINE_list("only", [], "Parts of the names to try; default: all.")


def main(_) -> None:
    """Prints a row for each difference."""
    import numpy as np

    from t2t_keras.data.batches import Batch

    ids = _MODEL.random_ids(_TOKENS.value // _LENGTH.value, _LENGTH.value)
    lengths = np.random.default_rng(0).integers(3 * ids.shape[1] // 4, ids.shape[1] + 1, len(ids))
    ids *= np.arange(ids.shape[1]) < lengths[:, None]
    print(f"{(ids == 0).mean():.0%} padding, {_ROUNDS.value} rounds", flush=True)

    def traced_step():
        step = new_step(_MODEL.hparams(), _MODEL.vocab_size)

        def update() -> float:
            return float(step.update(step.steps_done(), [[Batch(ids, ids)]])["loss"])

        update()
        return update

    as_it_is = traced_step()
    print("| step without | ms | the code as it is, ms | ratio | from | to |")
    print("|---|---|---|---|---|---|")
    for name, difference in _differences().items():
        if _ONLY.value and not any(part in name for part in _ONLY.value):
            continue
        with mock.patch.object(*difference):  # while the step is made and traced
            differs = traced_step()
        seconds = seconds_in_turns({"own": as_it_is, "other": differs}, _ROUNDS.value)
        ratios = [other / own for own, other in zip(*seconds.values(), strict=True)]
        own, other = (statistics.median(each) * 1e3 for each in seconds.values())
        print(
            f"| {name} | {other:,.0f} | {own:,.0f} | {statistics.median(ratios):.2f} "
            f"| {min(ratios):.2f} | {max(ratios):.2f} |",
            flush=True,
        )


def _differences() -> dict[str, tuple]:
    """Returns (where, attribute, its other value) by the name of what is then missing."""
    import keras
    from keras import ops

    from t2t_keras.layers import LayerNormalization
    from t2t_keras.training import optimizer
    from t2t_keras.training.backends import tensorflow as backend

    token_sums = backend.TensorFlowStep._token_sums

    def of_all_positions(step, *arguments, **options):
        step._packed = False
        return token_sums(step, *arguments, **options)

    def one_hot_loss(logits, targets, label_smoothing=0.0):
        one_hot = ops.one_hot(targets, logits.shape[-1])
        smoothed = (1 - label_smoothing) * one_hot + label_smoothing / logits.shape[-1]
        loss = keras.losses.categorical_crossentropy(smoothed, logits, from_logits=True)
        unsmoothed = keras.losses.sparse_categorical_crossentropy(targets, logits, from_logits=True)
        correct = ops.cast(ops.equal(ops.argmax(logits, axis=-1), targets), "float32")
        return loss, ops.stop_gradient(unsmoothed), correct

    def adam_of_many_operators(adam, schedule, gradients, weights):
        learning_rate = schedule(adam.iterations.value)
        for gradient, weight in zip(gradients, weights, strict=True):
            keras.optimizers.Adam.update_step(adam, gradient, weight, learning_rate)

    def softmax_of_many_operators(logits, axis):
        exponentials = ops.exp(logits - ops.max(logits, axis=axis, keepdims=True))
        return exponentials / ops.sum(exponentials, axis=axis, keepdims=True)

    other_ops = types.SimpleNamespace(**{**vars(ops), "softmax": softmax_of_many_operators})
    keras_call = keras.layers.LayerNormalization.call
    return {
        "leaving padding out": (backend.TensorFlowStep, "_token_sums", of_all_positions),
        "smoothing that needs no one-hot": (optimizer, "smoothed_cross_entropy", one_hot_loss),
        "Adam as one operator a weight": (backend, "update_by_adam", adam_of_many_operators),
        "layer normalisation with its own gradient": (LayerNormalization, "call", keras_call),
        "the loss's softmax as one operator": (optimizer, "ops", other_ops),
    }


if __name__ == "__main__":
    app.run(main)
