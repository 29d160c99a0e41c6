"""Workers that train one model together.

TensorFlow's coordination service watches them by heartbeats. When a worker is lost or reports an
error, the collective operations of all others abort with an exception.
"""

import contextlib
import ctypes
import dataclasses
import hashlib
import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from t2t_keras.data.dataset import Generated
from t2t_keras.environment import installed_versions, source_version
from t2t_keras.errors import TRY_AGAIN_STATUS, UserError
from t2t_keras.training.backends import base as backend
from t2t_keras.training.backends.cluster import Cluster, cluster_from_environment, require_free_port
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.run_config import RunConfig, TrainOptions

# Longest time that a network file system needs to show a file to another machine.
_MAX_DELAY_SECONDS = 10.0
# gRPC carries error messages of at most a few kilobytes.
_MAX_REPORT = 2000
_REPORT_SECONDS = 2.0
# TensorFlow's errors that a lost worker causes.
_LOST_WORKER_ERRORS = (
    "AbortedError CancelledError DeadlineExceededError InternalError UnavailableError UnknownError"
).split()
# Reasons by TensorFlow 2.21's message about a lost worker, the chief if it names no task.
_REASONS = {
    r"timed out task names:(\s*/job:\S+)+|CoordinationService/RegisterTask": (
        "did not start within {start:g} s (--worker_start_secs)"
    ),
    r"stopped sending heartbeats\):(\s*/job:\S+)+": (
        "sent no heartbeat for {timeout:g} s (--worker_timeout_secs)"
    ),
    r"remote target /job:\S+ while calling /tensorflow\.WorkerService": "closed its connection",
    r"CoordinationService|coordination service": "cannot be reached",
}


@dataclasses.dataclass(frozen=True)
class Actions:
    """Actions after a step, which one worker requests or all workers take."""

    stop: int = 0  # Number of the signal that ends the run, or 0.
    save: bool = False  # Whether to write a checkpoint.
    evaluate: bool = False  # Whether to measure the dev set.


class Workers:
    """The processes that do every step together; without a cluster, this process alone.

    Workers request to save or evaluate when it is time, or to stop after a signal. Requests travel
    with the sums of the next step, so that all workers act after the same step without a further
    exchange. The chief writes the files.
    """

    def __init__(self, cluster: Cluster | None = None, exchange: backend.Exchange | None = None):
        self.cluster, self._exchange = cluster, exchange
        self.count = len(cluster.addresses) if cluster else 1
        self.is_chief = cluster is None or cluster.index == 0
        self._requested_actions, self._last_action_step = Actions(), -1

    def gather(self, value: Any) -> list[Any]:
        """Waits until all workers call it, and returns their values, which JSON can write."""
        if self.cluster is None:
            return [value]
        assert self._exchange
        line = json.dumps([self.cluster.index, value], default=str)
        gathered = self._exchange.gather(line.encode() + b"\n")
        values = dict(map(json.loads, gathered.removesuffix(b"\n").split(b"\n")))
        return [values[index] for index in range(self.count)]

    def stop_together(self, requested: bool) -> bool:
        """Returns whether any worker requests to stop; all must call it after the same step."""
        assert self._exchange
        return self._exchange.total(float(requested)) > 0

    def check_same(self, config: RunConfig, generated: Generated, options: TrainOptions) -> None:
        """Raises `UserError` with all differences in the workers' settings, data and versions."""
        assert self.cluster
        # The dev set matters too, since workers divide it.
        files = generated.manifest["files"].items()
        dev_files = sorted((name, file["sha256"]) for name, file in files if name.startswith("dev"))
        settings = {
            **installed_versions(),
            "source of t2t_keras": source_version(),
            **config.resume_invariants(),
            "train_steps": config.hparams.train_steps,
            "microbatch_tokens": config.hparams.microbatch_tokens,
            "dev data": hashlib.sha256(json.dumps(dev_files).encode()).hexdigest()[:12],
            **{f"--{name}": value for name, value in dataclasses.asdict(options).items()},
        }
        chief, *followers = self.gather(settings)
        mismatches = [
            f"{name}: {chief.get(name)} on {self.cluster.name(0)}, {follower.get(name)} on "
            f"{self.cluster.name(index)}"
            for index, follower in enumerate(followers, start=1)
            for name in {**chief, **follower}
            if follower.get(name) != chief.get(name)
        ]
        if mismatches:
            raise UserError(
                "The workers have different settings:\n  " + "\n  ".join(mismatches),
                code="different_workers",
            )

    def restore_newest(self, checkpoints: Checkpoints, directory: Path) -> str | None:
        """Restores the chief's newest undamaged checkpoint on all workers; None = none exists."""
        newest = checkpoints.restore_newest() if self.is_chief else None
        name = self.gather(Path(newest).name if newest else "")[0]
        if self.is_chief or not name:
            return newest
        path, deadline = str(directory / name), time.monotonic() + _MAX_DELAY_SECONDS
        while not Path(path).exists():
            if time.monotonic() > deadline:
                raise UserError(
                    f"The chief continues from {name}, which is missing in {directory} on this "
                    f"machine. --output_dir must be a folder that all workers share.",
                    code="folder_not_shared",
                )
            time.sleep(0.2)
        checkpoints.restore(path)
        return path

    def receive_requests(self, number: int, sums: dict[str, float]) -> None:
        """Removes all workers' requests from the sums of step `number`, and remembers them."""
        requested = {name: sums.pop(f"{name}_requests", 0) > 0 for name in backend.REQUESTS}
        # Requests made before the last action are fulfilled by it.
        if number > self._last_action_step:
            self._requested_actions = Actions(**requested)

    def exchange_requests(self, step: backend.Step, number: int, due_actions: Actions) -> Actions:
        """Returns the actions of all workers after step `number`, the last one started.

        `due_actions` are those due by a signal or by this worker's clock; only the chief's clock
        counts.
        """
        agreed_actions, self._requested_actions = self._requested_actions, Actions()
        requests = due_actions if self.is_chief else Actions(stop=due_actions.stop)
        if agreed_actions != Actions():
            self._last_action_step = number
            requests = Actions()
        step.request(**dataclasses.asdict(requests))
        # A worker that got no signal itself ends as if it had got SIGTERM.
        stop = (due_actions.stop or signal.SIGTERM) if agreed_actions.stop else 0
        return dataclasses.replace(agreed_actions, stop=stop)


@contextlib.contextmanager
def workers_of_run(options: TrainOptions, worker_gpu: int | None = None) -> Iterator[Workers]:
    """Connects this process to the other workers; an error in one ends all.

    Raises:
      UserError: the environment is invalid, or another worker is lost, does not start or has an
        error.
    """
    cluster = cluster_from_environment()
    if cluster is None:
        yield Workers()
        return
    require_free_port(cluster)
    workers = None
    try:
        workers = Workers(cluster, backend.connect(cluster, worker_gpu, options))
        yield workers
        # The chief's server must end last.
        workers.gather("")
    except BaseException as error:
        if keras.backend.backend() == "jax":
            # When one worker is lost, JAX itself ends all others.
            if type(error).__name__ == "JaxRuntimeError":
                raise _jax_error(error, cluster) from error
            raise
        worker_error = lost_worker_error(error, cluster, options)
        if workers:
            _report(f"{str(worker_error)[:_MAX_REPORT]} [exit status {worker_error.exit_status}]")
        if type(error).__name__ in _LOST_WORKER_ERRORS:
            raise worker_error from error
        raise


def _report(text: str) -> None:
    """Aborts the other workers' operations with this text, if they can be reached."""
    import tensorflow as tf
    from tensorflow.python.eager import context

    # TensorFlow's binding would hold Python's lock until the chief answers, perhaps endlessly.
    (path,) = Path(tf.sysconfig.get_lib()).glob("libtensorflow_cc.*")
    library = ctypes.CDLL(str(path))
    library.TF_NewStatus.restype = ctypes.c_void_p
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    handle = ctypes.c_void_p(get_pointer(context.context()._handle, None))
    status = ctypes.c_void_p(library.TF_NewStatus())
    arguments = handle, tf.errors.UNAVAILABLE, text.encode(), status
    threading.Thread(target=library.TFE_ReportErrorToCluster, args=arguments, daemon=True).start()
    # Otherwise the others may only see that this worker's server has ended.
    time.sleep(_REPORT_SECONDS)


def _jax_error(error: BaseException, cluster: Cluster) -> UserError:
    """Converts a runtime error of JAX here to the error that says what to do."""
    reason = str(error).partition("\n")[0]
    return UserError(
        f"{cluster.name(cluster.index)} cannot continue, probably because another worker ended: "
        f"{reason}. The same command on every machine continues from the newest checkpoint.",
        TRY_AGAIN_STATUS,
        code="worker_ended",
    )


def lost_worker_error(error: BaseException, cluster: Cluster, options: TrainOptions) -> UserError:
    """Converts an exception here to the error that names the ended worker and the reason."""
    text, kind = str(error), type(error).__name__
    if kind not in _LOST_WORKER_ERRORS:
        if isinstance(error, UserError):
            reason, status, code = text, error.exit_status, error.code
        else:
            reason, status, code = f"{kind}: {text}", TRY_AGAIN_STATUS, "worker_failed"
        return UserError(
            f"{cluster.name(cluster.index)} ended with an error: {reason}", status, code=code
        )
    if reported := re.search(r"(Worker \d+ \(.*?) \[exit status (\d+)\]", text, re.DOTALL):
        return UserError(reported[1], int(reported[2]), code="worker_failed")
    if joining_task := re.search(r"/task:(\d+)/device:\S+ is joining a group with size", text):
        name = cluster.name(int(joining_task[1]))
        return UserError(
            f"{name} has a different number of GPUs: expected the same number on all workers.",
            code="different_workers",
        )
    for pattern, template in _REASONS.items():
        if cause := re.search(pattern, text):
            tasks = re.findall(r"task:(\d+)", cause[0]) or ["0"]
            names = " and ".join(cluster.name(int(task)) for task in dict.fromkeys(tasks))
            reason = template.format(
                start=options.worker_start_secs, timeout=options.worker_timeout_secs
            )
            return UserError(
                f"{names} {reason}: killed, crashed, stopped or cut off from the network; see its "
                f"log. The same command on every machine continues from the newest checkpoint.",
                TRY_AGAIN_STATUS,
                code="worker_ended",
            )
    return UserError(
        f"{cluster.name(cluster.index)} cannot continue: {kind}: {text}",
        TRY_AGAIN_STATUS,
        code="worker_failed",
    )
