"""Training on TensorFlow: its devices, and the step of a `tf.distribute` strategy's replicas."""

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from t2t_keras.data.batches import Batch, RemoteBatch
from t2t_keras.environment import usable_cores
from t2t_keras.errors import (
    OutOfMemoryError,
    UserError,
    translated_errors,
    translated_memory_errors,
)
from t2t_keras.hyperparameters import HParams
from t2t_keras.layers.base import layout_of
from t2t_keras.training.backends.base import REQUESTS, Devices, Step
from t2t_keras.training.backends.cluster import Cluster, without_tf_config
from t2t_keras.training.optimizer import (
    Adam,
    adapt_loss_scale,
    clip_gradients,
    dropout_seeds,
    token_sums,
)
from t2t_keras.training.run_config import RunConfig, TrainOptions

# Signatures of the compiled functions' arguments.
_SIDES = {name: tf.TensorSpec([None, None], tf.int32) for name in ("source", "target")}
_SENTENCES = {f"{name}_sentences": spec for name, spec in _SIDES.items()}
_TOKENS = tf.TensorSpec([], tf.float32)
_MEASURE = tf.TensorSpec([], tf.bool)

# Autograph would take most of the time before the first step; no control flow needs it.
_compile = functools.partial(tf.function, autograph=False)
_memory_errors = functools.partial(translated_memory_errors, tf.errors.ResourceExhaustedError)
# Exists if the driver of NVIDIA's GPUs is loaded.
_DRIVER_FILE = Path("/proc/driver/nvidia/version")


def plan_devices(
    worker_gpu: int | None, xla: bool, cluster: Cluster | None, cpu_replicas: int
) -> Devices:
    """Returns the devices of a run; see `backends.base.plan_devices`.

    Initialises no GPU, as TensorFlow must know all workers before it uses a device.
    """
    visible_gpus = tf.config.get_visible_devices("GPU")
    if worker_gpu is None and not visible_gpus and _DRIVER_FILE.exists():
        print(
            "This machine has NVIDIA's driver, but TensorFlow sees no GPU and uses the CPU. "
            "TF_CPP_MIN_LOG_LEVEL=0 shows why. If libraries are missing, run `pip install "
            "tensorflow[and-cuda]`. To use the CPU without this message, give --worker_gpu=0.",
            file=sys.stderr,
            flush=True,
        )
    if (worker_gpu or 0) > len(visible_gpus):
        raise UserError(
            f"--worker_gpu={worker_gpu}: TensorFlow sees {len(visible_gpus)} GPUs. Give a smaller "
            f"number.",
            code="no_gpu",
        )
    details = map(tf.config.experimental.get_device_details, visible_gpus[:worker_gpu])
    gpus = [device.get("device_name", "GPU") for device in details]
    if cpu_replicas > 1:
        _divide_cpu(cpu_replicas, len(gpus), cluster)
    kind, count = ("gpu", len(gpus)) if gpus else ("cpu", cpu_replicas)
    names = [f"/{kind}:{number}" for number in range(count)]
    workers = len(cluster.addresses) if cluster else 1
    return Devices(names, gpus, count * workers, xla)


def _divide_cpu(replicas: int, gpus: int, cluster: Cluster | None) -> None:
    """Gives each replica its own share of the CPU's cores.

    Cores that compute together wait for each other after every small product; replicas wait only
    once per step.
    """
    cores = usable_cores()
    if gpus or cluster or replicas > cores:
        processes = "several workers" if cluster else "one process"
        raise UserError(
            f"--cpu_replicas={replicas}: expected one process on a CPU (--worker_gpu=0), and at "
            f"most one replica for each of {cores} usable cores; got {processes} with {gpus} GPUs.",
            code="bad_value",
        )
    (cpu,) = tf.config.list_physical_devices("CPU")
    logical_devices = [tf.config.LogicalDeviceConfiguration()] * replicas
    text = f"--cpu_replicas={replicas}: TensorFlow has already computed in this process"
    with translated_errors(RuntimeError, text, "Train in a new process.", code="already_computing"):
        tf.config.set_logical_device_configuration(cpu, logical_devices)
        tf.config.threading.set_intra_op_parallelism_threads(cores // replicas)
        tf.config.threading.set_inter_op_parallelism_threads(replicas)


@functools.cache  # A process has one TensorFlow server.
def multi_worker_strategy(cluster: Cluster, gpus: int) -> tf.distribute.Strategy:
    """Returns the strategy over `gpus` GPUs of each worker; waits until all workers call it."""
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(cluster.addresses)}),
        task_type="worker",
        task_id=cluster.index,
        num_accelerators={"GPU": gpus},
        rpc_layer="grpc",
    )
    return tf.distribute.MultiWorkerMirroredStrategy(resolver)


def connect(cluster: Cluster, worker_gpu: int | None, options: TrainOptions) -> "StrategyExchange":
    """See `backends.base.connect`."""
    from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
    from tensorflow.python.eager import context

    gpus = len(plan_devices(worker_gpu, False, cluster, 1).gpus)
    job = coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=len(cluster.addresses))
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        cluster_register_timeout_in_ms=round(1000 * options.worker_start_secs),
        heartbeat_timeout_in_ms=round(1000 * options.worker_timeout_secs),
        coordinated_jobs=[job],
    )
    # Without the barrier, TensorFlow waits endlessly for a worker that never starts.
    barrier = coordination_config_pb2.CoordinationServiceConfig(cluster_register_with_barrier=True)
    context.context().coordination_service.MergeFrom(barrier)
    return StrategyExchange(multi_worker_strategy(cluster, gpus))


class StrategyExchange:
    """The exchange of a `MultiWorkerMirroredStrategy`; see `backends.base.Exchange`."""

    def __init__(self, strategy: tf.distribute.Strategy):
        self._strategy = strategy

    def gather(self, line: bytes) -> bytes:
        """See `Exchange`."""
        # GPUs too can exchange this type; every replica gives its worker's line.
        encoded_line = tf.constant([*line], tf.int32)
        lines = self._strategy.experimental_distribute_values_from_function(lambda _: encoded_line)
        return bytes(self._strategy.gather(lines, axis=0).numpy().tolist())

    def total(self, number: float) -> float:
        """See `Exchange`."""
        return float(self._replica_sum(number))

    @functools.cached_property
    def _replica_sum(self) -> Callable[[float], Any]:
        """A graph, made once, that sums over all replicas; `gather` makes one at every call."""

        def total(number: tf.Tensor) -> tf.Tensor:
            numbers = self._strategy.run(lambda: number)
            return self._strategy.reduce(tf.distribute.ReduceOp.SUM, numbers, axis=None)

        return tf.function(total, input_signature=[tf.TensorSpec([])], autograph=False)


def make_step(config: RunConfig, devices: Devices, cluster: Cluster | None = None) -> Step:
    """Returns a step with random weights; see `backends.base.make_step`."""
    if cluster:
        strategy = multi_worker_strategy(cluster, len(devices.gpus))
    else:
        with without_tf_config():
            strategy = tf.distribute.MirroredStrategy(devices.names)
    with _memory_errors():
        return TensorFlowStep(
            config.make_model, config.hparams, strategy, config.random_seed, devices.fixed_shapes
        )


class TensorFlowStep(Step):
    """The step of a strategy's replicas.

    Args:
      make_model, hparams, seed: see `Step`; the model is made within the strategy.
      strategy: a synchronous strategy, such as `tf.distribute.MirroredStrategy`.
      xla: whether XLA compiles the forward and backward pass, once for each shape.
    """

    def __init__(
        self,
        make_model: Callable[[], keras.Model],
        hparams: HParams,
        strategy: tf.distribute.Strategy,
        seed: int,
        xla: bool = False,
    ):
        with strategy.scope():
            super().__init__(make_model, hparams, seed)
        self._strategy = strategy
        self._uses_fused_adam = hparams.optimizer == "adam"
        self.num_replicas = strategy.num_replicas_in_sync
        ids = strategy.experimental_local_results(
            strategy.experimental_distribute_values_from_function(
                lambda context: context.replica_id_in_sync_group
            )
        )
        self.local_replicas = range(ids[0], ids[0] + len(ids))
        self.fixed_shapes = xla
        self._weights = [weight.value for weight in self.model.trainable_variables]
        self._accumulators: list[tf.Variable] = []
        self._requests: Any = None
        if len(self.local_replicas) < self.num_replicas:
            self._requests = tf.Variable([0.0] * len(REQUESTS), trainable=False)
        # XLA needs shapes that do not depend on the amount of padding.
        self._packed = not xla
        seeds = tf.TensorSpec([len(self._seed_states), 2], tf.int64)
        sentences = _SENTENCES if xla and self.packs_rows else {}
        parts = [(_SIDES | sentences, seeds)] * len(self.local_replicas)
        self._gradients = _compile(self._replica_gradients, jit_compile=xla or None)
        self._update = _compile(self._one_update, input_signature=[parts, _TOKENS, _MEASURE])
        self._accumulate = _compile(self._one_accumulation, input_signature=[parts, _TOKENS])
        self._apply = _compile(self._apply_accumulated, input_signature=[_MEASURE])
        self._evaluate = _compile(self._one_evaluation, input_signature=[parts])
        if xla:
            # XLA caches compiled code by a name that counts TensorFlow's functions. Made here, the
            # function has the same number in a new run and in a continued run.
            self._update.get_concrete_function()

    def update(
        self,
        step: int,
        microbatches: Sequence[Sequence[Batch | RemoteBatch]],
        measure_gradient: bool = False,
    ) -> dict[str, tf.Tensor]:
        """See `Step`."""
        count = sum(batch.target_tokens for microbatch in microbatches for batch in microbatch)
        tokens = float(max(count, 1))
        inputs = [self._inputs(step, *pair) for pair in enumerate(microbatches)]
        try:
            with _memory_errors():
                if len(inputs) == 1:
                    return self._update(inputs[0], tokens, measure_gradient)
                self._make_accumulators()
                sums = [self._accumulate(parts, tokens) for parts in inputs]
                norm = self._apply(measure_gradient)
        except OutOfMemoryError:
            self._clear_accumulators()
            raise
        totals = {name: tf.add_n([part[name] for part in sums]) for name in sums[0]}
        return {**totals, "gradient_norm": norm}

    def evaluate(self, microbatch: Sequence[Batch | RemoteBatch]) -> dict[str, float]:
        """See `Step`."""
        with _memory_errors():
            sums = self._evaluate(self._inputs(0, 0, microbatch))
            return {name: float(value) for name, value in sums.items()}

    def request(self, **requests: bool) -> None:
        """See `Step`."""
        self._requests.assign([float(bool(requests[name])) for name in REQUESTS])

    def _inputs(
        self, step: int, number: int, microbatch: Sequence[Batch | RemoteBatch]
    ) -> list[tuple[Any, ...]]:
        """Returns the model's inputs and the seeds of each local replica."""
        first_part = number * self.num_replicas
        inputs = []
        for replica, part in enumerate(microbatch, first_part):
            if isinstance(part, Batch):
                seeds = dropout_seeds(self._seed, step, replica, len(self._seed_states))
                inputs.append((part.inputs(), seeds))
        return inputs

    def _make_accumulators(self) -> None:
        """Makes the accumulators when a step is split for the first time."""
        if not self._accumulators:
            options = dict(
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )
            with self._strategy.scope():
                zeros = (tf.zeros(weight.shape) for weight in self._weights)
                self._accumulators = [tf.Variable(value, **options) for value in zeros]

    def _clear_accumulators(self) -> None:
        for accumulator in self._accumulators:
            accumulator.assign(tf.zeros(accumulator.shape))

    # The following methods run as graphs; those named _replica_... run once in each replica.

    def _run(
        self, replica_function: Callable[..., Any], parts: list[tuple[Any, ...]] | None = None
    ) -> Any:
        """Runs a function in all replicas, each with its inputs and seeds of `parts`.

        Returns one replica's results, as they are the same on all.
        """
        inputs: Any = ()
        if parts is not None:
            inputs = self._strategy.experimental_distribute_values_from_function(
                lambda context: parts[context.replica_id_in_sync_group - self.local_replicas.start]
            )
        return tf.nest.map_structure(
            lambda value: self._strategy.experimental_local_results(value)[0],
            self._strategy.run(replica_function, inputs),
        )

    def _one_update(
        self, parts: list[tuple[Any, ...]], tokens: tf.Tensor, measure: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        def replica_update(*inputs: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
            gradients, sums = self._gradients(*inputs, tokens)
            return self._replica_total(sums), self._replica_apply(gradients, measure)

        sums, norm = self._run(replica_update, parts)
        return {**sums, "gradient_norm": self._finish_step(norm)}

    def _one_accumulation(
        self, parts: list[tuple[Any, ...]], tokens: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        def replica_accumulation(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            gradients, sums = self._gradients(*inputs, tokens)
            for accumulator, gradient in zip(self._accumulators, gradients, strict=True):
                accumulator.assign_add(gradient)
            return self._replica_total(sums)

        return self._run(replica_accumulation, parts)

    def _apply_accumulated(self, measure: tf.Tensor) -> tf.Tensor:
        def replica_apply() -> tf.Tensor:
            gradients = [accumulator.read_value() for accumulator in self._accumulators]
            norm = self._replica_apply(gradients, measure)
            self._clear_accumulators()
            return norm

        return self._finish_step(self._run(replica_apply))

    def _one_evaluation(self, parts: list[tuple[Any, ...]]) -> dict[str, tf.Tensor]:
        def replica_evaluation(inputs: dict[str, tf.Tensor], _: tf.Tensor) -> dict[str, tf.Tensor]:
            return self._replica_total(self._token_sums(inputs, training=False))

        return self._run(replica_evaluation, parts)

    def _replica_gradients(
        self, inputs: dict[str, tf.Tensor], seeds: tf.Tensor, tokens: tf.Tensor
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """Returns dense gradients of this replica's share of the loss, and its `token_sums`."""
        states = zip(self._seed_states, tf.unstack(seeds), strict=True)
        with keras.StatelessScope(state_mapping=list(states)), tf.GradientTape() as tape:
            options = dict(label_smoothing=self._hparams.label_smoothing, loss=self._loss)
            sums = self._token_sums(inputs, training=True, **options)
            loss = sums["loss"] / tokens
            if self._scales_loss:
                loss = loss * self.loss_scale
        gradients = tape.gradient(loss, self._weights)
        # Dense, as both Keras's and TensorFlow's Adam mishandle repeated rows of sparse gradients.
        return [tf.convert_to_tensor(gradient) for gradient in gradients], sums

    def _token_sums(
        self, inputs: dict[str, tf.Tensor], training: bool, **options: Any
    ) -> dict[str, tf.Tensor]:
        target = inputs["target"]
        logits = self.model(inputs, packed=self._packed, training=training)
        if self._packed:
            target = layout_of(target, ragged=True).pack(target)
        return token_sums(logits, target, **options, compiled=self.fixed_shapes)

    def _replica_total(self, sums: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the sums over all replicas, with the requests if there are several workers."""
        if self.num_replicas == 1:
            return sums
        if self._requests is not None:
            names = [f"{name}_requests" for name in REQUESTS]
            sums = {**sums, **dict(zip(names, tf.unstack(self._requests), strict=True))}
        return self._replica_sum(sums)

    def _replica_sum(self, values: Any) -> Any:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)

    def _replica_apply(self, gradients: list[tf.Tensor], measure: tf.Tensor) -> tf.Tensor:
        """Sums gradients over replicas, clips the sum and updates; returns the norm of the sum."""
        if self.num_replicas > 1:
            dtype = self._hparams.reduction_dtype
            totals = self._replica_sum([tf.cast(gradient, dtype) for gradient in gradients])
            gradients = [tf.cast(total, tf.float32) for total in totals]
        if self._scales_loss:
            gradients = [gradient / self.loss_scale for gradient in gradients]
        clip_norm = self._hparams.clip_norm
        if clip_norm or self._scales_loss:
            norm = tf.linalg.global_norm(gradients)
        else:
            norm = tf.cond(measure, lambda: tf.linalg.global_norm(gradients), lambda: 0.0)
        gradients = clip_gradients(gradients, norm, clip_norm)

        def update() -> None:
            # Every replica has the same sum and updates its own copy, without further exchange.
            if self._uses_fused_adam:
                update_by_adam(self.optimizer, self.schedule, gradients, self._weights)
                trained = self.model.trainable_variables
                self.optimizer._update_model_variables_moving_average(trained)
            else:
                # Keras sums over the replicas again, and counts the step.
                shares = [gradient / self.num_replicas for gradient in gradients]
                self.optimizer.apply(shares, self.model.trainable_variables)

        # Change nothing before all gradients exist, as memory may run out for one of them.
        with tf.control_dependencies(gradients):
            norm = tf.identity(norm)
            if self._scales_loss:
                tf.cond(tf.math.is_finite(norm), update, lambda: None)
            else:
                update()
        return norm

    def _finish_step(self, norm: tf.Tensor) -> tf.Tensor:
        """Counts the step and adapts the loss scale, once for all replicas."""
        if self._uses_fused_adam:
            with tf.control_dependencies([norm]):
                self.optimizer.iterations.assign_add(1)
        if self._scales_loss:
            finite = tf.math.is_finite(norm)
            scale, good = adapt_loss_scale(self.loss_scale.value, self.good_steps.value, finite)
            self.loss_scale.assign(scale)
            self.good_steps.assign(good)
        return norm


def update_by_adam(
    optimizer: Adam,
    schedule: Callable[[Any], Any],
    gradients: Sequence[tf.Tensor],
    weights: Sequence[tf.Variable],
) -> None:
    """Updates a replica's own copies of the weights with the rule of `Adam`.

    Uses TensorFlow's kernel, which reads and writes each value once. Does not count the step.
    """
    rate, epsilon = optimizer.corrected(schedule(optimizer.iterations.value))
    zero_power = tf.constant(0.0)  # The rate and epsilon include the bias correction.
    moments = optimizer._momentums, optimizer._velocities
    for weight, gradient, m, v in zip(weights, gradients, *moments, strict=True):
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=m.value.handle,
            v=v.value.handle,
            beta1_power=zero_power,
            beta2_power=zero_power,
            lr=rate,
            beta1=optimizer.beta_1,
            beta2=optimizer.beta_2,
            epsilon=epsilon,
            grad=gradient,
        )
