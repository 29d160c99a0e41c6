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
    worker_gpu: int | None = None,
    xla: bool = False,
    cluster: Cluster | None = None,
    cpu_replicas: int = 1,
) -> Devices:
    """Returns what a run computes on; see `backends.base.plan_devices`.

    No GPU is initialised: TensorFlow must learn about other workers before it uses a device.
    """
    gpus = gpus_of_worker(worker_gpu)
    if cpu_replicas > 1:
        _divide_cpu(cpu_replicas, gpus)
    kind, count = ("gpu", gpus) if gpus else ("cpu", cpu_replicas)
    names = [f"/{kind}:{number}" for number in range(count)]
    workers = len(cluster.addresses) if cluster else 1
    return Devices(names, gpu_names(gpus), count * workers, xla)


def _divide_cpu(replicas: int, gpus: int) -> None:
    """Gives each of several replicas its own share of the CPU's cores.

    The products of a small model have too little work for all cores, which would wait for each
    other more than they compute. Replicas wait for each other once a step.
    """
    if gpus:
        raise UserError(
            f"--cpu_replicas={replicas} is for a CPU, but the run uses {gpus} GPUs. Leave it out, "
            f"or give --worker_gpu=0."
        )
    cores = usable_cores()
    if replicas > cores:
        raise UserError(
            f"--cpu_replicas={replicas}: must be <= {cores}, the cores that this process may use."
        )
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * replicas
        )
        tf.config.threading.set_intra_op_parallelism_threads(cores // replicas)
        tf.config.threading.set_inter_op_parallelism_threads(replicas)
    except RuntimeError as error:
        raise UserError(
            f"--cpu_replicas={replicas}: TensorFlow already computes in this process. Train in a "
            f"new one. ({error})"
        ) from error


def gpus_of_worker(worker_gpu: int | None = None) -> int:
    """Returns the number of GPUs of this process, without initialising them.

    Raises:
      UserError: fewer than `worker_gpu` are visible.
    """
    present = len(tf.config.get_visible_devices("GPU"))
    if worker_gpu is None and not present and _DRIVER.exists():
        print(
            "This machine has NVIDIA's driver, but TensorFlow sees no GPU: it uses the CPU. "
            "TF_CPP_MIN_LOG_LEVEL=0 shows why; often its libraries are missing, which `pip install "
            "tensorflow[and-cuda]` installs. --worker_gpu=0 asks for the CPU.",
            file=sys.stderr,
            flush=True,
        )
    count = present if worker_gpu is None else worker_gpu
    if count > present:
        raise UserError(
            f"--worker_gpu={worker_gpu}: TensorFlow sees {present} GPUs. Give a smaller number."
        )
    return count


def gpu_names(count: int) -> list[str]:
    """Returns the names of the first visible GPUs of this machine."""
    details = [
        tf.config.experimental.get_device_details(gpu)
        for gpu in tf.config.get_visible_devices("GPU")[:count]
    ]
    return [each.get("device_name", "GPU") for each in details]


@functools.cache  # A process has one TensorFlow server.
def multi_worker_strategy(cluster: Cluster, gpus: int) -> tf.distribute.Strategy:
    """Returns the strategy over all devices of all workers; waits until all have called it.

    Args:
      cluster: the workers.
      gpus: number of GPUs of each worker; 0 = the CPU.
    """
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(cluster.addresses)}),
        task_type="worker",
        task_id=cluster.index,
        num_accelerators={"GPU": gpus},
        rpc_layer="grpc",
    )
    return tf.distribute.MultiWorkerMirroredStrategy(resolver)
