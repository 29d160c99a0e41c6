"""Training speed on one device, and the share of its peak that a step reaches.

    python benchmarks/device_speed.py --hparams_set=transformer_big --vocab_size=37000
        --hparams=compute_dtype=bfloat16 --tokens=25000 --length=32 --peak_tflops=989
    KERAS_BACKEND=jax python benchmarks/device_speed.py ...
    python benchmarks/device_speed.py ... --engine=torch

The step is the trainer's own, on the device that Keras's backend takes: a GPU where there is one.
Or, for comparison, PyTorch's own layers and fused Adam, compiled by torch.compile. No sentence has
padding. The operations are those of the matrix products, forward and backward, without those that
`recompute` does again; divided by the time and by `--peak_tflops`, what the device's maker says of
its matrix units in that type, they are the model FLOPs utilisation.
"""

import itertools
import os
import statistics
import time
import types

from absl import app, flags
from profiled_model import (
    HPARAMS_SET,
    VOCAB_SIZE,
    hparams,
    product_shapes,
    random_ids,
    step_operations,
)

_ENGINE = flags.DEFINE_enum("engine", "ours", ["ours", "torch"], "Whose step.")
_XLA = flags.DEFINE_boolean("xla", False, "Compile our step on TensorFlow with XLA.")
_TOKENS = flags.DEFINE_integer("tokens", 25_000, "Most tokens of a step on either side.")
_LENGTH = flags.DEFINE_integer("length", 32, "Tokens of each sentence.")
_MICROBATCHES = flags.DEFINE_integer("microbatches", 1, "Parts of a step.", lower_bound=1)
_PEAK = flags.DEFINE_float("peak_tflops", None, "Peak of the device, 10^12 operations a second.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Number of timings; the median counts.")
_STEPS = flags.DEFINE_integer("steps", 10, "Steps of a timing.")


def main(_) -> None:
    """Times steps, and prints a line."""
    if _ENGINE.value == "torch":
        # Only hyperparameters are of Keras then.
        os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras
    import numpy as np

    sentences = _TOKENS.value // _LENGTH.value // _MICROBATCHES.value
    ids = random_ids(_MICROBATCHES.value, sentences, _LENGTH.value)
    if _ENGINE.value == "torch":
        from torch_transformer import make_step

        name, device, step = make_step(hparams(), VOCAB_SIZE.value, ids)
    else:
        name = f"ours on {keras.backend.backend()}" + ", XLA" * _XLA.value
        device, step = _our_step(ids)

    def steps(count: int) -> float:
        started = time.perf_counter()
        losses = [step() for _ in range(count)]
        # The last is done when all are.
        assert np.isfinite(float(losses[-1]))
        return (time.perf_counter() - started) / count

    first = steps(1)
    steps(2)
    seconds = statistics.median(steps(_STEPS.value) for _ in range(_ROUNDS.value))
    shapes = product_shapes(hparams(), VOCAB_SIZE.value, ids.size // _LENGTH.value, _LENGTH.value)
    teraflops = step_operations(shapes) / seconds / 1e12
    line = (
        f"{name}, {HPARAMS_SET.value}, {hparams().compute_dtype}, {device}: {ids.size:,} + "
        f"{ids.size:,} tokens in {seconds * 1e3:,.1f} ms (the first step {first:,.1f} s), "
        f"{ids.size / seconds:,.0f} target tokens/s, {teraflops:.4g} TFLOP/s"
    )
    if _PEAK.value:
        line += f", {teraflops / _PEAK.value:.1%} of {_PEAK.value:g}"
    print(line)


def _our_step(ids):
    """Returns the device's name, and what does a step of the trainer's and returns its loss."""
    from t2t_keras.data.batches import Batch
    from t2t_keras.models.transformer import Transformer
    from t2t_keras.training.backends import base as backend
    from t2t_keras.training.cost import hardware_name

    # All that a step takes from the record of a run.
    record = types.SimpleNamespace(
        make_model=lambda: Transformer.from_hparams(hparams(), VOCAB_SIZE.value),
        model="transformer",
        hparams=hparams(),
        tokenizer=types.SimpleNamespace(vocab_size=VOCAB_SIZE.value),
        random_seed=1,
    )
    step = backend.make_step(record, backend.plan_devices(xla=_XLA.value))
    if step.num_replicas > 1:
        raise app.UsageError("Several GPUs are seen; set CUDA_VISIBLE_DEVICES to one.")
    parts = [[Batch(part, part)] for part in ids]
    numbers = itertools.count()
    return hardware_name(step.gpus), lambda: step.update(next(numbers), parts)["loss"]


if __name__ == "__main__":
    app.run(main)
