"""One optimizer step on TensorFlow, over all replicas of a `tf.distribute` strategy.

What surrounds it (`training.run_loop`) hands over NumPy arrays and gets numbers back.
"""

import functools
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from t2t_keras.data.batches import TokenArrays
from t2t_keras.hyperparameters import HParams
from t2t_keras.layers import Packing
from t2t_keras.training.adam import Adam
from t2t_keras.training.devices import gpu_names
from t2t_keras.training.dropout_seeds import dropout_seeds
from t2t_keras.training.loss_scale import FIRST_LOSS_SCALE, adapted_loss_scale
from t2t_keras.training.losses import token_sums
from t2t_keras.training.out_of_memory import OutOfMemoryError
from t2t_keras.training.schedules import TransformerSchedule

_IDS = tf.TensorSpec([None, None], tf.int32)
_FLOAT = tf.TensorSpec([], tf.float32)

# No control flow depends on tensors, and looking for it would take most of the time to the first
# step.
_compiled = functools.partial(tf.function, autograph=False)


class TensorFlowStep:
    """A model, its optimizer, and the compiled functions that train and evaluate it.

    The loss is summed over the real target tokens of all replicas and microbatches and divided by
    their number, so an update does not depend on how a step is split.

    Args:
      make_model: returns the model with its weights made; called within the strategy.
      hparams: the hyperparameters.
      strategy: a synchronous strategy, such as `tf.distribute.MirroredStrategy`.
      seed: of initial weights and dropout.
      xla: whether the forward and backward pass is compiled by XLA, once for each shape.

    Attributes:
      model: the model.
      num_replicas: the number of replicas, of all workers together.
      replicas_here: which of them are this worker's.
      fixed_shapes: whether every new shape is compiled anew.
      schedule: the learning rate as a function of the step.
    """

    def __init__(
        self,
        make_model: Callable[[], keras.Model],
        hparams: HParams,
        strategy: tf.distribute.Strategy,
        seed: int,
        xla: bool = False,
    ):
        keras.utils.set_random_seed(seed)
        self._strategy = strategy
        self._hparams, self._seed = hparams, seed
        self.num_replicas = strategy.num_replicas_in_sync
        self.replicas_here = _replicas_here(strategy)
        self.schedule = TransformerSchedule(
            hparams.d_model, hparams.warmup_steps, hparams.learning_rate
        )
        with self._strategy.scope():
            self.model = make_model()
            self.optimizer = Adam(
                self.schedule, hparams.adam_beta1, hparams.adam_beta2, hparams.adam_epsilon
            )
            self.optimizer.build(self.model.trainable_variables)
            self.loss_scale = tf.Variable(FIRST_LOSS_SCALE, trainable=False)
            self.good_steps = tf.Variable(0, trainable=False)
        self._scales_loss = hparams.compute_dtype == "float16"
        self._weights = [weight.value for weight in self.model.trainable_variables]
        self._seed_states = self.model.non_trainable_variables
        self._accumulators = None
        self._requests = None
        if len(self.replicas_here) < self.num_replicas:
            self._requests = tf.Variable([0.0, 0.0], trainable=False)
        self.fixed_shapes = xla
        # XLA needs shapes that do not depend on how much of a batch is padding.
        self._packed = not xla
        self._gradients = _compiled(self._replica_gradients, jit_compile=xla or None)
        self._compile()
        if xla:
            # What XLA compiled is kept by a name that counts all that TensorFlow has made before:
            # here, in a run that goes on as in a new one.
            self._update.get_concrete_function()

    def _compile(self) -> None:
        here = len(self.replicas_here)
        sides = [_IDS] * here
        seeds = [tf.TensorSpec([len(self._seed_states), 2], tf.int64)] * here
        inputs = [sides, sides, seeds, _FLOAT]
        measure = tf.TensorSpec([], tf.bool)
        self._update = _compiled(self._one_update, input_signature=[*inputs, measure])
        self._accumulate = _compiled(self._one_accumulation, input_signature=inputs)
        self._try = _compiled(self._one_trial, input_signature=inputs)
        self._apply = _compiled(self._apply_accumulated, input_signature=[measure])
        self._forget = _compiled(self._forget_accumulated, input_signature=[])
        self._evaluate = _compiled(self._one_evaluation, input_signature=[sides, sides])

    def state(self) -> dict[str, object]:
        """Returns what a checkpoint holds, as arguments of `tf.train.Checkpoint`."""
        state = {"model": self.model, "optimizer": self.optimizer}
        if self._scales_loss:
            state |= {"loss_scale": self.loss_scale, "good_steps": self.good_steps}
        return state

    def steps_done(self) -> int:
        """Returns the number of updates so far."""
        return int(self.optimizer.iterations.numpy())

    def update(
        self, step: int, parts: Sequence[Sequence[TokenArrays]], measure_gradient: bool = False
    ) -> dict[str, tf.Tensor]:
        """Does one optimizer step.

        Args:
          step: its number, from 0.
          parts: for each microbatch, for each replica, its examples; for those of other workers,
            `ElsewhereArrays`.
          measure_gradient: whether the gradient's norm is wanted.

        Returns:
          Scalar tensors: the sums of `token_sums` over the step, and "gradient_norm" (0 where it
          was not computed); with several workers also what `request` says.

        Raises:
          OutOfMemoryError: the gradient does not fit into memory; nothing is changed.
        """
        tokens = sum(part.target_tokens for microbatch in parts for part in microbatch)
        inputs = [
            [*self._inputs(step, number, microbatch), float(max(tokens, 1))]
            for number, microbatch in enumerate(parts)
        ]
        try:
            if len(inputs) == 1:
                return self._update(*inputs[0], measure_gradient)
            self._need_accumulators()
            sums = [self._accumulate(*each) for each in inputs]
            norm = self._apply(measure_gradient)
        except tf.errors.ResourceExhaustedError as error:
            self._forget_gradients()
            raise OutOfMemoryError(error.message) from error
        totals = {name: tf.add_n([part[name] for part in sums]) for name in sums[0]}
        return {**totals, "gradient_norm": norm}

    def fits(self, microbatch: Sequence[TokenArrays]) -> bool:
        """Returns whether the gradient of such parts fits into memory; nothing is changed.

        Args:
          microbatch: one part for each replica.

        Raises:
          OutOfMemoryError: the sums of gradients, which all workers make together, do not fit.
        """
        try:
            self._need_accumulators()
        except tf.errors.ResourceExhaustedError as error:
            raise OutOfMemoryError(error.message) from error
        try:
            for loss in self._try(*self._inputs(0, 0, microbatch), 1.0):
                float(loss)
        except tf.errors.ResourceExhaustedError:
            return False
        finally:
            self._forget_gradients()
        return True

    def evaluate(self, microbatch: Sequence[TokenArrays]) -> dict[str, float]:
        """Returns the sums of `token_sums` without dropout, over one part for each replica.

        Raises:
          OutOfMemoryError: the loss does not fit into memory.
        """
        try:
            sums = self._evaluate(*self._sides(microbatch))
            return {name: float(value) for name, value in sums.items()}
        except tf.errors.ResourceExhaustedError as error:
            raise OutOfMemoryError(error.message) from error

    def request(self, stop: bool, save: bool) -> None:
        """Has the sums of the next steps say to all workers what this one wants.

        Args:
          stop: counted in "stop_requests".
          save: counted in "save_requests".
        """
        self._requests.assign([float(stop), float(save)])

    def least(self, number: int) -> int:
        """Returns the least of the numbers that all workers give."""
        values = self._strategy.experimental_distribute_values_from_function(
            lambda _: tf.constant([number], tf.int64)
        )
        return int(tf.reduce_min(self._strategy.gather(values, axis=0)))

    def weights_are_finite(self) -> bool:
        """Returns whether no weight is NaN or infinite."""
        return bool(
            tf.reduce_all([tf.reduce_all(tf.math.is_finite(weight)) for weight in self._weights])
        )

    def gpus(self) -> list[str]:
        """Returns the name of each GPU that it computes on; none = the CPU."""
        devices = self._strategy.extended.worker_devices
        return gpu_names(sum("device:GPU" in device for device in devices))

    def _inputs(self, step: int, number: int, microbatch: Sequence[TokenArrays]) -> list:
        seeds = [
            dropout_seeds(
                self._seed, step, number * self.num_replicas + replica, len(self._seed_states)
            )
            for replica in self.replicas_here
        ]
        return [*self._sides(microbatch), seeds]

    def _sides(self, microbatch: Sequence[TokenArrays]) -> tuple[list, list]:
        here = [microbatch[replica] for replica in self.replicas_here]
        return [part.source for part in here], [part.target for part in here]

    def _need_accumulators(self) -> None:
        """Makes the accumulators, where no step was split before."""
        if self._accumulators is not None:
            return
        with self._strategy.scope():
            self._accumulators = [
                tf.Variable(
                    tf.zeros(weight.shape),
                    trainable=False,
                    synchronization=tf.VariableSynchronization.ON_READ,
                    aggregation=tf.VariableAggregation.SUM,
                )
                for weight in self._weights
            ]

    def _forget_gradients(self) -> None:
        """Makes the accumulators 0, where a step got stuck."""
        if self._accumulators is not None:
            self._forget()

    def _per_replica(self, values: Sequence[tf.Tensor]):
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: values[context.replica_id_in_sync_group - self.replicas_here.start]
        )

    # What follows runs as graphs; methods named _replica_... run once in each replica.

    def _one_update(self, sources, targets, seeds, tokens, measure):
        def replica_update(source, target, seeds):
            gradients, sums = self._gradients(source, target, seeds, tokens)
            return self._replica_total(sums), self._replica_apply(gradients, measure)

        inputs = tuple(self._per_replica(values) for values in (sources, targets, seeds))
        sums, norm = self._strategy.run(replica_update, inputs)
        return {**self._first(sums), "gradient_norm": self._finish(norm)}

    def _one_accumulation(self, sources, targets, seeds, tokens):
        def replica_accumulation(source, target, seeds):
            return self._replica_total(self._replica_accumulate(source, target, seeds, tokens))

        inputs = tuple(self._per_replica(values) for values in (sources, targets, seeds))
        return self._first(self._strategy.run(replica_accumulation, inputs))

    def _one_trial(self, sources, targets, seeds, tokens):
        """Accumulates without a word to other workers, which may try something else."""

        def replica_trial(source, target, seeds):
            return self._replica_accumulate(source, target, seeds, tokens)["loss"]

        inputs = tuple(self._per_replica(values) for values in (sources, targets, seeds))
        return self._strategy.experimental_local_results(self._strategy.run(replica_trial, inputs))

    def _replica_accumulate(self, source, target, seeds, tokens):
        gradients, sums = self._gradients(source, target, seeds, tokens)
        for accumulator, gradient in zip(self._accumulators, gradients, strict=True):
            accumulator.assign_add(gradient)
        return sums

    def _apply_accumulated(self, measure):
        def replica_apply():
            gradients = [accumulator.read_value() for accumulator in self._accumulators]
            norm = self._replica_apply(gradients, measure)
            self._replica_forget()
            return norm

        return self._finish(self._strategy.run(replica_apply))

    def _forget_accumulated(self):
        self._strategy.run(self._replica_forget)

    def _replica_forget(self):
        for accumulator in self._accumulators:
            accumulator.assign(tf.zeros(accumulator.shape))

    def _one_evaluation(self, sources, targets):
        def replica_evaluation(source, target):
            return self._replica_total(self._token_sums(source, target, training=False))

        inputs = self._per_replica(sources), self._per_replica(targets)
        return self._first(self._strategy.run(replica_evaluation, inputs))

    def _replica_gradients(self, source, target, seeds, tokens):
        """Returns dense gradients of this part's share of the loss, and its sums."""
        states = zip(self._seed_states, tf.unstack(seeds), strict=True)
        with keras.StatelessScope(state_mapping=list(states)), tf.GradientTape() as tape:
            sums = self._token_sums(
                source, target, training=True, label_smoothing=self._hparams.label_smoothing
            )
            loss = sums["loss"] / tokens
            if self._scales_loss:
                loss = loss * self.loss_scale
        gradients = tape.gradient(loss, self._weights)
        # Keras's and TensorFlow's Adam are both wrong about repeated rows of sparse gradients.
        return [tf.convert_to_tensor(gradient) for gradient in gradients], sums

    def _token_sums(self, source, target, training, **options):
        inputs = {"source": source, "target": target}
        logits = self.model(inputs, packed=self._packed, training=training)
        if self._packed:
            target = Packing(target != 0).pack(target)
        return token_sums(logits, target, **options)

    def _replica_total(self, sums):
        if self.num_replicas == 1:
            return sums
        if self._requests is not None:
            stop, save = tf.unstack(self._requests)
            sums = {**sums, "stop_requests": stop, "save_requests": save}
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, sums)

    def _replica_apply(self, gradients, measure):
        """Sums gradients over replicas, clips the sum and updates; returns the sum's norm."""
        if self.num_replicas > 1:
            gradients = self._replica_gradient_sum(gradients)
        if self._scales_loss:
            gradients = [gradient / self.loss_scale for gradient in gradients]
        clip = self._hparams.clip_norm
        if clip or self._scales_loss:
            norm = tf.linalg.global_norm(gradients)
        else:
            norm = tf.cond(measure, lambda: tf.linalg.global_norm(gradients), lambda: 0.0)
        if clip:
            gradients = [gradient * tf.minimum(1.0, clip / norm) for gradient in gradients]
        # Nothing is changed before all gradients are there: the memory for one may be missing.
        with tf.control_dependencies(gradients):
            norm = tf.identity(norm)
            if self._scales_loss:
                tf.cond(
                    tf.math.is_finite(norm),
                    lambda: self._replica_adam(gradients),
                    lambda: None,
                )
            else:
                self._replica_adam(gradients)
        return norm

    def _replica_gradient_sum(self, gradients):
        exchanged = [tf.cast(each, self._hparams.reduction_dtype) for each in gradients]
        context = tf.distribute.get_replica_context()
        total = context.all_reduce(tf.distribute.ReduceOp.SUM, exchanged)
        return [tf.cast(each, tf.float32) for each in total]

    def _replica_adam(self, gradients) -> None:
        # Every replica has the same sum and updates its own copy: no further exchange.
        learning_rate = self.schedule(self.optimizer.iterations.value)
        self.optimizer.update_weights(gradients, self._weights, learning_rate)

    def _finish(self, norm):
        """Counts the step and adapts the loss scale, once for all replicas."""
        norm = self._first(norm)
        with tf.control_dependencies([norm]):
            self.optimizer.iterations.assign_add(1)
        if self._scales_loss:
            scale, good = adapted_loss_scale(
                self.loss_scale.read_value(), self.good_steps.read_value(), tf.math.is_finite(norm)
            )
            self.loss_scale.assign(scale)
            self.good_steps.assign(good)
        return norm

    def _first(self, values):
        """One replica's copy of what is the same on all."""
        return tf.nest.map_structure(
            lambda value: self._strategy.experimental_local_results(value)[0], values
        )


def _replicas_here(strategy: tf.distribute.Strategy) -> range:
    """Returns the numbers of this worker's replicas among those of all workers."""
    numbers = strategy.experimental_local_results(
        strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(context.replica_id_in_sync_group)
        )
    )
    return range(int(numbers[0]), int(numbers[0]) + len(numbers))
