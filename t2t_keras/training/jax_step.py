"""One optimizer step on JAX, on one device; the counterpart of `training.tensorflow_step`."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import keras
import numpy as np

from t2t_keras.data.batches import TokenArrays
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.training.adam_update import adam_update
from t2t_keras.training.dropout_seeds import dropout_seeds
from t2t_keras.training.loss_scale import FIRST_LOSS_SCALE, adapted_loss_scale
from t2t_keras.training.losses import token_sums
from t2t_keras.training.npz_checkpoints import weight_names
from t2t_keras.training.out_of_memory import OutOfMemoryError
from t2t_keras.training.schedules import TransformerSchedule

# How XLA's errors begin that tell of missing memory.
_OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"


class JaxStep:
    """A model, its optimizer, and the compiled functions that train and evaluate it.

    The same update as `TensorFlowStep`'s on one replica. The sums over a microbatch and their
    gradient are one compiled function, once for each shape; the update of the weights is another,
    compiled once. Gradients are added up in place, and weights and moments are replaced in place:
    no array of the model's size is copied.

    Args:
      make_model: returns the model with its weights made.
      hparams: the hyperparameters.
      seed: of initial weights and dropout.

    Attributes:
      model: the model; its variables hold the weights as arrays on the device.
      num_replicas: 1.
      replicas_here: that one.
      fixed_shapes: True, since every new shape is compiled anew.
      schedule: the learning rate as a function of the step.
    """

    num_replicas = 1
    replicas_here = range(1)
    fixed_shapes = True

    def __init__(self, make_model: Callable[[], keras.Model], hparams: HParams, seed: int):
        keras.utils.set_random_seed(seed)
        self._hparams, self._seed = hparams, seed
        self.schedule = TransformerSchedule(
            hparams.d_model, hparams.warmup_steps, hparams.learning_rate
        )
        self.model = make_model()
        self._scales_loss = hparams.compute_dtype == "float16"
        weights = self.model.trainable_variables
        # What an update changes: each a Keras variable, so that a checkpoint can be restored.
        self._variables = {
            "weights": weights,
            "momentum": [_variable(jnp.zeros(weight.shape)) for weight in weights],
            "velocity": [_variable(jnp.zeros(weight.shape)) for weight in weights],
            # With a type each: a second one would be compiled for anew.
            "iterations": _variable(np.int32(0)),
            "loss_scale": _variable(np.float32(FIRST_LOSS_SCALE)),
            "good_steps": _variable(np.int32(0)),
        }
        # Gradients and sums of a step's microbatches so far; between two steps they are 0.
        self._totals = self._no_totals()
        self._computed_shapes: set[tuple[int, ...]] = set()
        self._accumulate = jax.jit(self._one_accumulation, donate_argnums=0)
        self._apply = jax.jit(self._one_update, donate_argnums=(0, 1))
        self._evaluate = jax.jit(self._one_evaluation)
        self._finite = jax.jit(
            lambda weights: jnp.all(jnp.array([jnp.isfinite(each).all() for each in weights]))
        )

    def state(self) -> dict[str, object]:
        """Returns what a checkpoint holds, as `npz_checkpoints.Checkpoints` takes it."""
        names = weight_names(self.model)
        state = {
            "model": self.model,
            "optimizer": {
                "iterations": self._variables["iterations"],
                "momentum": dict(zip(names, self._variables["momentum"], strict=True)),
                "velocity": dict(zip(names, self._variables["velocity"], strict=True)),
            },
        }
        if self._scales_loss:
            state |= {name: self._variables[name] for name in ("loss_scale", "good_steps")}
        return state

    def steps_done(self) -> int:
        """Returns the number of updates so far."""
        return int(self._variables["iterations"].value)

    def update(
        self, step: int, parts: Sequence[Sequence[TokenArrays]], measure_gradient: bool = False
    ) -> dict[str, jax.Array]:
        """Starts one optimizer step; the device may still be at it when this returns.

        Args:
          step: its number, from 0.
          parts: for each microbatch, its examples, as the only entry of a list.
          measure_gradient: here the gradient's norm is always measured: it costs little.

        Returns:
          Scalar arrays: the sums of `token_sums` over the step, and "gradient_norm".

        Raises:
          OutOfMemoryError: the gradient does not fit into memory; nothing is changed.
        """
        tokens = np.float32(max(sum(part.target_tokens for (part,) in parts), 1))
        values = jax.tree.map(_value, self._variables)
        totals = self._totals
        try:
            with _telling_of_missing_memory():
                for number, (part,) in enumerate(parts):
                    totals = self._with_gradient(totals, values, step, number, part, tokens)
                self._wait_for_new_shapes(parts, totals)
        except (jax.errors.JaxRuntimeError, OutOfMemoryError):
            # What was given away to be added to is gone.
            self._totals = self._no_totals()
            raise
        values, self._totals, numbers = self._apply(values, totals)
        for name, variables in self._variables.items():
            for variable, value in zip(_listed(variables), _listed(values[name]), strict=True):
                variable.assign(value)
        return numbers

    def fits(self, microbatch: Sequence[TokenArrays]) -> bool:
        """Returns whether the gradient of such a part fits into memory; nothing is changed.

        Args:
          microbatch: one part.
        """
        values = jax.tree.map(_value, self._variables)
        try:
            with _telling_of_missing_memory():
                jax.block_until_ready(
                    self._with_gradient(self._totals, values, 0, 0, microbatch[0], np.float32(1))
                )
        except OutOfMemoryError:
            return False
        finally:
            self._totals = self._no_totals()
        return True

    def evaluate(self, microbatch: Sequence[TokenArrays]) -> dict[str, float]:
        """Returns the sums of `token_sums` without dropout, over one part.

        Raises:
          OutOfMemoryError: the loss does not fit into memory.
        """
        (part,) = microbatch
        weights = [weight.value for weight in self.model.trainable_variables]
        with _telling_of_missing_memory():
            sums = self._evaluate(weights, part.source, part.target, self._seeds(0, 0))
            return {name: float(value) for name, value in jax.device_get(sums).items()}

    def weights_are_finite(self) -> bool:
        """Returns whether no weight is NaN or infinite."""
        return bool(self._finite([weight.value for weight in self.model.trainable_variables]))

    def gpus(self) -> list[str]:
        """Returns the name of the GPU that it computes on; none = the CPU."""
        return gpu_names(self._variables["iterations"].value)

    def _no_totals(self):
        sums = jax.eval_shape(token_sums, jnp.zeros((1, 1, 2)), jnp.zeros((1, 1), jnp.int32))
        weights = [weight.value for weight in self.model.trainable_variables]
        return jax.tree.map(
            lambda like: jnp.zeros(like.shape, like.dtype), {"gradients": weights, "sums": sums}
        )

    def _with_gradient(self, totals, values, step, number, part, tokens):
        """Starts to add the share of a microbatch to `totals`, which are given away."""
        return self._accumulate(
            totals,
            values["weights"],
            values["loss_scale"],
            part.source,
            part.target,
            self._seeds(step, number),
            tokens,
        )

    def _wait_for_new_shapes(self, parts: Sequence[Sequence[TokenArrays]], totals) -> None:
        """Waits for the gradient of shapes that were not computed before.

        A device may tell of missing memory only when it gets there; an update of the weights that
        waits for that gradient would be lost with it. What fitted once most likely fits again, and
        waiting for all would leave the device idle.
        """
        shapes = {part.source.shape for (part,) in parts}
        if not shapes <= self._computed_shapes:
            jax.block_until_ready(totals)
            self._computed_shapes |= shapes

    def _seeds(self, step: int, part: int) -> np.ndarray:
        """Returns the states of the model's seed generators, uint32 as JAX's keys are."""
        generators = len(self.model.non_trainable_variables)
        return dropout_seeds(self._seed, step, part, generators).astype(np.uint32)

    # What follows is compiled.

    def _one_accumulation(self, totals, weights, loss_scale, source, target, seeds, tokens):
        """Adds a microbatch's share of the step's gradient, and its sums, to `totals`."""

        def loss(weights):
            logits, _ = self.model.stateless_call(
                weights, list(seeds), {"source": source, "target": target}, training=True
            )
            sums = token_sums(logits, target, self._hparams.label_smoothing)
            share = sums["loss"] / tokens
            return share * loss_scale if self._scales_loss else share, sums

        gradients, sums = jax.grad(loss, has_aux=True)(weights)
        return jax.tree.map(jnp.add, totals, {"gradients": gradients, "sums": sums})

    def _one_update(self, values, totals):
        """Returns what an update changes, `totals` of 0, and the step's numbers."""
        gradients = totals["gradients"]
        if self._scales_loss:
            gradients = [gradient / values["loss_scale"] for gradient in gradients]
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients))
        if self._hparams.clip_norm:
            factor = jnp.minimum(1.0, self._hparams.clip_norm / norm)
            gradients = [gradient * factor for gradient in gradients]
        new = self._adam(values, gradients)
        if self._scales_loss:
            # A step whose gradient overflows changes nothing but its count and the scale.
            good = jnp.isfinite(norm)
            new = jax.tree.map(
                lambda updated, before: jnp.where(good, updated, before),
                new,
                {name: values[name] for name in new},
            )
            new["loss_scale"], new["good_steps"] = adapted_loss_scale(
                values["loss_scale"], values["good_steps"], good
            )
        new["iterations"] = values["iterations"] + 1
        numbers = {**totals["sums"], "gradient_norm": norm}
        return values | new, jax.tree.map(jnp.zeros_like, totals), numbers

    def _adam(self, values, gradients):
        hparams = self._hparams
        step = values["iterations"].astype(jnp.float32) + 1.0
        learning_rate = self.schedule(values["iterations"])
        updated = [
            adam_update(
                weight,
                momentum,
                velocity,
                gradient,
                step,
                learning_rate,
                hparams.adam_beta1,
                hparams.adam_beta2,
                hparams.adam_epsilon,
            )
            for weight, momentum, velocity, gradient in zip(
                values["weights"], values["momentum"], values["velocity"], gradients, strict=True
            )
        ]
        weights, momentum, velocity = map(list, zip(*updated, strict=True))
        return {"weights": weights, "momentum": momentum, "velocity": velocity}

    def _one_evaluation(self, weights, source, target, seeds):
        logits, _ = self.model.stateless_call(
            weights, list(seeds), {"source": source, "target": target}, training=False
        )
        return token_sums(logits, target)


def choose_device(worker_gpu: int | None = None, cpu_replicas: int = 1) -> None:
    """Makes JAX compute on the device that is asked for.

    Args:
      worker_gpu: 1 = the first GPU, 0 = the CPU, None = the first GPU, or the CPU where there is
        none.
      cpu_replicas: 1; TensorFlow may divide a CPU among more.

    Raises:
      UserError: more than one GPU or replica is asked for, or more GPUs than there are.
    """
    if cpu_replicas > 1:
        raise UserError(
            f"--cpu_replicas={cpu_replicas}: under KERAS_BACKEND=jax a run uses one device. Leave "
            f"the flag out, or train with KERAS_BACKEND=tensorflow."
        )
    if worker_gpu is not None and worker_gpu > 1:
        raise UserError(
            f"--worker_gpu={worker_gpu}: under KERAS_BACKEND=jax a run uses one device. Give 1, or "
            f"train with KERAS_BACKEND=tensorflow, which uses several."
        )
    if worker_gpu == 0:
        jax.config.update("jax_default_device", jax.devices("cpu")[0])
        return
    jax.config.update("jax_default_device", None)
    gpus = [device for device in jax.devices() if device.platform == "gpu"]
    if worker_gpu and not gpus:
        raise UserError(
            f"--worker_gpu={worker_gpu}: JAX sees no GPU. Leave the flag out to use the CPU, or "
            f"install JAX for the GPU (jax[cuda12])."
        )
    if len(gpus) > 1:
        print(f"Of {len(gpus)} GPUs the first is used: under JAX a run uses one device.")


def gpu_names(array: jax.Array) -> list[str]:
    """Returns the name of the GPU that holds an array; none = the CPU."""
    return [device.device_kind for device in array.devices() if device.platform == "gpu"]


@contextlib.contextmanager
def _telling_of_missing_memory() -> Iterator[None]:
    """Turns JAX's error of missing memory into an `OutOfMemoryError`."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if _OUT_OF_MEMORY not in str(error):
            raise
        raise OutOfMemoryError(str(error)) from error


def _variable(value) -> keras.Variable:
    return keras.Variable(value, trainable=False, dtype=str(value.dtype))


def _value(variable: keras.Variable) -> jax.Array:
    return variable.value


def _listed(value) -> list:
    return value if isinstance(value, list) else [value]
