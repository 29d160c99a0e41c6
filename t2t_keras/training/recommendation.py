"""Which hyperparameters suit some data, `--hparams_set=auto`, and how long a training takes."""

import dataclasses
import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from t2t_keras import hyperparameters
from t2t_keras.data.batches import TokenBatchSampler, replica_batches
from t2t_keras.data.dataset import Generated
from t2t_keras.errors import UserError, command_line
from t2t_keras.hyperparameters import HParams
from t2t_keras.training.backends import base as backend
from t2t_keras.training.cost import hardware_name
from t2t_keras.training.run_config import AUTO, RunConfig

# Of at most so many training pairs: the set for a CPU, that for a GPU, and how often a run sees
# each pair, if that is less than the steps of the set.
_SETS = (
    (100_000, "transformer_cpu", "transformer_cpu", 20),
    (1_000_000, "transformer_small", "transformer_small", 10),
    (math.inf, "transformer_small", "transformer_base", 10),
)
_FEWEST_STEPS = 1000
# A step is measured for so long, and on a CPU with at most so many tokens a side.
_MEASURED_SECONDS, _MEASURED_TOKENS = 2.0, 4096
_HOUR, _DAY = 3600.0, 86_400.0


def recommended_hparams(
    generated: Generated,
    worker_gpu: int | None = None,
    warm_start_from: str = "",
    devices: backend.Devices | None = None,
) -> HParams:
    """Returns the hyperparameters that suit a problem's data and this machine.

    A problem may name its set. Otherwise the number of training pairs decides, and whether there
    is a GPU. Training is as long as the set says, or shorter where the data is small; from other
    weights, it is as long as the data is large, however long the other run was.

    Args:
      generated: the data.
      worker_gpu: number of GPUs; None = all visible ones, 0 = the CPU.
      warm_start_from: run or checkpoint whose weights training starts from, and whose
        hyperparameters it keeps; "" = none.
      devices: those of `worker_gpu`, if they are known.
    """
    store, problem = generated.store("train"), generated.problem
    _, on_cpu, on_gpu, epochs = next(row for row in _SETS if len(store) <= row[0])
    # What is left of sharing where source and target have their own vocabularies.
    changes = {"share_embeddings": "target"} if generated.tokenizer.source_vocab_size else {}
    if warm_start_from:
        source = Path(warm_start_from)
        source = source if source.is_dir() else source.parent
        if not RunConfig.exists(source):
            raise UserError(
                f"--warm_start_from={warm_start_from}: expected a run or a checkpoint of one. "
                f"--hparams_set={AUTO} takes its hyperparameters.",
                code="no_run",
            )
        hparams = RunConfig.load(source).hparams
        # What a training does with the weights is not what the weights need.
        hparams = dataclasses.replace(
            hparams, trainable=(), lora_rank=0, lora_alpha=0.0, ema_decay=0.0
        )
    elif problem.hparams_set:
        return hyperparameters.hparams(problem.hparams_set, changes)
    else:
        devices = devices or backend.plan_devices(worker_gpu)
        hparams = hyperparameters.hparams(on_gpu if devices.gpus else on_cpu, changes)
    limits = hparams.batch_tokens, hparams.max_length
    batches = len(TokenBatchSampler(store.lengths, *limits, seed=0).epoch(0))
    steps = max(round(epochs * batches, -2), _FEWEST_STEPS)
    if not warm_start_from:
        steps = min(steps, hparams.train_steps)
    return dataclasses.replace(hparams, train_steps=steps)


def recommendation(generated: Generated, flags: Sequence[str]) -> str:
    """Returns a text for people: the set, its time on this machine, and the command.

    `flags` name the problem and the folder of its data.
    """
    devices = backend.plan_devices()
    hparams = recommended_hparams(generated, devices=devices)
    seconds = hparams.train_steps * _seconds_of_a_step(generated, hparams, devices)
    name = generated.problem.name
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    output_dir = next(path for name in names if not (path := Path("runs") / name).exists())
    command = command_line("t2t-trainer", *flags, output_dir=output_dir, hparams_set=AUTO)
    return (
        f"To train with {hparams.set_name} for {hparams.train_steps:,} steps, which take about "
        f"{duration(seconds)} on {hardware_name(devices.gpus)}:{command}"
    )


def duration(seconds: float) -> str:
    """Returns minutes, hours or days, as people say them."""
    if seconds < 2 * _HOUR:
        return f"{max(seconds / 60, 1):.0f} min"
    return f"{seconds / _HOUR:.0f} hours" if seconds < 2 * _DAY else f"{seconds / _DAY:.0f} days"


def _seconds_of_a_step(generated: Generated, hparams: HParams, devices: backend.Devices) -> float:
    """Returns the median seconds of a step on this machine, without compilation."""
    # On a CPU the time is in proportion to the tokens, and memory is short.
    tokens = hparams.batch_tokens if devices.gpus else min(hparams.batch_tokens, _MEASURED_TOKENS)
    microbatch = min(hparams.microbatch_tokens or tokens, tokens)
    step = backend.make_step(RunConfig(generated.problem, hparams).with_data(generated), devices)
    store = generated.store("train")
    sampler = TokenBatchSampler(store.lengths, tokens, min(hparams.max_length, microbatch), seed=0)
    parts = list(replica_batches(store, sampler.at(0), microbatch, step))

    def update():
        float(step.update(0, parts)["loss"])

    update()  # Is compiled.
    found = []
    while sum(found) < _MEASURED_SECONDS:
        found.append(_seconds(update))
    return statistics.median(found) * hparams.batch_tokens / tokens


def _seconds(call: Callable[[], None]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began
