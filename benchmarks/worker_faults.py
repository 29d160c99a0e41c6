"""Faults of workers that train together on this machine: how soon and with what words they end.

    python benchmarks/worker_faults.py [--trials=3] [--faults=killed,stopped]
    python benchmarks/worker_faults.py --workers=1 --trials=40 --times=5 "--faults=chief killed"

Three workers, or one alone, train a small model, and something happens to one of them. Printed for
each fault: the seconds from it (from the start, for a worker that does not start as it should)
until the last of the others has ended, their exit status and what they say. Each run is then
continued by the same command, after --times such faults to its end, and must have exactly the
weights and moments of a run to which nothing happened.
"""

import multiprocessing
import os
import random
import signal
import tempfile
import time
from pathlib import Path

from absl import app, flags
from measuring import training_state, worker_environments

_TRIALS = flags.DEFINE_integer("trials", 3, "Number of times that each fault is tried.", 1)
_TIMES = flags.DEFINE_integer("times", 1, "Number of faults before a run is let end.", 1)
_FAULTS = flags.DEFINE_list("faults", [], "Faults to try; none = all.")
_WORKERS = flags.DEFINE_integer("workers", 3, "Number of workers.", 1)

_PROBLEM = "algorithmic_reverse_binary40", "train_size=300,dev_size=20"
_FLAGS = (
    f"--problem={_PROBLEM[0]} --problem_config={_PROBLEM[1]} "
    "--hparams_set=transformer_tiny --local_eval_frequency=20 --save_checkpoints_secs=0 "
    "--hparams=num_layers=1,d_model=16,d_ff=32,num_heads=2,warmup_steps=10,batch_tokens=1000 "
    "--train_steps=200 --worker_start_secs=30 --worker_timeout_secs=10"
).split()
# Workers are forked from a process that has imported TensorFlow, which takes longer than training.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "t2t_keras.bin.t2t_trainer",
        "t2t_keras.training.backends.tensorflow",
        "t2t_keras.training.distributed.sync",
    ]
)
# By name: which worker, the signal that it gets while it trains, and how it starts otherwise.
_NEVER = ["--never"]
_ALL = {
    "killed": (1, signal.SIGKILL, []),
    "chief killed": (0, signal.SIGKILL, []),
    "stopped": (1, signal.SIGSTOP, []),
    "chief stopped": (0, signal.SIGSTOP, []),
    "never starts": (1, 0, _NEVER),
    "chief never starts": (0, 0, _NEVER),
    "other settings": (1, 0, ["--random_seed=2"]),
    "no data": (1, 0, ["--data_dir=missing"]),
}


def main(_) -> None:
    """Tries each fault, and prints a line and a text for it."""
    from t2t_keras import registry
    from t2t_keras.data.generate import generate

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        generate(registry.problem(*_PROBLEM), data)
        expected = _finish(data, Path(folder) / "whole")
        for name in _FAULTS.value or _ALL:
            seconds, statuses, texts = [], set(), set()
            for trial in range(_TRIALS.value):
                run = Path(folder) / f"{name} {trial}"
                for _ in range(_TIMES.value):
                    seconds.append(_try(data, run, *_ALL[name], statuses, texts))
                if _finish(data, run) != expected:
                    raise SystemExit(f"{name}: trial {trial} does not continue exactly")
            print(
                f"{name}: {min(seconds):.1f} to {max(seconds):.1f} s, exit status "
                f"{sorted(statuses)}; after all {len(seconds)} continued exactly",
                *sorted(texts),
                sep="\n  ",
                flush=True,
            )


def _try(data: Path, run: Path, victim: int, number: int, more: list[str], statuses, texts):
    """Returns the seconds until all but the victim have ended; adds how they ended."""
    before = set(run.glob("model.ckpt-*.index"))
    started = _start(data, run, {victim: more})
    if number:
        while set(run.glob("model.ckpt-*.index")) <= before:
            if any(process.exitcode is not None for process in started.values()):
                raise SystemExit(f"{run.name}: ended before anything happened")
            time.sleep(0.05)
        time.sleep(random.random() / 3)
        os.kill(started[victim].pid, number)
    since = time.monotonic()
    for index, process in started.items():
        if index != victim or not number:
            process.join()
            statuses.add(process.exitcode)
            text = (run / f"{index}.log").read_text().strip().splitlines()
            texts.add(next((line for line in reversed(text) if "Worker " in line), text[-1])[:200])
    spent = time.monotonic() - since
    if victim in started:
        started[victim].kill()
        started[victim].join()
    return spent


def _finish(data: Path, run: Path) -> dict[str, bytes]:
    """Trains to the end; returns all weights and moments."""
    for index, process in _start(data, run, {}).items():
        process.join()
        if process.exitcode:
            raise SystemExit((run / f"{index}.log").read_text())
    return training_state(run)


def _start(data: Path, run: Path, more: dict[int, list[str]]) -> dict[int, multiprocessing.Process]:
    run.mkdir(exist_ok=True)
    command = ["t2t-trainer", *_FLAGS, f"--data_dir={data}", f"--output_dir={run}"]
    processes = {}
    for index, environment in enumerate(worker_environments(_WORKERS.value)):
        added = more.get(index, [])
        if added is not _NEVER:
            arguments = [*command, *added], environment, run / f"{index}.log"
            processes[index] = _CONTEXT.Process(target=_train, args=arguments)
            processes[index].start()
    return processes


def _train(command: list[str], environment: dict[str, str], log: Path) -> None:
    """Is the main function of a worker's process."""
    with log.open("w") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    os.environ.update(environment)
    from t2t_keras.bin import t2t_trainer

    t2t_trainer.run(command)


if __name__ == "__main__":
    app.run(main)
