"""Faults of workers that train together on this machine: how soon and with what words each ends.

    python benchmarks/worker_faults.py [--trials=10] [--faults=killed,stopped]

Two workers train a small model; at a random moment, while they start, train, evaluate or save,
something happens to one of them. What is checked each time: every worker that still can ends within
the stated time from that moment, with the stated exit status and a text that names the worker and
the cause; and the same command, started again as it should be, ends with exactly the numbers of a
run to which nothing happened.
"""

import dataclasses
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from absl import app, flags

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

_TRIALS = flags.DEFINE_integer("trials", 10, "Times that each fault is tried.", 1)
_FAULTS = flags.DEFINE_list("faults", [], "Faults to try; none = all.")
_SEED = flags.DEFINE_integer("seed", 1, "Of the moments at which something happens.")

_STEPS = 60
_START_SECONDS, _TIMEOUT_SECONDS = 60, 30
_PROBLEM, _CONFIG = "algorithmic_reverse_binary40", "train_size=300,dev_size=20"
_SMALL = "num_layers=1,d_model=16,d_ff=32,num_heads=2,warmup_steps=10,batch_tokens=1000"
_TRAINER = """
import signal, threading, time
from t2t_keras.environment import prepare_tensorflow
prepare_tensorflow()
from t2t_keras.data.shards import ExampleStore
from t2t_keras.training.workers import SeveralWorkers
meet, padded, stalls = SeveralWorkers.meet, ExampleStore.padded, threading.Event()
def meet_and_tell(*arguments):
    print(f"meets at {time.time()}", flush=True)
    meet(*arguments)
    print(f"met at {time.time()}", flush=True)
def wait_or_read(*arguments):
    # Batches are read in a thread of their own, the dev set is not.
    if stalls.is_set() and threading.current_thread() is not threading.main_thread():
        print(f"stalls at {time.time()}", flush=True)
        time.sleep(3600)
    return padded(*arguments)
SeveralWorkers.meet, ExampleStore.padded = meet_and_tell, wait_or_read
signal.signal(signal.SIGUSR1, lambda *_: stalls.set())
from t2t_keras.bin.t2t_trainer import run
run()
"""


@dataclasses.dataclass(frozen=True)
class Fault:
    """Something that happens to a worker.

    Attributes:
      victim: which of the two.
      signal: what it gets at a random moment, 0 = nothing; SIGUSR1 = it waits for its data.
      starts: whether it starts at all.
      before: what its process runs first.
      data: its folder of data.
      status: what every worker exits with, but for one that was killed.
      since: what of this moment each worker prints, where it is not that of the signal.
      seconds: within which all have ended from that moment, as docs/distributed.md states.
      says: what each says, besides the worker's number.
    """

    victim: int = 1
    signal: int = 0
    starts: bool = True
    before: str = ""
    data: str = "data"
    status: int = 75
    since: str = ""
    seconds: float = 10.0
    says: str = ""


_ALL = {
    "killed": Fault(signal=signal.SIGKILL, says="was killed or crashed"),
    "chief killed": Fault(0, signal.SIGKILL, says="was killed or crashed"),
    "never starts": Fault(
        starts=False, since="meets at", seconds=_START_SECONDS + 10, says="did not start"
    ),
    "stopped": Fault(
        signal=signal.SIGSTOP, seconds=_TIMEOUT_SECONDS + 10, says="has not been heard of"
    ),
    "stalls": Fault(
        signal=signal.SIGUSR1,
        since="stalls at",
        seconds=_TIMEOUT_SECONDS + 10,
        says=" stalls in step ",
    ),
    "other data": Fault(data="other", status=2, since="meets at", says="training data: "),
    "other version": Fault(
        before="import t2t_keras; t2t_keras.__version__ = '0.0.0'; ",
        status=2,
        since="meets at",
        says="t2t_keras: ",
    ),
}


def main(_) -> None:
    """Tries each fault, and prints a line for it."""
    from t2t_keras import registry
    from t2t_keras.data.generate import generate

    wanted = [name.replace("_", " ") for name in _FAULTS.value] or list(_ALL)
    chance = random.Random(_SEED.value)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        generate(registry.problem(_PROBLEM, _CONFIG), folder / "data")
        _make_other_data(folder)
        started = _start(folder, "whole", Fault())
        for process in started.values():
            process.wait(600)
        texts = [_said(folder, "whole", index, started[index], 0) for index in started]
        trains = time.time() - max(_moments(texts, "met at"))
        expected = _numbers(folder / "whole")
        for name in wanted:
            ended = [
                _try(folder, f"{name} {trial}", _ALL[name], chance.random(), trains)
                for trial in range(_TRIALS.value)
            ]
            for trial in range(_TRIALS.value):
                found = _numbers(folder / f"{name} {trial}")
                if not np.array_equal(found, expected):
                    raise SystemExit(f"{name}: trial {trial} does not continue exactly")
            print(
                f"{name}: {len(ended)} of {len(ended)} ended on every worker, the last after "
                f"{max(ended):.1f} s (within {_ALL[name].seconds:g} s is stated), and continued "
                f"exactly",
                flush=True,
            )


def _make_other_data(folder: Path) -> None:
    """Copies the data, and gives the copy another checksum: as of another text of the same size."""
    shutil.copytree(folder / "data", folder / "other")
    manifest = folder / "other" / _PROBLEM / "manifest.json"
    content = json.loads(manifest.read_text())
    name = next(name for name in content["files"] if name.startswith("train"))
    content["files"][name]["sha256"] = "0" * 64
    manifest.write_text(json.dumps(content))


def _try(folder: Path, name: str, fault: Fault, moment: float, seconds: float) -> float:
    """Returns the seconds from the fault until all have ended, and lets the run end well.

    Args:
      folder: of data and runs.
      name: of the run.
      fault: what happens.
      moment: when the signal comes, from 0, the workers have met, to 1, the run is nearly done.
      seconds: that a run takes from when they have met.
    """
    processes = _start(folder, name, fault)
    since = 0.0
    if fault.signal:
        _wait_for(lambda: len(_moments(_outputs(folder, name, processes), "met at")) == 2)
        if fault.signal == signal.SIGUSR1:
            # While it starts, a worker may wait long for its data.
            _wait_for(lambda: _newest_step(folder / name) > moment * (_STEPS - 20))
        else:
            time.sleep(moment * 0.7 * seconds)
        if any(process.poll() is not None for process in processes.values()):
            raise SystemExit(f"{name}: ended before anything happened")
        processes[fault.victim].send_signal(fault.signal)
        since = time.time()
    for index in sorted(processes, key=lambda index: index == fault.victim):
        if index == fault.victim and fault.signal == signal.SIGSTOP:
            processes[index].send_signal(signal.SIGCONT)
        processes[index].wait(fault.seconds + 2 * _START_SECONDS)
    ended = time.time()
    for index, process in processes.items():
        killed = index == fault.victim and fault.signal == signal.SIGKILL
        text = _said(folder, name, index, process, -signal.SIGKILL if killed else fault.status)
        if not killed and not (f"orker {fault.victim} (" in text and fault.says in text):
            raise SystemExit(f"{name}: worker {index} does not name the cause:\n{text}")
    if fault.since:
        since = max(_moments(_outputs(folder, name, processes), fault.since))
    if ended - since > fault.seconds:
        raise SystemExit(f"{name}: {ended - since:.1f} s, and {fault.seconds:g} s is stated")
    again = _start(folder, name, Fault())
    for index, process in again.items():
        process.wait(600)
        _said(folder, name, index, process, 0)
    return ended - since


def _wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 5 * _START_SECONDS
    while not happened():
        if time.monotonic() > end:
            raise SystemExit("the workers do not come to train")
        time.sleep(0.02)


def _start(folder: Path, name: str, fault: Fault) -> dict[int, subprocess.Popen]:
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    port = 20_000 + port % 20_000
    addresses = [f"localhost:{port}", f"localhost:{port + 1}"]
    processes = {}
    for index in range(2):
        struck = index == fault.victim
        if struck and not fault.starts:
            continue
        arguments = f"--problem={_PROBLEM} --problem_config={_CONFIG} --hparams={_SMALL} "
        arguments += (
            "--hparams_set=transformer_tiny --local_eval_frequency=10 --save_checkpoints_secs=0 "
        )
        arguments += f"--train_steps={_STEPS} --worker_start_secs={_START_SECONDS} "
        arguments += f"--worker_timeout_secs={_TIMEOUT_SECONDS}"
        task = {"type": "worker", "index": index}
        with _output(folder, name, index).open("w") as output:
            processes[index] = subprocess.Popen(
                [
                    *[sys.executable, "-c", (fault.before if struck else "") + _TRAINER],
                    *arguments.split(),
                    f"--data_dir={folder / (fault.data if struck else 'data')}",
                    f"--output_dir={folder / name}",
                ],
                env=os.environ
                | {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task})},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
    return processes


def _output(folder: Path, name: str, index: int) -> Path:
    return folder / f"{name}, worker {index}.log"


def _outputs(folder: Path, name: str, indices: Iterable[int]) -> list[str]:
    return [_output(folder, name, index).read_text(encoding="utf-8") for index in indices]


def _moments(texts: list[str], what: str) -> list[float]:
    """Returns at which times the workers said that something was so."""
    return [float(each) for text in texts for each in re.findall(rf"^{what} (\S+)$", text, re.M)]


def _said(folder: Path, name: str, index: int, process: subprocess.Popen, status: int) -> str:
    (text,) = _outputs(folder, name, [index])
    if process.returncode != status:
        raise SystemExit(f"{name}: exit status {process.returncode}, not {status}:\n{text}")
    return text


def _newest_step(run: Path) -> int:
    import tensorflow as tf

    from t2t_keras.training.checkpoint_names import step_of

    newest = tf.train.latest_checkpoint(str(run))
    return step_of(newest) if newest else 0


def _numbers(run: Path) -> np.ndarray:
    """Returns all weights and moments of a run's newest checkpoint."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(run))
    names = [name for name in reader.get_variable_to_shape_map() if "save_counter" not in name]
    values = [reader.get_tensor(name) for name in sorted(names) if "VARIABLE_VALUE" in name]
    return np.concatenate([np.ravel(value) for value in values])


if __name__ == "__main__":
    app.run(main)
