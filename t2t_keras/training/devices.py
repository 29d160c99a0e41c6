"""Which devices a run uses, and the strategy over those of several workers."""

import sys
from pathlib import Path

import tensorflow as tf
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
from tensorflow.python.eager import context

from t2t_keras.errors import UserError
from t2t_keras.processor_cores import usable_cores
from t2t_keras.training.cluster import Cluster
from t2t_keras.training.connecting import others_run_while_connecting

# There where the driver of NVIDIA's GPUs is loaded.
_DRIVER = Path("/proc/driver/nvidia/version")

# A day.
_HEARTBEAT_MILLISECONDS = 24 * 3600 * 1000


def visible_devices(worker_gpu: int | None = None, cpu_replicas: int = 1) -> list[str]:
    """Returns the devices to train on.

    Args:
      worker_gpu: number of GPUs; None = all that are visible, 0 = the CPU.
      cpu_replicas: replicas among which the CPU is divided, where there is more than one.

    Returns:
      ["/gpu:0", ...], or ["/cpu:0", ...] where there is no GPU.

    Raises:
      UserError: more GPUs are asked for than there are, or as `divide_cpu`.
    """
    if cpu_replicas > 1:
        divide_cpu(cpu_replicas, gpus_of_worker(worker_gpu))
        return [f"/cpu:{number}" for number in range(cpu_replicas)]
    present = len(tf.config.list_logical_devices("GPU"))
    count = _count(present, worker_gpu)
    return [f"/gpu:{number}" for number in range(count)] or ["/cpu:0"]


def divide_cpu(replicas: int, gpus: int) -> None:
    """Gives each of several replicas its own share of the CPU's cores.

    A product as small as those of a small model has too little work for all cores: they wait for
    each other more than they compute. Replicas wait for each other once a step.

    Args:
      replicas: how many; more than one.
      gpus: the GPUs that the run uses.

    Raises:
      UserError: it has GPUs, there are fewer usable cores than replicas, or TensorFlow already
        computes in this process, after which it cannot be told.
    """
    if gpus:
        raise UserError(
            f"--cpu_replicas={replicas} is for a CPU, and the run uses {gpus} GPUs. Leave the flag "
            f"out, or give --worker_gpu=0."
        )
    cores = usable_cores()
    if replicas > cores:
        raise UserError(
            f"--cpu_replicas={replicas}: this process may use {cores} cores. Give at most as many."
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
            f"--cpu_replicas={replicas}: TensorFlow already computes in this process. Start the "
            f"training before anything else, or in a process of its own. ({error})"
        ) from error


def gpus_of_worker(worker_gpu: int | None = None) -> int:
    """Returns the number of GPUs of one of several workers, without waking them.

    TensorFlow learns who the other workers are only before it uses its first device.

    Args:
      worker_gpu: as `visible_devices` has it.

    Raises:
      UserError: more GPUs are asked for than there are.
    """
    return _count(len(tf.config.get_visible_devices("GPU")), worker_gpu)


def gpu_names(count: int) -> list[str]:
    """Returns the names of the first GPUs of this machine that are visible."""
    details = [
        tf.config.experimental.get_device_details(gpu)
        for gpu in tf.config.get_visible_devices("GPU")[:count]
    ]
    return [each.get("device_name", "GPU") for each in details]


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
    job = coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=len(cluster.addresses))
    # As the strategy would have it, but for the timeout: after 10 s without a sign of life, as on a
    # machine that is only busy, TensorFlow would abort every operation between workers without
    # saying whose. `WorkerWatch` decides that instead, and names the worker.
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=_HEARTBEAT_MILLISECONDS,
        coordinated_jobs=[job],
    )
    with others_run_while_connecting():
        return tf.distribute.MultiWorkerMirroredStrategy(resolver)


def _count(present: int, worker_gpu: int | None) -> int:
    if worker_gpu is None and not present and _DRIVER.exists():
        print(
            "This machine has NVIDIA's driver, but TensorFlow sees no GPU: it uses the CPU. "
            "TF_CPP_MIN_LOG_LEVEL=0 shows why; often it is a TensorFlow without its libraries, "
            "which `pip install tensorflow[and-cuda]` brings. --worker_gpu=0 is for the CPU.",
            file=sys.stderr,
            flush=True,
        )
    count = present if worker_gpu is None else worker_gpu
    if count > present:
        raise UserError(
            f"--worker_gpu={worker_gpu}: TensorFlow sees {present} GPUs. Give a smaller number, or "
            f"leave the flag out to use all of them (the CPU where there is none)."
        )
    return count
