"""What differs between Keras's backends: the step and its devices."""

import abc
import contextlib
import dataclasses
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t_keras.data.batches import Batch, RemoteBatch
from t2t_keras.environment import free_memory
from t2t_keras.errors import OutOfMemoryError, UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.layers.base import seed_states
from t2t_keras.training.backends.cluster import Cluster
from t2t_keras.training.memory import step_memory
from t2t_keras.training.optimizer import (
    INITIAL_LOSS_SCALE,
    averaged_weights,
    dropout_seeds,
    exchange_averages,
    make_loss,
    make_optimizer,
    make_schedule,
)
from t2t_keras.training.run_config import RunConfig
from t2t_keras.training.trained_parts import choose_trained, weights_state

_SUPPORTED = ("tensorflow", "jax")
# What a worker can request of all; see `training.distributed.Actions`.
REQUESTS = ("stop", "save", "evaluate")


class Step(abc.ABC):
    """Trains and evaluates a model on the devices of a backend.

    The loss is summed over the real target tokens of all replicas and microbatches and divided by
    their number, so an update does not depend on how a step is split.

    Args:
      make_model: returns the model with its weights made.
      hparams: the hyperparameters.
      seed: of initial weights and dropout.

    Attributes:
      model: of which `hparams` may train a part.
      optimizer: of the trained weights.
      schedule: the learning rate as a function of the step.
      loss_scale: factor on the loss under float16.
      good_steps: steps since it changed.
      num_replicas: number of parts of a step that all workers compute at the same time.
      local_replicas: the numbers of those that this process computes.
      fixed_shapes: whether each new shape is compiled, so that arrays are padded to a few shapes.
      gpus: the name of each GPU that this process computes on; none = the CPU.
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
        choose_trained(self.model, hparams)
        self._seed_states = seed_states(self.model)
        self.optimizer = make_optimizer(hparams, self.model.trainable_variables)
        self._loss = make_loss(hparams)
        self.loss_scale = keras.Variable(INITIAL_LOSS_SCALE, trainable=False, dtype="float32")
        self.good_steps = keras.Variable(0, trainable=False, dtype="int32")

    @abc.abstractmethod
    def update(
        self,
        step: int,
        parts: Sequence[Sequence[Batch | RemoteBatch]],
        measure_gradient: bool = False,
    ) -> dict[str, Any]:
        """Starts an optimizer step; the devices may still compute it when this returns.

        `step` counts from 0. `parts` has, for each microbatch, for each replica, its examples:
        `RemoteBatch` for the replicas of other workers.

        Returns:
          Scalars that may not be ready yet: the sums of `token_sums` over the step and
          "gradient_norm" (0 where it was not computed, unless `measure_gradient`); with several
          workers also "<name>_requests" for each of `REQUESTS`.

        Raises:
          OutOfMemoryError: the gradient does not fit into memory; nothing is changed.
        """

    @abc.abstractmethod
    def evaluate(self, microbatch: Sequence[Batch | RemoteBatch]) -> dict[str, float]:
        """Returns the sums of `token_sums` without dropout, over one part for each replica."""

    def request(self, **requests: bool) -> None:
        """Adds a worker's `REQUESTS` to the sums of its next steps, which all workers receive."""
        raise NotImplementedError

    def weights(self) -> dict[str, Any]:
        """Returns the content of a checkpoint of the weights alone."""
        return weights_state(self.model, self._hparams)

    def state(self) -> dict[str, Any]:
        """Returns the content of a checkpoint, as `Checkpoints` takes it."""
        state = {**self.weights(), "optimizer": self.optimizer}
        if self._scales_loss:
            state |= {"loss_scale": self.loss_scale, "good_steps": self.good_steps}
        return state

    def begin(self) -> None:
        """Begins the moving average of the weights with the first weights of a new run."""
        for weight, average in averaged_weights(self.optimizer):
            average.assign(ops.copy(weight))

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
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
        finite = [ops.all(ops.isfinite(weight)) for weight in self.model.trainable_variables]
        return bool(ops.all(ops.stack(finite)))

    def _seeds(self, step: int, part: int) -> np.ndarray:
        """Returns the states of the model's seed generators for one part of a step."""
        return dropout_seeds(self._seed, step, part, len(self._seed_states))


@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices of a run.

    Attributes:
      names: the devices of this process, as TensorFlow names them; none under JAX.
      gpus: the name of each GPU of this process; none = the CPU.
      replicas: number of parts of a step that all workers compute at the same time.
      fixed_shapes: whether each new shape is compiled.
      accumulates: whether gradients are summed even where a step is not split.
    """

    names: list[str]
    gpus: list[str]
    replicas: int
    fixed_shapes: bool
    accumulates: bool = False


def check_backend(eval_bleu: bool = False) -> None:
    """Raises `UserError` unless Keras's backend can train, and translate if `eval_bleu`."""
    if keras.backend.backend() not in _SUPPORTED:
        raise UserError(
            f"Training runs on Keras's backends {' and '.join(_SUPPORTED)}, got "
            f"KERAS_BACKEND={keras.backend.backend()}.",
            code="other_backend",
        )
    if eval_bleu and keras.backend.backend() != "tensorflow":
        raise UserError(
            "--eval_bleu needs TensorFlow, which translates; under KERAS_BACKEND=jax give "
            "--noeval_bleu. t2t-decoder and t2t-eval translate with its checkpoints, leaving "
            "KERAS_BACKEND unset.",
            code="other_backend",
        )


def plan_devices(
    worker_gpu: int | None = None,
    xla: bool = False,
    cluster: Cluster | None = None,
    cpu_replicas: int = 1,
) -> Devices:
    """Returns the devices that a run uses; none is initialised.

    `worker_gpu` is the number of GPUs: None = all that the backend uses, 0 = the CPU. For `xla` and
    `cpu_replicas` see `TrainOptions`.

    Raises:
      UserError: there are no such devices, the CPU cannot be divided, or the backend cannot train,
        or not with several workers.
    """
    return _backend().plan_devices(worker_gpu, xla, cluster, cpu_replicas)


def make_step(config: RunConfig, devices: Devices, cluster: Cluster | None = None) -> Step:
    """Returns the step of a run, with fresh weights; raises `UserError` if they do not fit."""
    # The number of weights that match a pattern is unknown before they are made.
    trained = 0 if config.hparams.trainable else None
    memory = step_memory(config.hparams, config.vocab_sizes, 0, 1, trained=trained)
    needed = (memory["weights"] + memory["optimizer"]) * max(len(devices.names), 1)
    try:
        # The size of a user's model is unknown before it is made. A GPU refuses at once.
        if config.model == "transformer" and not devices.gpus:
            free = free_memory()
            if free is not None and free < needed:
                raise MemoryError
        step = _backend().make_step(config, devices, cluster)
    except (OutOfMemoryError, MemoryError) as error:
        raise UserError(
            f"Out of memory: weights and the optimizer's moments take {needed / 1e9:,.1f} GB. Use "
            f"a smaller model (d_model, d_ff, num_layers) or more memory.",
            code="out_of_memory",
        ) from error
    step.gpus = devices.gpus
    return step


def _backend() -> Any:
    """Returns the module of Keras's backend; none needs the packages of another."""
    check_backend()
    return importlib.import_module(f"t2t_keras.training.backends.{keras.backend.backend()}")
