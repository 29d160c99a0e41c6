"""The training step on one GPU, in turns with a plain Transformer in compiled PyTorch.

    python benchmarks/gpu.py [--lengths=pairs.npy] [--peak_tflops=989] [--out=gpu.json]
    python benchmarks/gpu.py --peer= --changes="no dropout,--xla_gpu_enable_cublaslt=true"
    python benchmarks/gpu.py --sizes=toy --steps=2      # on a CPU
    python benchmarks/gpu.py --sizes= --teacher=work/data/teacher [--teacher_steps=10300]

Ours is the trainer's step on JAX (peers/gpu_t2t_keras.py), without TensorFlow. Sentences are
"uniform", 32 tokens on both sides, or "real": as long as those of --lengths, or like Multi30k's.
Both get all pairs, ours in packed rows, the peer (peers/gpu_pytorch.py) in batches of similar
length, padded to a multiple of 8. The median pass over all batches counts.

The rates are of target tokens; `of_peak` is that of the matrix products, forward and backward; none
counts padding. `token_share` is of all positions; `ratio` is that of tokens_per_s, ours to the peer
or a change to the unchanged step before it. `first_s` is the time from the start of a process to
the end of its first step; `compiled_s` adds what the first pass takes longer than others. A change
is a flag of XLA or one of experiments/step_changes/gpu_changes.py, and takes turns with the
unchanged step.

--teacher then trains the teacher of experiments/student, which teacher.py there describes.
"""

import itertools
import json
import os
import pickle
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags

_ROOT = Path(__file__).resolve().parents[1]
_PEERS = _ROOT / "benchmarks" / "peers"
sys.path.append(str(_PEERS))
import workload  # noqa: E402

from t2t_keras.data import batches as data  # noqa: E402
from t2t_keras.data.dataset import SIDES, ExampleStore  # noqa: E402
from t2t_keras.environment import installed_versions  # noqa: E402

_SIZES = {  # The paper's (Table 3), and one for a CPU; each with the dropout of its set.
    "big": (workload.Size(6, 1024, 4096, 16, 37_000, batch_tokens=25_000), 0.3),
    "base": (workload.Size(6, 512, 2048, 8, 37_000, batch_tokens=25_000), 0.1),
    "toy": (workload.Size(1, 32, 64, 2, 500, batch_tokens=512), 0.1),
}
_DEFAULT_STEPS = {"uniform": 8, "real": 40}
_MAX_LENGTH, _UNIFORM_LENGTH, _PAIRS = 256, 32, 30_000
# The logarithms of source tokens, and of target tokens per source token: mean and deviation in the
# 29,000 pairs of Multi30k EN-DE, with a BPE of 8,000.
_LOG_SOURCE, _LOG_RATIO = (2.683, 0.295), (0.021, 0.170)
_OURS, _PEER = "t2t_keras", "pytorch"
_COLUMNS = dict(ms=",.1f", tokens_per_s=",.0f", ratio=".2f", token_share=".1%", of_peak=".1%")
_COLUMNS |= dict(gigabytes=".1f", first_s=".1f", compiled_s=".1f", shapes="d")

_SIZE = flags.DEFINE_list("sizes", ["big", "base"], f"Of {', '.join(_SIZES)}.")
_WORKLOADS = flags.DEFINE_list("workloads", list(_DEFAULT_STEPS), "Workloads.")
_LENGTHS = flags.DEFINE_string("lengths", "", ".npy of [pairs, 2] tokens, or data of t2t-datagen.")
_STEPS = flags.DEFINE_integer("steps", None, "Number of steps in a round, about.")
_ROUNDS = flags.DEFINE_integer("rounds", 4, "Number of timed rounds.", 1)
_CHANGES = flags.DEFINE_list("changes", [], "Changes of our step to measure.")
_PYTHON = flags.DEFINE_string("peer", sys.executable, "Python with PyTorch; empty = no peer.")
_MULTIPLE = flags.DEFINE_integer("peer_multiple", 8, "The peer pads lengths to multiples of this.")
_PEAK = flags.DEFINE_float("peak_tflops", 0.0, "Peak of the device, 10^12 operations a second.")
_OUT = flags.DEFINE_string("out", "", "JSON file for all figures.")
_TEACHER = flags.DEFINE_string("teacher", "", "Data of the recipe's teacher, to train it.")
_TEACHER_STEPS = flags.DEFINE_integer("teacher_steps", 0, "Steps of the teacher; 0 = the recipe's.")


class _Process(subprocess.Popen):
    """A process that trains on batches; `passes` are the times of each pass."""

    def __init__(self, python: str, script: str, batches: Sequence[data.Batch], settings, **env):
        self.batches, self.passes, self.started = batches, [], time.perf_counter()
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        super().__init__([python, str(_PEERS / script)], env=os.environ | env, **pipes)
        pickle.dump(settings | dict(batches=[batch.inputs() for batch in batches]), self.stdin)

    def run_pass(self) -> None:
        """Trains on all batches; raises `RuntimeError` if the process has ended."""
        self.stdin.write(b"go\n")
        self.stdin.flush()
        answer = next((line for line in self.stdout if line.startswith(b"{")), None)
        if answer is None:
            raise RuntimeError(f"its process ended with status {self.wait()}")
        self.passes.append(json.loads(answer))

    def figures(self, size: workload.Size, lengths: np.ndarray) -> dict[str, Any]:
        """Returns the figures of the first pass and of the last ones."""
        first, passes = self.passes[0], self.passes[-_ROUNDS.value :]
        times = [timed["ends"][-1] - timed["start"] for timed in passes]
        sides = [[getattr(batch, side) for batch in self.batches] for side in SIDES]
        counts = [sum(int(np.count_nonzero(ids)) for ids in side) for side in sides]
        positions = sum(ids.size for side in sides for ids in side)
        seconds, first_end = statistics.median(times), first["ends"][0]
        tflops = workload.gflop(size, *lengths.T) / seconds / 1e3
        work = dict(pairs=len(lengths), target_tokens=counts[1], tflops=tflops, seconds=times)
        work |= {name: passes[-1][name] for name in ("gigabytes", "loss", "device")}
        return work | dict(
            ms=seconds / len(self.batches) * 1e3,
            tokens_per_s=counts[1] / seconds,
            ratio=1.0,
            token_share=sum(counts) / positions,
            of_peak=tflops / _PEAK.value if _PEAK.value else 0,
            first_s=first_end - self.started,
            compiled_s=max(first_end, first["ends"][-1] - seconds) - self.started,
            shapes=len({tuple(ids.shape for ids in pair) for pair in zip(*sides, strict=True)}),
        )


def main(_) -> None:
    """Measures each size and workload, then trains the teacher."""
    results = []
    for size, name in itertools.product(_SIZE.value, _WORKLOADS.value):
        try:
            for step, figures in _measure(size, name):
                results.append(dict(size=size, workload=name, step=step) | figures)
                print(json.dumps(results[-1]), flush=True)
        except (OSError, RuntimeError) as error:
            print(f"{size}, {name} is left out: {error}", flush=True)
        if _OUT.value:
            content = json.dumps(dict(versions=installed_versions("torch"), results=results))
            Path(_OUT.value).write_text(f"{content}\n", encoding="utf-8")
    print(
        f"\n| {results[0]['device']} | {' | '.join(_COLUMNS)} |\n|{'---|' * 10}" if results else ""
    )
    for row in results:
        cells = (format(row[name], spec) for name, spec in _COLUMNS.items())
        print(f"| {row['size']}, {row['workload']}: {row['step']} | {' | '.join(cells)} |")
    if _TEACHER.value:
        command = [sys.executable, _ROOT / "experiments" / "student" / "teacher.py"]
        command += [f"--data_dir={_TEACHER.value}", f"--steps={_TEACHER_STEPS.value}"]
        subprocess.run(command, check=True)


def _measure(size_name: str, workload_name: str) -> list[tuple[str, dict[str, Any]]]:
    """Returns the figures of our step and of the peer, then of our step and each change."""
    (size, dropout), is_real = _SIZES[size_name], workload_name == "real"
    steps = _STEPS.value or _DEFAULT_STEPS[workload_name]
    lengths, rows, padded = (_real if is_real else _uniform)(size, steps)
    settings = dict(size=tuple(size), dropout=dropout, has_padding=is_real)

    def start(name: str) -> _Process:
        if name == _PEER:
            return _Process(_PYTHON.value, "gpu_pytorch.py", padded, settings)
        change, flag = ("", f" {name}") if name.startswith("--xla") else (name, "")
        # Several processes share the GPU's memory.
        env = dict(KERAS_BACKEND="jax", XLA_PYTHON_CLIENT_PREALLOCATE="false")
        env["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + flag
        script, values = "gpu_t2t_keras.py", settings | dict(change=change)
        return _Process(sys.executable, script, rows, values, **env)

    with start("") as own:
        own.run_pass()
        results, others = [], [_PEER] * bool(_PYTHON.value) + _CHANGES.value
        for name in others:
            try:
                with start(name) as other:
                    other.run_pass()
                    for process in (own, other) * _ROUNDS.value:
                        process.run_pass()
            except (OSError, RuntimeError) as error:
                print(f"{size_name}, {workload_name}: {name} is left out: {error}", flush=True)
                continue
            ours, theirs = (process.figures(size, lengths) for process in (own, other))
            changed, base = (ours, theirs) if name == _PEER else (theirs, ours)
            changed["ratio"] = changed["tokens_per_s"] / base["tokens_per_s"]
            results += [(_OURS, ours), (name, theirs)]
        for _ in range(0 if results else _ROUNDS.value):
            own.run_pass()
        return results or [(_OURS, own.figures(size, lengths))]


def _uniform(size: workload.Size, steps: int) -> tuple[np.ndarray, list, list]:
    shape = steps, 2, size.batch_tokens // _UNIFORM_LENGTH, _UNIFORM_LENGTH
    ids = np.random.default_rng(1).integers(3, size.vocab_size, shape, np.int32)
    batches = [data.Batch(*sides) for sides in ids]
    return np.full((steps * shape[2], 2), _UNIFORM_LENGTH), batches, batches


def _real(size: workload.Size, steps: int) -> tuple[np.ndarray, list, list]:
    """Returns tokens of pairs, [pairs, 2], and batches of them for us and for the peer."""
    random, lengths = np.random.default_rng(1), _pair_lengths()
    lengths = random.permutation(lengths[lengths.max(axis=1) <= _MAX_LENGTH])
    totals = np.cumsum(lengths, axis=0).max(axis=1)
    lengths = lengths[: np.searchsorted(totals, steps * size.batch_tokens, side="right")]
    store = ExampleStore([random.integers(3, size.vocab_size, lengths.sum(), np.int32)], [lengths])
    limits = size.batch_tokens, _MAX_LENGTH
    sampler = data.TokenBatchSampler(lengths, *limits, seed=1, batching="rows")
    rows = sampler.rows(2**62, replicas=1)  # A microbatch is a whole step.
    parts = (part for pairs in sampler.epoch(0) for _, [part] in rows.split(lengths, pairs, 1))
    ours, peers = [rows.batch(store, part) for part in parts], []
    for pairs in data.TokenBatchSampler(lengths, *limits, seed=1).epoch(0):
        sides = (store.padded(pairs, side) for side in SIDES)
        widths = ((ids, -ids.shape[1] % _MULTIPLE.value) for ids in sides)
        peers.append(data.Batch(*(np.pad(ids, ((0, 0), (0, width))) for ids, width in widths)))
    return lengths, ours, peers


def _pair_lengths() -> np.ndarray:
    if not _LENGTHS.value:
        random = np.random.default_rng(1)
        source, ratio = (random.normal(*of, _PAIRS) for of in (_LOG_SOURCE, _LOG_RATIO))
        return np.exp([source, source + ratio]).round().clip(2, _MAX_LENGTH).T.astype(np.int32)
    path = Path(_LENGTHS.value)
    files = [path] if path.is_file() else sorted(path.rglob("train-*.lengths.npy"))
    return np.concatenate([np.load(file) for file in files])


if __name__ == "__main__":
    app.run(main)
