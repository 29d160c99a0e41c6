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

    One function, compiled for each shape, adds a microbatch's gradient to the sums of the step;
    another function updates the weights. Both work in place, so that no array of the model's size
    is copied.
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
        # Gradients and sums of a step's microbatches so far; 0 between two steps.
        self._totals = self._zero_totals()
        self._computed_shapes: set[tuple[int, ...]] = set()
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
        values, totals = self._variable_values(), self._totals
        try:
            with _memory_errors():
                # Adds the gradient and the sums of each microbatch to `totals`, whose buffers are
                # donated. The calls do not wait for the results.
                for number, batch in enumerate(batches):
                    seeds = dropout_seeds(self._seed, step, number, len(self._seed_states))
                    totals = self._accumulate(
                        totals,
                        values["weights"],
                        self._frozen_values(),
                        values["loss_scale"][0],
                        batch.inputs(),
                        seeds.astype(np.uint32),  # The type of JAX's keys.
                        tokens,
                    )
                shapes = {batch.source.shape for batch in batches}
                if not shapes <= self._computed_shapes:
                    # A device may report missing memory only when it runs the computation, too
                    # late for the update, so wait for new shapes. Shapes that fitted once most
                    # likely fit again, and waiting would leave the device idle.
                    jax.block_until_ready(totals)
                    self._computed_shapes |= shapes
        except (jax.errors.JaxRuntimeError, OutOfMemoryError):
            # The donated arrays are gone.
            self._totals = self._zero_totals()
            raise
        values, self._totals, numbers = self._apply(values, totals)
        for name, variables in self._variables.items():
            for variable, value in zip(variables, values[name], strict=True):
                variable.assign(value)
        return numbers

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

    def _one_accumulation(
        self,
        totals: dict[str, Any],
        weights: list[jax.Array],
        frozen: list[jax.Array],
        loss_scale: jax.Array,
        inputs: dict[str, jax.Array],
        seeds: jax.Array,
        tokens: jax.Array,
    ) -> dict[str, Any]:
        """Adds a microbatch's share of the step's gradient, and its sums, to `totals`."""

        def loss(weights: list[jax.Array]) -> tuple[jax.Array, dict[str, jax.Array]]:
            logits = self._logits(weights, frozen, inputs, seeds, training=True)
            sums = token_sums(logits, inputs["target"], self._hparams.label_smoothing, self._loss)
            share = sums["loss"] / tokens
            return share * loss_scale if self._scales_loss else share, sums

        gradients, sums = jax.grad(loss, has_aux=True)(weights)
        return jax.tree.map(jnp.add, totals, {"gradients": gradients, "sums": sums})

    def _one_update(
        self, values: dict[str, list[jax.Array]], totals: dict[str, Any]
    ) -> tuple[dict[str, list[jax.Array]], dict[str, Any], dict[str, jax.Array]]:
        """Returns the updated values, `totals` reset to 0, and the step's numbers."""
        gradients, (scale, good_steps) = totals["gradients"], values["loss_scale"]
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
        numbers = {**totals["sums"], "gradient_norm": norm}
        return updated, jax.tree.map(jnp.zeros_like, totals), numbers

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
