"""What of the training depends on Keras's backend: the step, the checkpoints, the curves.

The loop around them (`training.run_loop`) is the same on every backend. What a backend needs is
imported when it is asked for, so that none needs the packages of another.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import keras

from t2t_keras.data.batches import TokenArrays
from t2t_keras.errors import UserError
from t2t_keras.training.cluster import Cluster
from t2t_keras.training.run_record import RunRecord

SUPPORTED = ("tensorflow", "jax")


class Step(Protocol):
    """A model, its optimizer, and what trains and evaluates it on this backend's devices.

    Attributes:
      model: the model.
      num_replicas: how many parts of a step are computed at the same time, by all workers.
      replicas_here: which of them this process computes.
      fixed_shapes: whether every new shape is compiled anew, so that arrays are padded to a few.
      schedule: the learning rate as a function of the step.
    """

    model: keras.Model
    num_replicas: int
    replicas_here: range
    fixed_shapes: bool
    schedule: keras.optimizers.schedules.LearningRateSchedule

    def update(
        self, step: int, parts: Sequence[Sequence[TokenArrays]], measure_gradient: bool = False
    ) -> dict[str, Any]:
        """Starts optimizer step `step`, counted from 0; returns scalars that may not be ready.

        They are the sums of `token_sums` over the step, and "gradient_norm". `parts` holds, for
        each microbatch, for each replica, its examples; of other workers' only their number counts.

        Raises:
          OutOfMemoryError: the gradient does not fit into memory; nothing is changed.
        """

    def request(self, stop: bool, save: bool) -> None:
        """Has the sums of the next steps say to all workers what this one wants.

        Where there are several, the sums also hold "stop_requests" and "save_requests". A backend
        that trains in one process only, as JAX here, does not have it.
        """

    def least(self, number: int) -> int:
        """Returns the least of the numbers that all workers give, where there are several.

        Like `request`, a backend that trains in one process only does not have it.
        """

    def fits(self, microbatch: Sequence[TokenArrays]) -> bool:
        """Returns whether the gradient of one part for each replica here fits into memory.

        Raises:
          OutOfMemoryError: no part can, since the sums of gradients do not.
        """

    def evaluate(self, microbatch: Sequence[TokenArrays]) -> dict[str, float]:
        """Returns the sums of `token_sums` without dropout, over one part for each replica.

        Raises:
          OutOfMemoryError: the loss does not fit into memory.
        """

    def steps_done(self) -> int:
        """Returns the number of updates so far."""

    def weights_are_finite(self) -> bool:
        """Returns whether no weight is NaN or infinite."""

    def gpus(self) -> list[str]:
        """Returns the name of each GPU that it computes on; none = the CPU."""

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint holds, as this backend's `Checkpoints` takes it."""


def check_backend(eval_bleu: bool = False) -> None:
    """Checks that Keras's backend can train, and do what is asked for beside it.

    Raises:
      UserError: it cannot.
    """
    if keras.backend.backend() not in SUPPORTED:
        raise UserError(
            f"Training runs on Keras's backends {' and '.join(SUPPORTED)}; KERAS_BACKEND is "
            f"{keras.backend.backend()}."
        )
    if eval_bleu and not _is_tensorflow():
        raise UserError(
            "--eval_bleu needs TensorFlow, which translates; under KERAS_BACKEND=jax give "
            "--noeval_bleu. The loss is measured all the same, and t2t-npz-to-checkpoint makes "
            "checkpoints that t2t-decoder scores."
        )


def gpus_of_worker(worker_gpu: int | None = None) -> int:
    """Returns the number of GPUs that this process uses as one of several workers.

    Raises:
      UserError: there are not so many, or the backend trains on one machine only.
    """
    check_backend()
    if not _is_tensorflow():
        raise UserError(
            "Several workers (TF_CONFIG, Slurm) train under TensorFlow only; KERAS_BACKEND=jax "
            "uses one device. Unset TF_CONFIG, or KERAS_BACKEND."
        )
    from t2t_keras.training import devices

    return devices.gpus_of_worker(worker_gpu)


@dataclasses.dataclass(frozen=True)
class Devices:
    """What a run computes on.

    Attributes:
      names: the devices of this process, as TensorFlow names them; none under JAX.
      gpus: the name of each GPU of this process; none = the CPU.
      replicas: how many parts of a step are computed at the same time, by all workers.
      fixed_shapes: whether every new shape is compiled anew.
      accumulates: whether gradients are added up even where a step is not split.
    """

    names: list[str]
    gpus: list[str]
    replicas: int
    fixed_shapes: bool
    accumulates: bool = False


def plan_devices(
    worker_gpu: int | None = None,
    xla: bool = False,
    cluster: Cluster | None = None,
    cpu_replicas: int = 1,
) -> Devices:
    """Returns the devices that a run uses; the arguments are those of `make_step`.

    Raises:
      UserError: there are no such devices, the CPU cannot be divided, or the backend cannot train.
    """
    check_backend()
    if cluster:
        return _plan_worker(worker_gpu, xla, cluster, cpu_replicas)
    if not _is_tensorflow():
        import jax.numpy as jnp

        from t2t_keras.training.jax_step import choose_device, gpu_names

        choose_device(worker_gpu, cpu_replicas)
        return Devices([], gpu_names(jnp.zeros(())), 1, fixed_shapes=True, accumulates=True)
    from t2t_keras.training.devices import gpu_names, visible_devices

    names = visible_devices(worker_gpu, cpu_replicas)
    return Devices(names, gpu_names(sum("gpu" in name for name in names)), len(names), xla)


def _plan_worker(worker_gpu: int | None, xla: bool, cluster: Cluster, cpu_replicas: int) -> Devices:
    """Returns what one of several workers computes on, without waking its GPUs."""
    if cpu_replicas > 1:
        raise UserError(
            f"--cpu_replicas={cpu_replicas}: one of several workers has one replica on a CPU. "
            f"Leave the flag out, or start more workers."
        )
    count = gpus_of_worker(worker_gpu)
    from t2t_keras.training.devices import gpu_names

    names = [f"/gpu:{number}" for number in range(count)] or ["/cpu:0"]
    return Devices(names, gpu_names(count), len(names) * len(cluster.addresses), xla)


def make_step(
    record: RunRecord,
    worker_gpu: int | None = None,
    xla: bool = False,
    cluster: Cluster | None = None,
    cpu_replicas: int = 1,
) -> Step:
    """Returns the step of this backend, with fresh weights, on the devices of `plan_devices`.

    Args:
      record: what the run uses.
      worker_gpu: number of GPUs; None = all that the backend uses, 0 = the CPU.
      xla: whether TensorFlow compiles it by XLA, for a few fixed shapes; JAX always does.
      cluster: the workers that do each step together; None = this process alone.
      cpu_replicas: replicas among which the CPU's cores are divided.

    Raises:
      UserError: there are no such devices, the CPU cannot be divided, or the backend cannot train.
    """
    devices = plan_devices(worker_gpu, xla, cluster, cpu_replicas)
    if not _is_tensorflow():
        from t2t_keras.training.jax_step import JaxStep

        return JaxStep(record.make_model, record.hparams, record.random_seed)
    import tensorflow as tf

    from t2t_keras.training.devices import multi_worker_strategy
    from t2t_keras.training.tensorflow_step import TensorFlowStep

    if cluster:
        strategy = multi_worker_strategy(cluster, len(devices.gpus))
    else:
        strategy = tf.distribute.MirroredStrategy(devices.names)
    return TensorFlowStep(record.make_model, record.hparams, strategy, record.random_seed, xla)


def checkpoints():
    """Returns the module of this backend's checkpoints: `checkpoints` or `npz_checkpoints`.

    Both have `SUFFIX`, `Checkpoints`, `checkpoint_paths`, `newest_checkpoint` and `load_weights`.
    """
    if not _is_tensorflow():
        from t2t_keras.training import npz_checkpoints

        return npz_checkpoints
    from t2t_keras.training import checkpoints

    return checkpoints


def make_curves(output_dir: str | Path, kinds: Sequence[str] = ("train", "eval")):
    """Returns what writes the curves of a run, for TensorBoard or as lines of JSON.

    Args:
      output_dir: the run's directory.
      kinds: names of the folders in it, each with curves of its own.
    """
    if not _is_tensorflow():
        from t2t_keras.training.json_curves import JsonCurves

        return JsonCurves(output_dir)
    from t2t_keras.training.tensorboard_curves import TensorBoardCurves

    return TensorBoardCurves(output_dir, kinds)


def _is_tensorflow() -> bool:
    return keras.backend.backend() == "tensorflow"
