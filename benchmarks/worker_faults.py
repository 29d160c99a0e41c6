"""Faults of workers that train together on this machine: how soon and with what words they end.

    python benchmarks/worker_faults.py [--trials=3] [--faults=killed,stopped]

Three workers train a small model, and something happens to one of them. Printed for each fault:
the seconds from it (from the start, for a worker that does not start as it should) until the last
of the others has ended, their exit status and what they say. Each run is then continued by the same
command, and must end with exactly the weights and moments of a run to which nothing happened.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from absl import app, flags

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

_TRIALS = flags.DEFINE_integer("trials", 3, "Number of times that each fault is tried.", 1)
_FAULTS = flags.DEFINE_list("faults", [], "Faults to try; none = all.")

_WORKERS, _STEPS = 3, 60
_FLAGS = (
    "--problem=algorithmic_reverse_binary40 --problem_config=train_size=300,dev_size=20 "
    "--hparams_set=transformer_tiny --local_eval_frequency=20 --save_checkpoints_secs=0 "
    "--hparams=num_layers=1,d_model=16,d_ff=32,num_heads=2,warmup_steps=10,batch_tokens=1000 "
    f"--train_steps={_STEPS} --worker_start_secs=30 --worker_timeout_secs=10"
).split()
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
        problem = registry.problem(
            "algorithmic_reverse_binary40", {"train_size": 300, "dev_size": 20}
        )
        generate(problem, data)
        expected = _finish(data, Path(folder) / "whole")
        for name in _FAULTS.value or _ALL:
            seconds, statuses, texts = [], set(), set()
            for trial in range(_TRIALS.value):
                run = Path(folder) / f"{name} {trial}"
                spent = _try(data, run, *_ALL[name], statuses, texts)
                seconds.append(spent)
                if not np.array_equal(_finish(data, run), expected):
                    raise SystemExit(f"{name}: trial {trial} does not continue exactly")
            print(
                f"{name}: {min(seconds):.1f} to {max(seconds):.1f} s, exit status "
                f"{sorted(statuses)}; all {len(seconds)} continued exactly\n  "
                + "\n  ".join(sorted(texts)),
                flush=True,
            )


def _try(data: Path, run: Path, victim: int, number: int, more: list[str], statuses, texts):
    """Returns the seconds until all but the victim have ended; adds how they ended."""
    started = _start(data, run, {victim: more})
    if number:
        while not list(run.glob("model.ckpt-*.index")):
            if any(process.poll() is not None for process in started.values()):
                raise SystemExit(f"{run.name}: ended before anything happened")
            time.sleep(0.05)
        time.sleep(random.random())
        started[victim].send_signal(number)
    since = time.monotonic()
    for index, process in started.items():
        if index != victim or not number:
            statuses.add(process.wait())
            text = (run / f"{index}.log").read_text().strip().splitlines()
            texts.add(next((line for line in reversed(text) if "Worker " in line), text[-1])[:200])
    spent = time.monotonic() - since
    if victim in started:
        started[victim].kill()
        started[victim].wait()
    return spent


def _finish(data: Path, run: Path) -> np.ndarray:
    """Trains to the end; returns all weights and moments."""
    import tensorflow as tf

    for index, process in _start(data, run, {}).items():
        if process.wait():
            raise SystemExit((run / f"{index}.log").read_text())
    reader = tf.train.load_checkpoint(str(run))
    names = [name for name in reader.get_variable_to_shape_map() if "save_counter" not in name]
    values = [reader.get_tensor(name) for name in sorted(names) if "VARIABLE_VALUE" in name]
    return np.concatenate([np.ravel(value) for value in values])


def _start(data: Path, run: Path, more: dict[int, list[str]]) -> dict[int, subprocess.Popen]:
    run.mkdir(exist_ok=True)
    servers = [socket.create_server(("localhost", 0)) for _ in range(_WORKERS)]
    addresses = [f"localhost:{server.getsockname()[1]}" for server in servers]
    for server in servers:
        server.close()
    processes = {}
    for index in range(_WORKERS):
        if more.get(index) is _NEVER:
            continue
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        with (run / f"{index}.log").open("w") as log:
            processes[index] = subprocess.Popen(
                [
                    *[sys.executable, "-m", "t2t_keras.bin.t2t_trainer", *_FLAGS],
                    *[f"--data_dir={data}", f"--output_dir={run}", *more.get(index, [])],
                ],
                env=os.environ | {"TF_CONFIG": json.dumps(task)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
    return processes


if __name__ == "__main__":
    app.run(main)
