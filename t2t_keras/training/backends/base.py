"""The interface of Keras's backends: the training step and its devices."""

import abc
import contextlib
import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import keras
from keras import ops

from t2t_keras.data.batches import Batch, RemoteBatch
from t2t_keras.environment import free_memory
from t2t_keras.errors import OutOfMemoryError, UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.layers.base import seed_states
from t2t_keras.registry import LOSSES
from t2t_keras.training.backends.cluster import Cluster
from t2t_keras.training.memory import state_memory
from t2t_keras.training.optimizer import (
    INITIAL_LOSS_SCALE,
    exchange_averages,
    make_optimizer,
    make_schedule,
    weights_and_averages,
)
from t2t_keras.training.run_config import RunConfig, TrainOptions
from t2t_keras.training.trained_parts import choose_trained, weights_state

_SUPPORTED_BACKENDS = ("tensorflow", "jax")
# Actions that a worker can request of all workers; see `training.distributed.Actions`.
REQUESTS = ("stop", "save", "evaluate")


class Step(abc.ABC):
    """Computes the optimizer steps and evaluations of a model on a backend's devices.

    The loss of a step is the mean over the target tokens (not padding) of all replicas and
    microbatches, so an update does not depend on how the step is split.

    Args:
      make_model: returns the built model.
      hparams: the hyperparameters.
      seed: seed of the initial weights and dropout.

    Attributes:
      model: the model; `hparams` may limit training to a part of it.
      optimizer: the optimizer of the trained weights.
      schedule: the learning rate as a function of the step.
      loss_scale: factor on the loss under float16.
      good_steps: number of steps since the loss scale changed.
      num_replicas: number of replicas of all workers together.
      local_replicas: numbers of this process's replicas.
      fixed_shapes: whether each new shape is compiled; all arrays then have one shape.
      packs_rows: whether the model can compute rows that hold several sentences.
      gpus: names of the GPUs of this process; empty = the CPU.
    """

    num_replicas = 1
    local_replicas = range(1)
    fixed_shapes = True
    gpus: Sequence[str] = ()

    def __init__(self, make_model: Callable[[], keras.Model], hparams: HParams, seed: int):
        keras.utils.set_random_seed(seed)
        self._hparams, self._seed = hparams, seed
        self._scales_loss = hparams.compute_dtype == "float16"
        self.schedule = make_schedule(hparams)
        self.model = make_model()
        self.packs_rows = getattr(self.model, "packs_rows", False)
        choose_trained(self.model, hparams)
        self._seed_states = seed_states(self.model)
        self.optimizer = make_optimizer(hparams, self.model.trainable_variables)
        # None = the default, which `token_sums` computes anyway.
        self._loss = None
        if hparams.loss != "cross_entropy":
            self._loss = functools.partial(LOSSES[hparams.loss], hparams=hparams)
        self.loss_scale = keras.Variable(INITIAL_LOSS_SCALE, trainable=False, dtype="float32")
        self.good_steps = keras.Variable(0, trainable=False, dtype="int32")

    @abc.abstractmethod
    def update(
        self,
        step: int,
        microbatches: Sequence[Sequence[Batch | RemoteBatch]],
        measure_gradient: bool = False,
    ) -> dict[str, Any]:
        """Starts an optimizer step; the devices may still compute it when this returns.

        `step` counts from 0. A microbatch has a batch for each replica, with `RemoteBatch` for the
        replicas of other workers.

        Returns:
          Scalars that may not be ready yet: the sums of `token_sums` over the step, and
          "gradient_norm" (without `measure_gradient` it may be 0 instead of being computed); with
          several workers also "<name>_requests" for each of `REQUESTS`.

        Raises:
          OutOfMemoryError: the gradient does not fit into memory; nothing is changed.
        """

    @abc.abstractmethod
    def evaluate(self, microbatch: Sequence[Batch | RemoteBatch]) -> dict[str, float]:
        """Returns `token_sums` without dropout, added up over the replicas' batches."""

    def request(self, **requests: bool) -> None:
        """Sets this worker's `REQUESTS`, which reach all workers with the next steps' sums."""
        raise NotImplementedError

    def weights(self) -> dict[str, Any]:
        """Returns the content of a checkpoint with only the weights."""
        return weights_state(self.model, self._hparams)

    def state(self) -> dict[str, Any]:
        """Returns the content of a checkpoint, as `Checkpoints` takes it."""
        state = {**self.weights(), "optimizer": self.optimizer}
        if self._scales_loss:
            state |= {"loss_scale": self.loss_scale, "good_steps": self.good_steps}
        return state

    def begin_averages(self) -> None:
        """Initialises the moving average with the initial weights of a new run."""
        for weight, average in weights_and_averages(self.optimizer):
            average.assign(ops.copy(weight))

    @contextlib.contextmanager
    def using_averages(self) -> Iterator[None]:
        """Gives the model the moving averages of its weights (`ema_decay`) within the context."""
        exchange_averages(self.optimizer)
        try:
            yield
        finally:
            exchange_averages(self.optimizer)

    def steps_done(self) -> int:
        """Returns the number of updates so far."""
        return int(ops.convert_to_numpy(self.optimizer.iterations.value))

    def weights_are_finite(self) -> bool:
        """Returns whether no weight is NaN or infinite."""
        are_finite = [ops.all(ops.isfinite(weight)) for weight in self.model.trainable_variables]
        return bool(ops.all(ops.stack(are_finite)))


@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices of a run.

    Attributes:
      names: names of the devices of this process.
      gpus: names of the GPUs of this process; empty = the CPU.
      replicas: number of replicas of all workers together.
      fixed_shapes: whether each new shape is compiled.
    """

    names: list[str]
    gpus: list[str]
    replicas: int
    fixed_shapes: bool

    @property
    def batching(self) -> str:
        """The value of the hyperparameter `batching` that suits the devices."""
        return "rows" if self.fixed_shapes else "length"


def check_backend() -> None:
    """Raises `UserError` unless Keras's backend can train."""
    if keras.backend.backend() not in _SUPPORTED_BACKENDS:
        raise UserError(
            f"Training needs one of Keras's backends {' and '.join(_SUPPORTED_BACKENDS)}, got "
            f"KERAS_BACKEND={keras.backend.backend()}. Set KERAS_BACKEND to one of them.",
            code="other_backend",
        )


def plan_devices(
    worker_gpu: int | None = None,
    xla: bool = False,
    cluster: Cluster | None = None,
    cpu_replicas: int = 1,
) -> Devices:
    """Returns the devices that a run will use, without initialising them.

    `worker_gpu` is the number of GPUs: None = all that the backend uses, 0 = the CPU. For `xla` and
    `cpu_replicas` see `TrainOptions`.

    Raises:
      UserError: there are no such devices, the CPU cannot be divided, or the backend cannot train.
    """
    return _backend_module().plan_devices(worker_gpu, xla, cluster, cpu_replicas)


class Exchange(Protocol):
    """Exchanges values between the workers of a run; all must call a method together."""

    def gather(self, line: bytes) -> bytes:
        """Returns the lines of all workers, concatenated; a line may be repeated."""

    def total(self, number: float) -> float:
        """Returns the sum of all workers' numbers, or a positive multiple of it."""


def connect(cluster: Cluster, worker_gpu: int | None, options: TrainOptions) -> Exchange:
    """Connects this process to the other workers; waits until all have called it."""
    return _backend_module().connect(cluster, worker_gpu, options)


def make_step(config: RunConfig, devices: Devices, cluster: Cluster | None = None) -> Step:
    """Returns the step of a run, with random weights; raises `UserError` if memory is short."""
    hparams = config.hparams
    num_weights = hparams.count_weights(*config.vocab_sizes)
    # Before the model is made, the number of weights that match a pattern is unknown.
    num_trained = 0 if hparams.trainable or hparams.lora_rank else num_weights
    memory = state_memory(hparams, num_weights, num_trained)
    needed_bytes = sum(memory.values()) * max(len(devices.names), 1)
    try:
        # The size of a user's model is unknown before it is made. GPUs report missing memory.
        if config.model == "transformer" and not devices.gpus:
            free = free_memory()
            if free is not None and free < needed_bytes:
                raise MemoryError
        step = _backend_module().make_step(config, devices, cluster)
    except (OutOfMemoryError, MemoryError) as error:
        raise UserError(
            f"Out of memory: weights and the optimizer's moments need {needed_bytes / 1e9:,.1f} "
            f"GB. Use a smaller model (d_model, d_ff, num_layers) or more memory.",
            code="out_of_memory",
        ) from error
    step.gpus = devices.gpus
    return step


def _backend_module() -> Any:
    """Returns the module of Keras's backend; imports no other backend's packages."""
    check_backend()
    return importlib.import_module(f"t2t_keras.training.backends.{keras.backend.backend()}")
