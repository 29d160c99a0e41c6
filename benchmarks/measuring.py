"""Measurements, steps and translators that benchmarks share."""

import collections
import concurrent.futures
import multiprocessing
import statistics
import tempfile
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()


def seconds_in_turns(
    ways: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Returns the seconds of each way in each round; other processes slow all ways alike.

    The functions return when their work is done. An untimed round, which compiles, comes first.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - start)
    return {name: times[1:] for name, times in seconds.items()}


def median_seconds(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Returns the median of `seconds_in_turns` for each way."""
    seconds = seconds_in_turns(ways, rounds)
    return {name: statistics.median(times) for name, times in seconds.items()}


def in_own_process(function: Callable, *arguments) -> Any:
    """Calls a module's function in a fresh process, which has a peak of memory of its own."""
    fresh = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=fresh) as process:
        return process.submit(function, *arguments).result()


def peak_bytes(process: int | str = "self") -> int:
    """Returns the peak of a process's resident memory since its program was started.

    Not `resource.getrusage`, whose peak includes the memory of the process that forked this one.
    Raises OSError if there is no such process, or StopIteration if it is a zombie.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def print_operators(run: Callable[[], object], rows: int, steps: int = 1) -> None:
    """Traces `run` with TensorFlow's profiler; prints calls and ms of each type of operator.

    Names as many operators as `rows`; figures are per step if `run` does `steps`.
    """
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    trace = xplane_pb2.XSpace()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        run()
        tf.profiler.experimental.stop()
        trace.ParseFromString(next(Path(folder).rglob("*.xplane.pb")).read_bytes())
    calls, milliseconds = collections.Counter(), collections.Counter()
    for plane in trace.planes:
        for event in (event for line in plane.lines for event in line.events):
            # An operator's events are called "name:type".
            name, colon, kind = plane.event_metadata[event.metadata_id].name.rpartition(":")
            is_operator = colon and not name.endswith(":") and kind.lstrip("_").isalnum()
            if "CPU" in plane.name and is_operator:
                calls[kind] += 1
                milliseconds[kind] += event.duration_ps / 1e9
    print("\n| operator | calls | ms |\n|---|---|---|")
    named = [(kind, calls.pop(kind), ms) for kind, ms in milliseconds.most_common(rows)]
    others = milliseconds.total() - sum(ms for *_, ms in named)
    for kind, count, ms in [*named, ("others", calls.total(), others)]:
        print(f"| {kind} | {count / steps:,.0f} | {ms / steps:,.2f} |")


class ModelFlags:
    """The flags of a profiled model: --hparams_set, --hparams and --vocab_size."""

    def __init__(self):
        string, name = flags.DEFINE_string, "transformer_base"
        self._set = string("hparams_set", name, "Hyperparameter set.")
        self._changes = string("hparams", "", "Hyperparameters to change in the set.")
        self._vocab = flags.DEFINE_integer("vocab_size", 32_000, "Ids of the shared vocabulary.")

    @property
    def vocab_size(self) -> int:
        """Ids of the shared vocabulary."""
        return self._vocab.value

    def hparams(self):
        """Returns the hyperparameters that the flags name."""
        from t2t_keras import hyperparameters

        return hyperparameters.hparams(self._set.value, self._changes.value)

    def random_ids(self, *shape: int):
        """Returns random ids of ordinary pieces."""
        return np.random.default_rng(0).integers(3, self.vocab_size, shape, np.int32)


def new_step(hparams, vocab_size: int, cluster=None, worker_gpu=0, planned=None, **devices):
    """Returns the trainer's step with a new Transformer, on `planned` or by `plan_devices`."""
    from t2t_keras.models.transformer import Transformer
    from t2t_keras.training.backends import base

    # Everything that a step reads from the configuration of a run.
    config = types.SimpleNamespace(
        make_model=lambda: Transformer.from_hparams(hparams, vocab_size),
        model="transformer",
        hparams=hparams,
        vocab_sizes=(vocab_size, None),
        random_seed=1,
    )
    planned = planned or base.plan_devices(worker_gpu, cluster=cluster, **devices)
    return base.make_step(config, planned, cluster)


def random_translator(hparams, vocab_size: int, dtype="float32", tokenizer=None, **settings):
    """Returns a translator with random weights, of ids alone if there is no tokenizer."""
    import keras

    from t2t_keras.decoding.config import DecodeConfig
    from t2t_keras.decoding.keras_engine import share_cores
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.models.transformer import Transformer

    config = DecodeConfig(**settings)
    share_cores(config)
    keras.utils.set_random_seed(1)
    return Translator(Transformer.from_hparams(hparams, vocab_size, dtype), tokenizer, config)
