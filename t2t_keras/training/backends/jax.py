"""One optimizer step on JAX, on one device; the counterpart of `backends.tensorflow`."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from t2t_keras.data.batches import Batch, RemoteBatch
from t2t_keras.errors import OutOfMemoryError, UserError, translated_memory_errors
from t2t_keras.hyperparameters import HParams
from t2t_keras.training.backends.base import Devices, Step
from t2t_keras.training.backends.cluster import Cluster
from t2t_keras.training.optimizer import (
    adapt_loss_scale,
    clip_gradients,
    dropout_seeds,
    token_sums,
)
from t2t_keras.training.run_config import RunConfig

# XLA's errors all have one type; only the text distinguishes them.
_memory_errors = functools.partial(
    translated_memory_errors, jax.errors.JaxRuntimeError, "RESOURCE_EXHAUSTED"
)


class JaxStep(Step):
    """The step of one device; see `Step`.

    A step of one microbatch is one compiled function. Otherwise one function adds a microbatch's
    gradient to the sums of the step, and another updates the weights. All work in place, so that no
    array of the model's size is copied.
    """

    def __init__(self, make_model: Callable[[], keras.Model], hparams: HParams, seed: int):
        super().__init__(make_model, hparams, seed)
        # Keras's schedules have conditions, which would otherwise be compiled at each call.
        self.schedule = jax.jit(self.schedule)
        # The variables that an update changes.
        self._variables = {
            "weights": self.model.trainable_variables,
            "optimizer": self.optimizer.variables,
            "loss_scale": [self.loss_scale, self.good_steps],
        }
        self._frozen_weights = self.model.non_trainable_weights
        # Gradients and sums of a step's microbatches so far; 0 between two steps, None = no array.
        self._totals: dict[str, Any] | None = None
        # (Whether the step was whole, a shape) that fitted into memory.
        self._computed_shapes: set[tuple[bool, tuple[int, ...]]] = set()
        self._whole_step = jax.jit(self._one_step, donate_argnums=0)
        self._accumulate = jax.jit(self._one_accumulation, donate_argnums=0)
        self._apply = jax.jit(self._one_update, donate_argnums=(0, 1))
        self._evaluate = jax.jit(self._one_evaluation)

    def update(
        self,
        step: int,
        microbatches: Sequence[Sequence[Batch | RemoteBatch]],
        measure_gradient: bool = False,
    ) -> dict[str, jax.Array]:
        """See `Step`; the gradient's norm is always measured, since it costs little."""
        batches = [batch for (batch,) in microbatches if isinstance(batch, Batch)]
        tokens = np.float32(max(sum(batch.target_tokens for batch in batches), 1))
        inputs = []
        for number, batch in enumerate(batches):
            seeds = dropout_seeds(self._seed, step, number, len(self._seed_states))
            # The type of JAX's keys.
            inputs.append((self._frozen_values(), batch.inputs(), seeds.astype(np.uint32), tokens))
        is_whole = len(batches) == 1
        shapes = {(is_whole, batch.source.shape) for batch in batches}
        update = self._update_whole if is_whole else self._update_in_parts
        values, numbers = update(inputs, is_new_shape=not shapes <= self._computed_shapes)
        self._computed_shapes |= shapes
        self._assign(values)
        return numbers

    def _update_whole(
        self, inputs: list[tuple[Any, ...]], is_new_shape: bool
    ) -> tuple[dict[str, list[jax.Array]], dict[str, jax.Array]]:
        """Computes a step of one microbatch; returns the updated values and the step's numbers."""
        values = self._variable_values()
        # A device may report missing memory only when it runs the computation, when the old values
        # are gone. Shapes that fitted once most likely fit again.
        saved = jax.tree.map(np.array, values) if is_new_shape else None
        try:
            with _memory_errors():
                results = self._whole_step(values, *inputs[0])
                return jax.block_until_ready(results) if saved else results
        except OutOfMemoryError:
            if saved:
                self._assign(saved)
            raise

    def _update_in_parts(
        self, inputs: list[tuple[Any, ...]], is_new_shape: bool
    ) -> tuple[dict[str, list[jax.Array]], dict[str, jax.Array]]:
        """Computes a step of several microbatches; returns as `_update_whole`."""
        values, totals = self._variable_values(), self._totals or self._zero_totals()
        # The totals' buffers are donated.
        self._totals = None
        with _memory_errors():
            # The calls do not wait for the results.
            for microbatch in inputs:
                totals = self._accumulate(totals, values, *microbatch)
            if is_new_shape:
                jax.block_until_ready(totals)
        values, self._totals, numbers = self._apply(values, totals)
        return values, numbers

    def _assign(self, values: dict[str, list[Any]]) -> None:
        for name, variables in self._variables.items():
            for variable, value in zip(variables, values[name], strict=True):
                variable.assign(value)

    def evaluate(self, microbatch: Sequence[Batch | RemoteBatch]) -> dict[str, float]:
        """See `Step`."""
        (part,) = microbatch
        assert isinstance(part, Batch)
        trained, frozen = self._variable_values()["weights"], self._frozen_values()
        unused_seeds = np.zeros((len(self._seed_states), 2), np.uint32)
        with _memory_errors():
            sums = self._evaluate(trained, frozen, part.inputs(), unused_seeds)
            return {name: float(value) for name, value in jax.device_get(sums).items()}

    def _variable_values(self) -> dict[str, list[jax.Array]]:
        return {
            name: [variable.value for variable in variables]
            for name, variables in self._variables.items()
        }

    def _frozen_values(self) -> list[jax.Array]:
        # Passed as arguments, since captured arrays would be compiled as constants.
        return [weight.value for weight in self._frozen_weights]

    def _zero_totals(self) -> dict[str, Any]:
        padding_ids = np.zeros((1, 1), np.int32)
        return {
            "gradients": [jnp.zeros(weight.shape) for weight in self.model.trainable_variables],
            "sums": token_sums(jnp.zeros((1, 1, 2)), padding_ids),
        }

    # The following methods are compiled.

    def _logits(
        self,
        weights: list[jax.Array],
        frozen: list[jax.Array],
        inputs: dict[str, jax.Array],
        seeds: jax.Array,
        training: bool,
    ) -> jax.Array:
        values: dict[int, Any] = dict(zip(map(id, self._seed_states), seeds, strict=True))
        values |= dict(zip(map(id, self._frozen_weights), frozen, strict=True))
        non_trainable = [values[id(variable)] for variable in self.model.non_trainable_variables]
        return self.model.stateless_call(weights, non_trainable, inputs, training=training)[0]

    def _one_step(
        self, values: dict[str, list[jax.Array]], *microbatch: Any
    ) -> tuple[dict[str, list[jax.Array]], dict[str, jax.Array]]:
        """Returns the values after a step of one microbatch, and the step's numbers."""
        return self._updated(values, *self._gradients(values, *microbatch))

    def _one_accumulation(
        self, totals: dict[str, Any], values: dict[str, list[jax.Array]], *microbatch: Any
    ) -> dict[str, Any]:
        """Adds a microbatch's share of the step's gradient, and its sums, to `totals`."""
        gradients, sums = self._gradients(values, *microbatch)
        return jax.tree.map(jnp.add, totals, {"gradients": gradients, "sums": sums})

    def _gradients(
        self,
        values: dict[str, list[jax.Array]],
        frozen: list[jax.Array],
        inputs: dict[str, jax.Array],
        seeds: jax.Array,
        tokens: jax.Array,
    ) -> tuple[list[jax.Array], dict[str, jax.Array]]:
        """Returns a microbatch's share of the step's gradient, and its sums."""

        def loss(weights: list[jax.Array]) -> tuple[jax.Array, dict[str, jax.Array]]:
            logits = self._logits(weights, frozen, inputs, seeds, training=True)
            options = self._hparams.label_smoothing, self._loss
            sums = token_sums(logits, inputs["target"], *options, compiled=True)
            share = sums["loss"] / tokens
            return share * values["loss_scale"][0] if self._scales_loss else share, sums

        return jax.grad(loss, has_aux=True)(values["weights"])

    def _one_update(
        self, values: dict[str, list[jax.Array]], totals: dict[str, Any]
    ) -> tuple[dict[str, list[jax.Array]], dict[str, Any], dict[str, jax.Array]]:
        """Returns the updated values, `totals` reset to 0, and the step's numbers."""
        updated, numbers = self._updated(values, totals["gradients"], totals["sums"])
        return updated, jax.tree.map(jnp.zeros_like, totals), numbers

    def _updated(
        self,
        values: dict[str, list[jax.Array]],
        gradients: list[jax.Array],
        sums: dict[str, jax.Array],
    ) -> tuple[dict[str, list[jax.Array]], dict[str, jax.Array]]:
        """Returns the updated values, and the step's numbers."""
        scale, good_steps = values["loss_scale"]
        if self._scales_loss:
            gradients = [gradient / scale for gradient in gradients]
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients))
        gradients = clip_gradients(gradients, norm, self._hparams.clip_norm)
        weights, optimizer = self.optimizer.stateless_apply(
            values["optimizer"], gradients, values["weights"]
        )
        updated = values | {"weights": weights, "optimizer": optimizer}
        if self._scales_loss:
            # A step whose gradient overflows changes only the step count and the scale.
            finite = jnp.isfinite(norm)
            updated = jax.tree.map(lambda new, old: jnp.where(finite, new, old), updated, values)
            updated["optimizer"][0] = optimizer[0]  # Keras lists the step count first.
            updated["loss_scale"] = list(adapt_loss_scale(scale, good_steps, finite))
        return updated, {**sums, "gradient_norm": norm}

    def _one_evaluation(
        self,
        weights: list[jax.Array],
        frozen: list[jax.Array],
        inputs: dict[str, jax.Array],
        seeds: jax.Array,
    ) -> dict[str, jax.Array]:
        logits = self._logits(weights, frozen, inputs, seeds, training=False)
        return token_sums(logits, inputs["target"])


def make_step(config: RunConfig, devices: Devices, cluster: Cluster | None = None) -> Step:
    """Returns a step with random weights; see `backends.base.make_step`."""
    with _memory_errors():
        return JaxStep(config.make_model, config.hparams, config.random_seed)


def plan_devices(
    worker_gpu: int | None, xla: bool, cluster: Cluster | None, cpu_replicas: int
) -> Devices:
    """Makes JAX compute on one device; see `backends.base.plan_devices`."""
    if cluster:
        raise UserError(
            "Several workers (TF_CONFIG, Slurm) need TensorFlow. Unset KERAS_BACKEND=jax, or unset "
            "TF_CONFIG to train in one process.",
            code="other_backend",
        )
    for flag, number in (("cpu_replicas", cpu_replicas), ("worker_gpu", worker_gpu or 0)):
        if number > 1:
            raise UserError(
                f"--{flag}={number}: under KERAS_BACKEND=jax a run uses one device. Leave the flag "
                f"out, or set KERAS_BACKEND=tensorflow.",
                code="other_backend",
            )
    gpus = [device for device in jax.devices() if device.platform == "gpu"]
    if worker_gpu and not gpus:
        raise UserError(
            f"--worker_gpu={worker_gpu}: JAX sees no GPU. Leave the flag out, or install JAX for "
            f"the GPU (jax[cuda12]).",
            code="no_gpu",
        )
    if len(gpus) > 1 and worker_gpu != 0:
        print(f"Using the first of {len(gpus)} GPUs: under JAX a run uses one device.")
    jax.config.update("jax_default_device", jax.devices("cpu")[0] if worker_gpu == 0 else None)
    used_gpus = [gpu.device_kind for gpu in gpus[:1]] if worker_gpu != 0 else []
    return Devices([], used_gpus, 1, fixed_shapes=True, accumulates=True)
