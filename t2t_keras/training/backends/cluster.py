"""The workers that train together, as `TF_CONFIG` or Slurm describes them."""

import contextlib
import dataclasses
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping

from t2t_keras.errors import TRY_AGAIN_STATUS, UserError

_TF_CONFIG_EXAMPLE = (
    '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'
)
# The port of a host's first task under Slurm, as in TensorFlow's `SlurmClusterResolver`.
_SLURM_PORT = 8888


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers of a run; each is one process with the GPUs of its machine.

    Attributes:
      addresses: "host:port" of each worker, where its TensorFlow server listens.
      index: number of this worker; 0 is the chief, which writes the run's files.
    """

    addresses: tuple[str, ...]
    index: int

    @property
    def local_workers(self) -> int:
        """Number of workers on this worker's machine, itself included."""
        hosts = [_host_and_port(address)[0] for address in self.addresses]
        return hosts.count(hosts[self.index])

    def name(self, index: int) -> str:
        """Returns a worker's name for messages."""
        chief = "the chief, " if index == 0 else ""
        return f"Worker {index} ({chief}{self.addresses[index]})"


def cluster_from_environment(environment: Mapping[str, str] = os.environ) -> Cluster | None:
    """Returns the cluster to which this process belongs; None = it trains alone.

    `TF_CONFIG` takes precedence over Slurm's variables, which count in a step of several tasks.
    Raises `UserError` if they are invalid.
    """
    if environment.get("TF_CONFIG", "").strip():
        cluster = _from_tf_config(environment["TF_CONFIG"])
    elif environment.get("SLURM_STEP_NUM_TASKS", "1") != "1" and "SLURM_PROCID" in environment:
        cluster = _from_slurm(environment)
    else:
        return None
    return cluster if len(cluster.addresses) > 1 else None


@contextlib.contextmanager
def without_tf_config() -> Iterator[None]:
    """Hides `TF_CONFIG` from TensorFlow, which fails in a single process if it is empty."""
    content = os.environ.pop("TF_CONFIG", None)
    try:
        yield
    finally:
        if content is not None:
            os.environ["TF_CONFIG"] = content


def require_free_port(cluster: Cluster) -> None:
    """Raises `UserError` if this worker's port is in use."""
    address = cluster.addresses[cluster.index]
    port = _host_and_port(address)[1]
    try:
        socket.create_server(("", port)).close()
    except OSError as error:
        source = "TF_CONFIG" if os.environ.get("TF_CONFIG", "").strip() else "Slurm's variables"
        raise UserError(
            f"{cluster.name(cluster.index)} cannot listen on port {port}, which {source} assigns: "
            f"{error.strerror}. End the process that uses it, or give every machine another port "
            f"for this worker.",
            TRY_AGAIN_STATUS,
            code="port_in_use",
        ) from error


def _from_tf_config(text: str) -> Cluster:
    try:
        content = json.loads(text)
        jobs, task = content.get("cluster", {}), content.get("task", {})
        job, index = task.get("type", ""), task.get("index", -1)
        chiefs, workers = jobs.get("chief", []), jobs.get("worker", [])
        addresses = (*chiefs, *workers)
        if set(jobs) - {"chief", "worker"}:
            raise ValueError(f"expected jobs 'chief' and 'worker', got {', '.join(jobs)}")
        for address in addresses:
            _host_and_port(address)
        if len(set(addresses)) < len(addresses) or len(chiefs) > 1:
            raise ValueError("expected at most one chief, and a different address for each worker")
        if addresses and (not isinstance(index, int) or not 0 <= index < len(jobs.get(job, []))):
            raise ValueError(f"the task {job!r} {index!r} is not in the cluster")
    except (ValueError, AttributeError, TypeError) as error:
        raise UserError(
            f"TF_CONFIG={text!r}: {error}. Give every machine the same list of workers and its own "
            f"index, for example {_TF_CONFIG_EXAMPLE}; or unset TF_CONFIG to train on one machine.",
            code="bad_configuration",
        ) from None
    return Cluster(addresses, index + (len(chiefs) if job == "worker" else 0))


def _from_slurm(environment: Mapping[str, str]) -> Cluster:
    try:
        hosts = _slurm_hosts(environment["SLURM_STEP_NODELIST"])
        tasks = _slurm_tasks(environment["SLURM_STEP_TASKS_PER_NODE"])
        addresses = [
            f"{host}:{_SLURM_PORT + number}"
            for host, count in sorted(zip(hosts, tasks, strict=True))
            for number in range(count)
        ]
        if len(addresses) != int(environment["SLURM_STEP_NUM_TASKS"]):
            raise ValueError(f"SLURM_STEP_NUM_TASKS={environment['SLURM_STEP_NUM_TASKS']}")
        port = _SLURM_PORT + int(environment["SLURM_LOCALID"])
        # Hosts are sorted as strings, so an address's index need not be the task's number.
        index = addresses.index(f"{environment['SLURMD_NODENAME']}:{port}")
    except (ValueError, KeyError) as error:
        raise UserError(
            f"Cannot read Slurm's variables of this step: {error}. Start the command with srun, "
            f"one task per machine; or set TF_CONFIG.",
            code="bad_configuration",
        ) from None
    return Cluster(tuple(addresses), index)


def _slurm_hosts(text: str) -> list[str]:
    """Returns the hosts of a list such as "gpu[09-11,15],login2"."""
    host = r"([^,\[\]]+)(?:\[([\d,-]+)\])?"
    if not re.fullmatch(f"{host}(,{host})*", text):
        raise ValueError(f"hosts: {text}")
    hosts = []
    for name, numbers in re.findall(host, text):
        if not numbers:
            hosts.append(name)
        for part in numbers.split(",") if numbers else ():
            first, _, last = part.partition("-")
            for number in range(int(first), int(last or first) + 1):
                hosts.append(f"{name}{number:0{len(first)}}")
    return hosts


def _slurm_tasks(text: str) -> list[int]:
    """Returns the tasks of each host from a list such as "2(x3),1"."""
    counts = []
    for part in text.split(","):
        count, _, times = part.rstrip(")").partition("(x")
        counts += [int(count)] * int(times or 1)
    return counts


def _host_and_port(address: str) -> tuple[str, int]:
    """Returns the parts of an address; raises `ValueError` if it is invalid."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise ValueError(f"expected an address as host:port, got {address!r}")
    return host, int(port)
