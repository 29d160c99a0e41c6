"""Which workers train together, from `TF_CONFIG` or from Slurm."""

import dataclasses
import json
import os
from collections.abc import Mapping

from t2t_keras.errors import UserError

# From the chief's port to the one on which the workers watch each other.
_WATCH_PORT_OFFSET = 1000
_EXAMPLE = (
    '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'
)


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers of a run; each is one process, with the GPUs of its machine.

    Attributes:
      addresses: "host:port" of each worker; TensorFlow's servers listen there.
      index: this worker's number; 0 is the chief, who writes the run's files.
    """

    addresses: tuple[str, ...]
    index: int

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes checkpoints, curves and records."""
        return self.index == 0

    @property
    def workers_here(self) -> int:
        """Number of workers that share this one's machine, with it."""
        hosts = [_host_and_port(address)[0] for address in self.addresses]
        return hosts.count(hosts[self.index])

    @property
    def watch_address(self) -> tuple[str, int]:
        """Host and port at which the chief waits for the other workers' own connections."""
        host, port = _host_and_port(self.addresses[0])
        offset = _WATCH_PORT_OFFSET if port + _WATCH_PORT_OFFSET < 2**16 else -_WATCH_PORT_OFFSET
        return host, port + offset

    def name(self, index: int) -> str:
        """Returns what messages call a worker."""
        chief = "the chief, " if index == 0 else ""
        return f"worker {index} ({chief}{self.addresses[index]})"


def cluster_from_environment(environment: Mapping[str, str] = os.environ) -> Cluster | None:
    """Returns the cluster that this process is a worker of, or None where it trains alone.

    `TF_CONFIG` comes first; without it, a step that Slurm's `srun` started with more than one
    task is read by TensorFlow's `SlurmClusterResolver`.

    Args:
      environment: variables of the process.

    Raises:
      UserError: `TF_CONFIG` cannot be used.
    """
    if environment.get("TF_CONFIG", "").strip():
        cluster = _from_tf_config(environment["TF_CONFIG"])
    elif int(environment.get("SLURM_STEP_NUM_TASKS", 1)) > 1 and "SLURM_PROCID" in environment:
        cluster = _from_slurm()
    else:
        return None
    return cluster if len(cluster.addresses) > 1 else None


def _from_tf_config(text: str) -> Cluster:
    def refused(what: str) -> UserError:
        return UserError(
            f"TF_CONFIG={text!r} {what}. It has the same list of workers on every machine and each "
            f"machine's own index, as {_EXAMPLE}; or leave it out to train on one machine."
        )

    try:
        content = json.loads(text)
        jobs, task = content.get("cluster", {}), content.get("task", {})
        kind, index = task.get("type", ""), task.get("index", -1)
        others = sorted(set(jobs) - {"chief", "worker"})
        addresses = [*jobs.get("chief", []), *jobs.get("worker", [])]
    except (ValueError, AttributeError, TypeError) as error:
        raise refused(f"cannot be read ({error})") from None
    if others:
        raise refused(f"has {', '.join(others)}; only a chief and workers train here")
    if not addresses:
        return Cluster((), 0)
    for address in addresses:
        try:
            _host_and_port(address)
        except (ValueError, AttributeError):
            raise refused(f"has the address {address!r}; host:port is expected") from None
    if len(set(addresses)) < len(addresses):
        raise refused("names an address twice")
    if len(jobs.get("chief", [])) > 1:
        raise refused("has more than one chief")
    if not isinstance(index, int) or not 0 <= index < len(jobs.get(kind, [])):
        raise refused(f"has the task {kind!r} {index!r}, which is not in its cluster")
    before = len(jobs.get("chief", [])) if kind == "worker" else 0
    return Cluster(tuple(addresses), before + index)


def _from_slurm() -> Cluster:
    import tensorflow as tf

    tasks = int(os.environ["SLURM_STEP_NUM_TASKS"])
    try:
        # The step decides which GPUs each task sees (--gpus-per-task), and TensorFlow finds them:
        # the resolver is only asked who the others are, and must not hand out GPUs again.
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
            gpus_per_node=tasks, gpus_per_task=1, auto_set_gpu=False
        )
        addresses = resolver.cluster_spec().as_dict()["worker"]
        # The resolver orders hosts as text, so that the task's own number may be another's place.
        first_port = min(_host_and_port(address)[1] for address in addresses)
        port = first_port + int(os.environ["SLURM_LOCALID"])
        index = addresses.index(f"{os.environ['SLURMD_NODENAME']}:{port}")
    except (RuntimeError, ValueError, KeyError) as error:
        raise UserError(
            f"Slurm's description of this step cannot be read: {error} Start the command with "
            f"srun, one task a machine; or set TF_CONFIG."
        ) from None
    return Cluster(tuple(addresses), index)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not 0 < int(port) < 2**16:
        raise ValueError(address)
    return host, int(port)
