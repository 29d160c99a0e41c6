"""The devices that a run uses under TensorFlow, and the strategy over those of several workers."""

import functools
import sys
from pathlib import Path

import tensorflow as tf

from t2t_keras.environment import usable_cores
from t2t_keras.errors import UserError
from t2t_keras.training.backends.base import Devices
from t2t_keras.training.distributed.cluster import Cluster

# Exists where the driver of NVIDIA's GPUs is loaded.
_DRIVER = Path("/proc/driver/nvidia/version")


def plan_devices(
    worker_gpu: int | None, xla: bool, cluster: Cluster | None, cpu_replicas: int
) -> Devices:
    """Returns what a run computes on; see `backends.base.plan_devices`.

    No GPU is initialised: TensorFlow must learn about other workers before it uses a device.
    """
    gpus = _gpu_names(worker_gpu)
    if cpu_replicas > 1:
        _divide_cpu(cpu_replicas, len(gpus), cluster)
    kind, count = ("gpu", len(gpus)) if gpus else ("cpu", cpu_replicas)
    names = [f"/{kind}:{number}" for number in range(count)]
    workers = len(cluster.addresses) if cluster else 1
    return Devices(names, gpus, count * workers, xla)


def _divide_cpu(replicas: int, gpus: int, cluster: Cluster | None) -> None:
    """Gives each of several replicas its own share of the CPU's cores.

    All cores together would wait for each other at each small product, replicas do once a step.
    """
    cores = usable_cores()
    if gpus or cluster or replicas > cores:
        workers = "several workers" if cluster else "one process"
        raise UserError(
            f"--cpu_replicas={replicas}: expected one process on a CPU (--worker_gpu=0) and a "
            f"number <= {cores}, the cores that it may use; got {workers} with {gpus} GPUs.",
            code="bad_value",
        )
    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * replicas
    try:
        tf.config.set_logical_device_configuration(cpu, parts)
        tf.config.threading.set_intra_op_parallelism_threads(cores // replicas)
        tf.config.threading.set_inter_op_parallelism_threads(replicas)
    except RuntimeError as error:
        raise UserError(
            f"--cpu_replicas={replicas}: TensorFlow already computes in this process. Train in a "
            f"new one. ({error})",
            code="already_computing",
        ) from error


def _gpu_names(worker_gpu: int | None) -> list[str]:
    """Returns the names of the GPUs that this process uses."""
    present = tf.config.get_visible_devices("GPU")
    if worker_gpu is None and not present and _DRIVER.exists():
        print(
            "This machine has NVIDIA's driver, but TensorFlow sees no GPU: it uses the CPU. "
            "TF_CPP_MIN_LOG_LEVEL=0 shows why; often its libraries are missing, which `pip install "
            "tensorflow[and-cuda]` installs. --worker_gpu=0 asks for the CPU.",
            file=sys.stderr,
            flush=True,
        )
    if (worker_gpu or 0) > len(present):
        raise UserError(
            f"--worker_gpu={worker_gpu}: TensorFlow sees {len(present)} GPUs. Give a smaller "
            f"number.",
            code="no_gpu",
        )
    details = map(tf.config.experimental.get_device_details, present[:worker_gpu])
    return [each.get("device_name", "GPU") for each in details]


@functools.cache  # A process has one TensorFlow server.
def multi_worker_strategy(cluster: Cluster, gpus: int) -> tf.distribute.Strategy:
    """Returns the strategy over as many GPUs of each worker; waits until all have called it."""
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(cluster.addresses)}),
        task_type="worker",
        task_id=cluster.index,
        num_accelerators={"GPU": gpus},
        rpc_layer="grpc",
    )
    return tf.distribute.MultiWorkerMirroredStrategy(resolver)
