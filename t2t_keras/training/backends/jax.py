"""One optimizer step on JAX, on all devices; the counterpart of `backends.tensorflow`."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t2t_keras.data.batches import Batch, RemoteBatch
from t2t_keras.errors import (
    TRY_AGAIN_STATUS,
    OutOfMemoryError,
    UserError,
    translated_errors,
    translated_memory_errors,
)
from t2t_keras.hyperparameters import HParams
from t2t_keras.training.backends.base import REQUESTS, Devices, Step
from t2t_keras.training.backends.cluster import Cluster
from t2t_keras.training.optimizer import (
    adapt_loss_scale,
    clip_gradients,
    dropout_seeds,
    token_sums,
    weights_and_averages,
)
from t2t_keras.training.run_config import RunConfig, TrainOptions

# XLA's errors all have one type; only the text distinguishes them.
_memory_errors = functools.partial(
    translated_memory_errors, jax.errors.JaxRuntimeError, "RESOURCE_EXHAUSTED"
)


class JaxStep(Step):
    """The step on one or several devices; see `Step`.

    A step of one microbatch is one compiled function. Otherwise one function adds a microbatch's
    gradient to the sums of the step, and another updates the weights. Arrays are updated in place,
    so that no array of the model's size is copied.

    The rows of a microbatch are divided among the devices. Each has all weights; in one process, it
    has a share of the optimizer's moments (ZeRO, stage 1: Rajbhandari et al., 2020). XLA adds the
    communication.

    Args:
      make_model, hparams, seed: see `Step`.
      devices: the devices; None = JAX's first.
    """

    def __init__(
        self,
        make_model: Callable[[], keras.Model],
        hparams: HParams,
        seed: int,
        devices: Sequence[jax.Device] | None = None,
    ):
        super().__init__(make_model, hparams, seed)
        mesh = Mesh(np.array(devices or jax.devices()[:1]), ("replica",))
        self.num_replicas = mesh.size
        # All workers have the same number of devices, in the order of the workers.
        own = len(mesh.local_devices)
        self.local_replicas = range(jax.process_index() * own, (jax.process_index() + 1) * own)
        # Only several workers exchange requests.
        self._requests = np.zeros((own, len(REQUESTS) if own < mesh.size else 0), np.float32)
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
        # (Whether the step was one microbatch, shape) of computations that fitted into memory.
        self._computed_shapes: set[tuple[bool, tuple[int, ...]]] = set()
        self._compile(mesh)

    def _compile(self, mesh: Mesh) -> None:
        """Makes the compiled functions, which determine the placement of each array."""
        whole, by_row = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), ("replica",)))
        # An evaluation exchanges the averages with the weights.
        undivided = {id(average) for _, average in weights_and_averages(self.optimizer)}
        values: dict[str, Any] = {name: [whole] * len(x) for name, x in self._variables.items()}
        for i, variable in enumerate(self.optimizer.variables):
            is_divisible = variable.shape and variable.shape[0] % mesh.size == 0
            # With several processes the chief writes the checkpoints, and needs whole arrays.
            if is_divisible and not mesh.is_multi_process and id(variable) not in undivided:
                values["optimizer"][i] = by_row
        self._shardings, self._are_placed = values, False
        self._whole, self._by_row = whole, by_row
        microbatch = whole, by_row, by_row, whole, whole
        self._whole_step = jax.jit(
            self._one_step,
            donate_argnums=0,
            in_shardings=(values, *microbatch),
            out_shardings=(values, whole),
        )
        self._accumulate = jax.jit(
            self._one_accumulation,
            donate_argnums=0,
            in_shardings=(whole, values, *microbatch),
            out_shardings=whole,
        )
        self._apply = jax.jit(
            self._one_update,
            donate_argnums=(0, 1),
            in_shardings=(values, whole),
            out_shardings=(values, whole, whole),
        )
        self._evaluate = jax.jit(
            self._one_evaluation, in_shardings=(whole, whole, by_row, whole), out_shardings=whole
        )

    def update(
        self,
        step: int,
        microbatches: Sequence[Sequence[Batch | RemoteBatch]],
        measure_gradient: bool = False,
    ) -> dict[str, jax.Array]:
        """See `Step`; the gradient's norm is always measured, since it costs little."""
        self._place_once()
        count = sum(batch.target_tokens for microbatch in microbatches for batch in microbatch)
        tokens = np.float32(max(count, 1))
        inputs = []
        for number, microbatch in enumerate(microbatches):
            seeds = dropout_seeds(self._seed, step, number, len(self._seed_states))
            # The type of JAX's keys.
            options = seeds.astype(np.uint32), tokens
            arrays = self._joined(microbatch), self._of_rows(self._requests)
            inputs.append((self._frozen_values(), *arrays, *options))
        is_whole = len(inputs) == 1
        shapes = {(is_whole, arrays["source"].shape) for _, arrays, *_ in inputs}
        update = self._update_whole if is_whole else self._update_in_parts
        values, numbers = update(inputs, is_new_shape=not shapes <= self._computed_shapes)
        self._computed_shapes |= shapes
        self._assign(values)
        return numbers

    def _update_whole(
        self, inputs: list[tuple[Any, ...]], is_new_shape: bool
    ) -> tuple[dict[str, list[jax.Array]], dict[str, jax.Array]]:
        """Computes a step of one microbatch; returns the updated values and the step's numbers."""
        self._totals = None  # Its memory may be needed: this shape may have fitted without it.
        values = self._variable_values()
        # A device may run out of memory during the computation, when the old values are already
        # overwritten. A shape that fitted once most likely fits again.
        saved = jax.tree.map(np.array, values) if is_new_shape else None
        try:
            with _memory_errors():
                results = self._whole_step(values, *inputs[0])
                return jax.block_until_ready(results) if saved else results
        except OutOfMemoryError as error:
            if not saved:
                raise UserError(
                    "Out of memory in a step whose shape had fitted before; its weights are lost. "
                    "The same command continues from the newest checkpoint; with a smaller "
                    "--hparams=microbatch_tokens=... it needs less memory.",
                    TRY_AGAIN_STATUS,
                    code="out_of_memory",
                ) from error
            self._assign(jax.device_put(saved, self._shardings))
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
        self._place_once()
        trained, frozen = self._variable_values()["weights"], self._frozen_values()
        unused_seeds = np.zeros((len(self._seed_states), 2), np.uint32)
        with _memory_errors():
            sums = self._evaluate(trained, frozen, self._joined(microbatch), unused_seeds)
            return {name: float(value) for name, value in jax.device_get(sums).items()}

    def request(self, **requests: bool) -> None:
        """See `Step`."""
        # A new array, since a running step may still read the old one.
        values = [bool(requests[name]) for name in REQUESTS]
        self._requests = np.full_like(self._requests, values)

    def _joined(self, microbatch: Sequence[Batch | RemoteBatch]) -> dict[str, Any]:
        """Returns the model's inputs, with the rows of all replicas, one after another."""
        parts = [batch.inputs() for batch in microbatch if isinstance(batch, Batch)]
        return {
            name: self._of_rows(np.concatenate([part[name] for part in parts])) for name in parts[0]
        }

    def _of_rows(self, local_rows: np.ndarray) -> Any:
        """Returns an array of all workers' rows; the argument has this worker's."""
        if jax.process_count() == 1:
            return local_rows
        return jax.make_array_from_process_local_data(self._by_row, local_rows)

    def _place_once(self) -> None:
        """Places all arrays, after a checkpoint is restored, as the compiled functions return them.

        Arrays in other places would be compiled for separately.
        """
        if self._are_placed:
            return
        host_values = jax.tree.map(np.asarray, self._variable_values())
        self._assign(jax.device_put(host_values, self._shardings))
        for weight in self._frozen_weights:
            weight.assign(jax.device_put(np.asarray(weight.value), self._whole))
        self._are_placed = True

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
            "sums": token_sums(jnp.zeros((1, 1, 2)), padding_ids)
            | {f"{name}_requests": jnp.zeros(()) for name in REQUESTS[: self._requests.shape[1]]},
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
        requests: jax.Array,
        seeds: jax.Array,
        tokens: jax.Array,
    ) -> tuple[list[jax.Array], dict[str, jax.Array]]:
        """Returns a microbatch's share of the step's gradient, and its sums.

        `requests`, float32 [replicas, requests], become sums too.
        """

        def loss(weights: list[jax.Array]) -> tuple[jax.Array, dict[str, jax.Array]]:
            logits = self._logits(weights, frozen, inputs, seeds, training=True)
            options = self._hparams.label_smoothing, self._loss
            sums = token_sums(logits, inputs["target"], *options, compiled=True)
            share = sums["loss"] / tokens
            return share * values["loss_scale"][0] if self._scales_loss else share, sums

        gradients, sums = jax.grad(loss, has_aux=True)(values["weights"])
        names = [f"{name}_requests" for name in REQUESTS[: requests.shape[1]]]
        return gradients, sums | dict(zip(names, requests.sum(axis=0), strict=True))

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


class _Exchange:
    """See `backends.base.Exchange`."""

    def gather(self, line: bytes) -> bytes:
        """See `Exchange`."""
        size = multihost_utils.process_allgather(np.int32(len(line))).max()
        lines = multihost_utils.process_allgather(np.frombuffer(line.ljust(size), np.uint8))
        return b"".join(row.tobytes().rstrip(b" ") for row in lines)

    def total(self, number: float) -> float:
        """See `Exchange`."""
        return float(multihost_utils.process_allgather(np.float32(number)).sum())


def connect(cluster: Cluster, worker_gpu: int | None, options: TrainOptions) -> _Exchange:
    """See `backends.base.connect`."""
    text = f"{cluster.name(cluster.index)} cannot connect to the others"
    advice = (
        "All workers must start in time. A new run needs the name of a set: --hparams_set=auto "
        "looks for devices, which JAX allows only after it has connected."
    )
    with translated_errors(RuntimeError, text, advice, code="not_connected"):
        jax.distributed.initialize(
            cluster.addresses[0],
            len(cluster.addresses),
            cluster.index,
            initialization_timeout=round(options.worker_start_secs),
            heartbeat_timeout_seconds=round(options.worker_timeout_secs),
            shutdown_timeout_seconds=round(options.worker_timeout_secs),
        )
    return _Exchange()


def make_step(config: RunConfig, devices: Devices, cluster: Cluster | None = None) -> Step:
    """Returns a step with random weights; see `backends.base.make_step`."""
    # None = the default kind, such as "tpu".
    kind, count = None if devices.gpus else "cpu", len(devices.names)
    used = [
        device
        for process in range(jax.process_count())
        for device in [x for x in jax.devices(kind) if x.process_index == process][:count]
    ]
    with _memory_errors():
        return JaxStep(config.make_model, config.hparams, config.random_seed, used)


def plan_devices(
    worker_gpu: int | None, xla: bool, cluster: Cluster | None, cpu_replicas: int
) -> Devices:
    """Chooses JAX's devices; see `backends.base.plan_devices`."""
    if cpu_replicas > max(jax.config.values["jax_num_cpu_devices"], 1):
        text = f"--cpu_replicas={cpu_replicas}: JAX has already computed in this process"
        advice = "Train in a new process."
        with translated_errors(RuntimeError, text, advice, code="already_computing"):
            jax.config.update("jax_num_cpu_devices", cpu_replicas)
    gpus = [device for device in jax.local_devices() if device.platform != "cpu"]
    if (worker_gpu or 0) > len(gpus):
        raise UserError(
            f"--worker_gpu={worker_gpu}: JAX sees {len(gpus)} GPUs. Give a smaller number, or "
            f"install JAX for the GPU (jax[cuda12]).",
            code="no_gpu",
        )
    used_gpus = [gpu.device_kind for gpu in gpus[:worker_gpu]]
    if used_gpus and cpu_replicas > 1:
        raise UserError(
            f"--cpu_replicas={cpu_replicas}: expected a run on a CPU (--worker_gpu=0), got "
            f"{len(used_gpus)} GPUs.",
            code="bad_value",
        )
    cpu = jax.local_devices(backend="cpu")[0]
    jax.config.update("jax_default_device", None if used_gpus else cpu)
    kind = gpus[0].platform if used_gpus else "cpu"
    names = [f"{kind}:{number}" for number in range(len(used_gpus) or cpu_replicas)]
    replicas = len(names) * (len(cluster.addresses) if cluster else 1)
    return Devices(names, used_gpus, replicas, fixed_shapes=True)
