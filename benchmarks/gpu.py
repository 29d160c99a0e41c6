"""The training step on one GPU, in turns with a plain Transformer in compiled PyTorch.

    python benchmarks/gpu.py [--lengths=pairs.npy] [--peak_tflops=989] [--out=gpu.json]
    python benchmarks/gpu.py --peer= --changes="no dropout,--xla_gpu_enable_cublaslt=true"
    python benchmarks/gpu.py --sizes=toy --steps=2      # on a CPU
    python benchmarks/gpu.py --teacher=work/data/teacher --steps=10300 --output_dir=teacher

Ours is the trainer's step on JAX (peers/gpu_t2t_keras.py), without TensorFlow. Sentences are
"uniform", 32 tokens on both sides, or "real", as long as the pairs of --lengths, or like
Multi30k's. Real ones are packed into rows by us. The peer (peers/gpu_pytorch.py) pads batches of
similar length to a multiple of 8, as its users do. Both get all pairs.

The median round, a pass over all batches, counts. Tokens are target tokens; "of the peak" is the
rate of the products, forward and backward. Neither counts padding. "first" is the time from the
start of a process to the end of its first step; "compiled" adds what the first pass takes longer
than the others. A change is a flag of XLA or in CHANGES of gpu_t2t_keras.py, and takes turns with
the unchanged step.

--teacher trains the teacher of experiments/student. BLEU needs TensorFlow: the command that
measures it on another machine is printed at the end.
"""

import json
import os
import pickle
import statistics
import subprocess
import sys
import time
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags

_PEERS = Path(__file__).resolve().parent / "peers"
sys.path.append(str(_PEERS))
import workload  # noqa: E402

from t2t_keras.data import batches as data  # noqa: E402
from t2t_keras.data.dataset import SIDES, ExampleStore, read_manifest  # noqa: E402
from t2t_keras.environment import installed_versions  # noqa: E402
from t2t_keras.settings import as_assignments  # noqa: E402

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

_SIZE = flags.DEFINE_list("sizes", ["big", "base"], f"Of {', '.join(_SIZES)}.")
_WORKLOADS = flags.DEFINE_list("workloads", list(_DEFAULT_STEPS), "Workloads.")
_LENGTHS = flags.DEFINE_string("lengths", "", ".npy of [pairs, 2] tokens, or data of t2t-datagen.")
_STEPS = flags.DEFINE_integer("steps", None, "Steps of a round, about; or of the teacher.")
_ROUNDS = flags.DEFINE_integer("rounds", 4, "Number of timed rounds.", 1)
_LIMIT = flags.DEFINE_float("limit", 420.0, "Seconds after which no other workload begins.")
_CHANGES = flags.DEFINE_list("changes", [], "Changes of our step to measure.")
_PYTHON = flags.DEFINE_string("peer", sys.executable, "Python with PyTorch; empty = no peer.")
_MULTIPLE = flags.DEFINE_integer("peer_multiple", 8, "The peer pads lengths to multiples of this.")
_PEAK = flags.DEFINE_float("peak_tflops", 0.0, "Peak of the device, 10^12 operations a second.")
_OUT = flags.DEFINE_string("out", "", "JSON file for all figures.")
_TEACHER = flags.DEFINE_string("teacher", "", "Data of the recipe's teacher, to train it.")
_RUN = flags.DEFINE_string("output_dir", "teacher", "Run of the teacher; RUN.mean is its average.")


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
        """Returns the figures of the last rounds and of the first pass, for pairs of lengths."""
        first, rounds = self.passes[0], self.passes[-_ROUNDS.value :]
        times = [answer["ends"][-1] - answer["start"] for answer in rounds]
        seconds = statistics.median(times)
        ids = {side: [getattr(batch, side) for batch in self.batches] for side in SIDES}
        tokens = {side: sum(int(np.count_nonzero(rows)) for rows in ids[side]) for side in SIDES}
        positions = sum(rows.size for side in SIDES for rows in ids[side])
        shapes = {(rows.shape, other.shape) for rows, other in zip(*ids.values(), strict=True)}
        tflops = workload.gflop(size, *lengths.T) / seconds / 1e3
        return dict(
            ms=seconds / len(self.batches) * 1e3,
            tokens_per_s=tokens["target"] / seconds,
            token_share=sum(tokens.values()) / positions,
            tflops=tflops,
            of_peak=tflops / _PEAK.value if _PEAK.value else 0,
            gigabytes=rounds[-1]["gigabytes"],
            first_s=first["ends"][0] - self.started,
            compiled_s=max(first["ends"][0], first["ends"][-1] - seconds) - self.started,
            shapes=len(shapes),
            pairs=len(lengths),
            target_tokens=tokens["target"],
            loss=rounds[-1]["loss"],
            seconds=times,
            device=first["device"],
        )


def main(_) -> None:
    """Measures each size and workload, or trains the teacher."""
    if _TEACHER.value:
        _train_teacher()
        return
    results, start = [], time.perf_counter()
    for size in _SIZE.value:
        for name in _WORKLOADS.value:
            if time.perf_counter() - start > _LIMIT.value:
                print(f"{size}, {name} is left out after {_LIMIT.value:.0f} s.")
                continue
            for step, figures in _measure(size, name):
                results.append(dict(size=size, workload=name, step=step) | figures)
                print(json.dumps(results[-1]), flush=True)
            _save(results=results)
    columns = "tokens/s | ratio | tokens of positions | of the peak | GB | first, s | compiled, s"
    print(f"\n| {results[0]['device']} | ms | {columns} | shapes |\n|{'---|' * 10}")
    row = "| {size}, {workload}: {step} | {ms:,.1f} | {tokens_per_s:,.0f} | {ratio:.2f} "
    row += "| {token_share:.1%} | {of_peak:.1%} | {gigabytes:.1f} | {first_s:.1f} "
    for figures in results:
        print((row + "| {compiled_s:.1f} | {shapes} |").format(**figures))
    print(f"\nRatio of tokens/s: ours to {_PEER}, a change to the unchanged step before it.")


def _measure(size_name: str, workload_name: str) -> list[tuple[str, dict[str, Any]]]:
    """Returns the figures of our step and of the peer, then of our step and each change."""
    (size, dropout), is_real = _SIZES[size_name], workload_name == "real"
    steps = _STEPS.value or _DEFAULT_STEPS[workload_name]
    lengths, ours, peers = (_real if is_real else _uniform)(size, steps)
    settings = dict(size=tuple(size), dropout=dropout, has_padding=is_real)

    def start(name: str) -> _Process:
        if name == _PEER:
            return _Process(_PYTHON.value, "gpu_pytorch.py", peers, settings)
        change, flag = ("", f" {name}") if name.startswith("--xla") else (name, "")
        # Several processes share the GPU's memory.
        env = dict(KERAS_BACKEND="jax", XLA_PYTHON_CLIENT_PREALLOCATE="false")
        env["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + flag
        own_settings = settings | dict(change=change)
        return _Process(sys.executable, "gpu_t2t_keras.py", ours, own_settings, **env)

    results = []
    with start("") as own:
        own.run_pass()
        for name in [_PEER] * bool(_PYTHON.value) + _CHANGES.value:
            try:
                with start(name) as other:
                    other.run_pass()
                    for process in (own, other) * _ROUNDS.value:
                        process.run_pass()
            except (OSError, RuntimeError) as error:
                print(f"{size_name}, {workload_name}: {name} is left out: {error}", flush=True)
                continue
            pair = [process.figures(size, lengths) | dict(ratio=1.0) for process in (own, other)]
            ratio = pair[0]["tokens_per_s"] / pair[1]["tokens_per_s"]
            pair[name != _PEER]["ratio"] = ratio if name == _PEER else 1 / ratio
            results += zip((_OURS, name), pair, strict=True)
        if not results:
            for _ in range(_ROUNDS.value):
                own.run_pass()
            results = [(_OURS, own.figures(size, lengths) | dict(ratio=1.0))]
    return results


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
    replica = types.SimpleNamespace(num_replicas=1, local_replicas=range(1))
    packed = (data.replica_batches(store, pairs, 0, replica, rows) for pairs in sampler.epoch(0))
    ours, peers = [batch for [[batch]] in map(list, packed)], []
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


def _train_teacher() -> None:
    """Trains, averages the last checkpoints, and prints the losses on the dev set."""
    import yaml

    recipe = _PEERS.parents[1] / "experiments" / "student" / "student.yaml"
    config, run = yaml.safe_load(recipe.read_text("utf-8")), _RUN.value
    teacher, start = config["teachers"], time.perf_counter()
    made_with = read_manifest(Path(_TEACHER.value) / "parallel_text")["config"]
    steps = _STEPS.value or teacher["train_steps"]
    options = dict(problem="parallel_text", problem_config=as_assignments(made_with))
    options |= dict(hparams_set=teacher["hparams_set"], hparams=as_assignments(teacher["hparams"]))
    options |= dict(data_dir=_TEACHER.value, train_steps=steps, keep_checkpoint_max=5, eval_secs=0)
    options |= dict(save_checkpoints_secs=config["save_checkpoints_secs"])
    _run("t2t_trainer", output_dir=run, local_eval_frequency=max(steps // 10, 1), **options)
    seconds = time.perf_counter() - start
    _run("t2t_avg_all", model_dir=run, output_dir=f"{run}.mean", n=5)
    lines = Path(run, "eval", "scalars.jsonl").read_text("utf-8").splitlines()
    evaluations = [json.loads(line) for line in lines]
    _save(seconds=seconds, steps=steps, evaluations=evaluations)
    print(f"\n{seconds:.0f} s\n\n| steps | seconds of training | loss on dev |\n|---|---|---|")
    for row in evaluations:
        print("| {step:,} | {training_seconds:.0f} | {loss:.4f} |".format(**row))
    print(f"\nWith TensorFlow: t2t-compare --runs={run}.mean --source=DEV.en --reference=DEV.de")


def _run(name: str, **values: Any) -> None:
    assignments = [f"--{flag}={value}" for flag, value in values.items()]
    command = [sys.executable, "-m", f"t2t_keras.bin.{name}", *assignments]
    subprocess.run(command, env=os.environ | {"KERAS_BACKEND": "jax"}, check=True)


def _save(**figures: Any) -> None:
    if _OUT.value:
        content = json.dumps(dict(versions=installed_versions("torch"), **figures), indent=1)
        Path(_OUT.value).write_text(f"{content}\n", encoding="utf-8")


if __name__ == "__main__":
    app.run(main)
