"""Loss, schedules and optimizers (sections 5.3 and 5.4), on TensorFlow and JAX."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops
from keras.optimizers import Optimizer
from keras.optimizers.schedules import LearningRateSchedule

from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.registry import LOSSES, OPTIMIZERS, SCHEDULES
from t2t_keras.special_ids import PADDING_ID


def smoothed_cross_entropy(logits, targets, label_smoothing=0.0, compiled=False):
    """Cross-entropy against q = (1 - epsilon) · one-hot + epsilon / V over the whole vocabulary.

    Section 5.4, with the smoothing of the paper that it cites (Szegedy et al., 2015). For
    Z = log Σ exp(logits), the loss is Z - (1 - epsilon) · logit of the target - epsilon · mean
    logit, and its gradient is softmax(logits) - q. Neither needs a one-hot of the vocabulary.

    Args:
      logits: float32 [..., V].
      targets: integers [...].
      label_smoothing: epsilon.
      compiled: whether XLA fuses operations. Then it is faster to recompute the probabilities for
        the gradient than to store them, and to compare all ids than to scatter into one.

    Returns:
      Three float32 [...], per token: the smoothed cross-entropy in nats; and, without gradients,
      the unsmoothed one (-log p of the target) and whether the target's logit is the largest (1.0
      or 0.0).
    """
    shape, vocab_size = ops.shape(targets), logits.shape[-1]
    ids = ops.reshape(targets, (-1,))
    positions = ops.stack([ops.arange(ops.shape(ids)[0], dtype=ids.dtype), ids], axis=-1)

    @ops.custom_gradient
    def compute_losses(logits):
        max_logits = ops.max(logits, axis=-1)
        if compiled:
            normalizer = ops.logsumexp(logits, axis=-1)
        else:
            stored_probabilities = ops.softmax(logits, axis=-1)
            # The largest probability is never 0; the target's may be.
            normalizer = max_logits - ops.log(ops.max(stored_probabilities, axis=-1))
        target_logits = ops.take_along_axis(logits, ids[:, None], axis=-1)[:, 0]
        unsmoothed = normalizer - target_logits
        uniform = normalizer - ops.mean(logits, axis=-1)
        smoothed = (1 - label_smoothing) * unsmoothed + label_smoothing * uniform
        correct = ops.cast(target_logits >= max_logits, "float32")

        def gradient(*upstream):
            # TensorFlow passes one argument for each output, JAX a tuple.
            upstream_loss = keras.tree.flatten(upstream)[0]
            smoothing = label_smoothing / vocab_size
            if compiled:
                probabilities = ops.exp(logits - normalizer[:, None])
                is_target = ops.equal(ops.arange(vocab_size), ids[:, None])
                goal = ops.where(is_target, 1 - label_smoothing + smoothing, smoothing)
                return (probabilities - goal) * upstream_loss[:, None]
            gradients = (stored_probabilities - smoothing) * upstream_loss[:, None]
            excess = ops.exp(-unsmoothed) - smoothing - (1 - label_smoothing)
            return ops.scatter_update(gradients, positions, excess * upstream_loss)

        return (smoothed, unsmoothed, correct), gradient

    per_token = compute_losses(ops.reshape(logits, (-1, vocab_size)))
    return tuple(ops.reshape(values, shape) for values in per_token)


@LOSSES.add
def cross_entropy(logits, targets, hparams):
    """Cross-entropy with label smoothing (section 5.4)."""
    return smoothed_cross_entropy(logits, targets, hparams.label_smoothing)[0]


def token_sums(logits, targets, label_smoothing=0.0, loss=None, compiled=False):
    """Returns sums over the target tokens that are not padding.

    Args:
      logits: float32 [..., V].
      targets: integers [...]; 0 is padding.
      label_smoothing: epsilon.
      loss: a function of logits and targets that returns another loss for each token; None = the
        smoothed cross-entropy.
      compiled: see `smoothed_cross_entropy`.

    Returns:
      {"loss": the loss, "negative_log_likelihood": unsmoothed cross-entropy, "correct": correctly
      predicted tokens, "tokens": all tokens}, float32 scalars.
    """
    is_token = ops.cast(ops.not_equal(targets, PADDING_ID), "float32")
    smoothed, unsmoothed, correct = smoothed_cross_entropy(
        logits, targets, label_smoothing, compiled
    )
    return {
        "loss": ops.sum((loss(logits, targets) if loss else smoothed) * is_token),
        "negative_log_likelihood": ops.sum(unsmoothed * is_token),
        "correct": ops.sum(correct * is_token),
        "tokens": ops.sum(is_token),
    }


@keras.saving.register_keras_serializable(package="t2t_keras")
class SmoothedCrossEntropy(keras.losses.Loss):
    """The loss of a training step for `compile`: `smoothed_cross_entropy` without padding.

    With several replicas, Keras's `fit` averages the replicas' means, so tokens weigh more in a
    replica with few tokens. In `t2t_keras.train` all tokens of a step have the same weight.

    Args:
      label_smoothing: epsilon.
      reduction: as in every Keras loss; by default the mean over the tokens that are not padding.
      **kwargs: arguments of every Keras loss.

    Call arguments:
      y_true: integers [batch, length]; 0 is padding.
      y_pred: float32 logits [batch, length, V].
      sample_weight: a weight for each token, [batch, length], for each sentence, [batch], or one
        number for all.

    Example:
      >>> model.compile(optimizer="adam", loss=SmoothedCrossEntropy(0.1))
      >>> model.fit({"source": source, "target": target}, target)
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        reduction: str | None = "mean_with_sample_weight",
        **kwargs: Any,
    ):
        super().__init__(reduction=reduction, **kwargs)
        if not 0 <= label_smoothing < 1:
            raise UserError(
                f"SmoothedCrossEntropy: expected a label_smoothing from 0 to below 1, got "
                f"{label_smoothing}.",
                code="bad_value",
            )
        self.label_smoothing = label_smoothing

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Returns the loss, a float32 scalar; per token, [batch, length], without a reduction."""
        y_true = _without_last_axis(ops.convert_to_tensor(y_true), y_pred)
        weight = ops.cast(ops.not_equal(y_true, PADDING_ID), "float32")
        if sample_weight is not None:
            sample_weight = ops.cast(ops.convert_to_tensor(sample_weight), "float32")
            sample_weight = _without_last_axis(sample_weight, y_pred)
            is_per_sentence = len(sample_weight.shape) == 1
            weight *= sample_weight[:, None] if is_per_sentence else sample_weight
        return super().__call__(y_true, y_pred, weight)

    def call(self, y_true, y_pred):
        """Returns the smoothed cross-entropy of each token, including padding."""
        # Keras has converted the ids to floats.
        return smoothed_cross_entropy(y_pred, ops.cast(y_true, "int32"), self.label_smoothing)[0]

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def _without_last_axis(x, logits):
    """Returns [batch, length, 1] as [batch, length]: Keras's losses accept both."""
    if len(x.shape) < len(logits.shape):
        return x
    if x.shape[-1] == 1:
        return x[..., 0]
    raise UserError(
        f"SmoothedCrossEntropy: expected targets (ids, not one-hot) and weights with one axis "
        f"fewer than the logits, got the shapes {tuple(x.shape)} and {tuple(logits.shape)}.",
        code="bad_shape",
    )


@keras.saving.register_keras_serializable(package="t2t_keras")
class TransformerSchedule(LearningRateSchedule):
    """lrate = d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5) (section 5.3, equation 3).

    Args:
      d_model: width of the model.
      warmup_steps: steps of linear increase.
      multiplier: factor on the whole (1.0 in the paper).

    Call arguments:
      step: steps done so far, from 0; the formula counts from 1.
    """

    def __init__(self, d_model: int, warmup_steps: int = 4000, multiplier: float = 1.0):
        super().__init__()
        if min(d_model, warmup_steps) < 1:
            raise UserError(
                f"TransformerSchedule: expected d_model >= 1 and warmup_steps >= 1, got {d_model} "
                f"and {warmup_steps}.",
                code="bad_size",
            )
        self.d_model, self.warmup_steps, self.multiplier = d_model, warmup_steps, multiplier

    def __call__(self, step):
        """Returns the learning rate, a float32 scalar."""
        step = ops.cast(step, "float32") + 1.0
        rate = ops.minimum(step**-0.5, step * self.warmup_steps**-1.5)
        return self.multiplier * self.d_model**-0.5 * rate

    def get_config(self):
        """Returns the constructor's arguments."""
        return {name: getattr(self, name) for name in ("d_model", "warmup_steps", "multiplier")}


@keras.saving.register_keras_serializable(package="t2t_keras")
class Adam(keras.optimizers.Adam):
    """Adam as Algorithm 1 of Kingma and Ba (2015) defines it.

    Keras adds epsilon to sqrt(v) before it corrects the bias of v, the definition afterwards.
    """

    def update_step(self, gradient, variable, learning_rate):
        """Updates one weight and its moments."""
        if hasattr(gradient, "dense_shape"):
            # TensorFlow's gradient of a lookup lists rows, maybe the same row twice.
            gradient = ops.add(gradient, ops.zeros_like(variable))
        index = self._get_variable_index(variable)
        momentum, velocity = self._momentums[index], self._velocities[index]
        # In half precision epsilon would be 0.
        is_half = variable.dtype in ("float16", "bfloat16")
        dtype = "float32" if is_half else variable.dtype
        gradient = ops.cast(gradient, variable.dtype)
        momentum.assign(self.beta_1 * momentum + (1 - self.beta_1) * gradient)
        velocity.assign(self.beta_2 * velocity + (1 - self.beta_2) * ops.square(gradient))
        if self.amsgrad:
            max_velocity = self._velocity_hats[index]
            max_velocity.assign(ops.maximum(max_velocity, velocity))
            velocity = max_velocity
        rate_and_epsilon = self.corrected(ops.cast(learning_rate, "float32"))
        rate, epsilon = (ops.cast(number, dtype) for number in rate_and_epsilon)
        mean, square = ops.cast(momentum, dtype), ops.cast(velocity, dtype)
        update = rate * mean / (ops.sqrt(square) + epsilon)
        variable.assign(variable - ops.cast(update, variable.dtype))

    def corrected(self, learning_rate):
        """Returns the learning rate and epsilon that correct the biases of both moments."""
        step = ops.cast(self.iterations, "float32") + 1.0
        correction = ops.sqrt(1 - self.beta_2**step)
        return learning_rate * correction / (1 - self.beta_1**step), self.epsilon * correction


@SCHEDULES.add
def transformer(hparams: HParams) -> TransformerSchedule:
    """Linear warm-up, then the inverse square root of the step (section 5.3, equation 3)."""
    return TransformerSchedule(hparams.d_model, hparams.warmup_steps, hparams.learning_rate)


@SCHEDULES.add
def inverse_square_root(hparams: HParams) -> TransformerSchedule:
    """Linear warm-up to `learning_rate`, then the inverse square root of the step."""
    warm_up = hparams.warmup_steps
    return TransformerSchedule(1, warm_up, hparams.learning_rate * warm_up**0.5)


@SCHEDULES.add
def cosine(hparams: HParams) -> LearningRateSchedule:
    """Linear warm-up to `learning_rate`, then half a cosine down to 0 at the last step."""
    return keras.optimizers.schedules.CosineDecay(
        0.0,
        max(hparams.train_steps - hparams.warmup_steps, 1),
        warmup_target=hparams.learning_rate,
        warmup_steps=hparams.warmup_steps,
    )


@OPTIMIZERS.add
def adam(hparams: HParams, schedule: LearningRateSchedule) -> Adam:
    """Adam (section 5.3)."""
    return Adam(schedule, hparams.adam_beta1, hparams.adam_beta2, hparams.adam_epsilon)


@OPTIMIZERS.add
def adamw(hparams: HParams, schedule: LearningRateSchedule) -> Optimizer:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019), by Keras's class."""
    betas = dict(beta_1=hparams.adam_beta1, beta_2=hparams.adam_beta2)
    epsilon = hparams.adam_epsilon
    return _with_decay(keras.optimizers.AdamW, hparams, schedule, **betas, epsilon=epsilon)


@OPTIMIZERS.add
def lion(hparams: HParams, schedule: LearningRateSchedule) -> Optimizer:
    """Lion (Chen et al., 2023), by Keras's class; a tenth of Adam's learning rate suits it."""
    betas = dict(beta_1=hparams.adam_beta1, beta_2=hparams.adam_beta2)
    return _with_decay(keras.optimizers.Lion, hparams, schedule, **betas)


@OPTIMIZERS.add
def adafactor(hparams: HParams, schedule: LearningRateSchedule) -> Optimizer:
    """Adafactor (Shazeer and Stern, 2018): second moments factored by row and column.

    Keras's class also stores the full moments, which are as large as the weights.
    """
    return _with_decay(keras.optimizers.Adafactor, hparams, schedule, relative_step=False)


def _with_decay(optimizer_class, hparams, schedule, **options):
    optimizer = optimizer_class(schedule, weight_decay=hparams.weight_decay, **options)
    optimizer.exclude_from_weight_decay(var_names=["bias", "beta", "gamma"])
    return optimizer


def make_schedule(hparams: HParams) -> LearningRateSchedule:
    """Returns the learning rate that `HParams` describe, a function of the steps done so far."""
    return SCHEDULES[hparams.schedule](hparams)


def make_optimizer(hparams: HParams, weights: Sequence[keras.Variable]) -> Optimizer:
    """Returns the optimizer that `HParams` describe, with moments for these weights."""
    optimizer = OPTIMIZERS[hparams.optimizer](hparams, make_schedule(hparams))
    optimizer.use_ema, optimizer.ema_momentum = hparams.ema_decay > 0, hparams.ema_decay
    optimizer.build(weights)
    return optimizer


def weights_and_averages(optimizer: Optimizer) -> list[tuple[keras.Variable, keras.Variable]]:
    """Returns pairs of a trained weight and its moving average; [] = there are no averages."""
    if not optimizer.use_ema:
        return []
    averages = optimizer._model_variables_moving_average
    return list(zip(optimizer._trainable_variables, averages, strict=True))


def exchange_averages(optimizer: Optimizer) -> None:
    """Swaps the weights and their moving averages."""
    for weight, average in weights_and_averages(optimizer):
        value = ops.copy(weight)
        weight.assign(average)
        average.assign(value)


def clip_gradients(gradients, norm, clip_norm):
    """Scales gradients whose global norm exceeds `clip_norm` down to it; 0 = no clipping."""
    if not clip_norm:
        return gradients
    return [gradient * ops.minimum(1.0, clip_norm / norm) for gradient in gradients]


INITIAL_LOSS_SCALE = 2.0**15
# The scale is doubled after this number of good steps in a row, halved after an overflow.
_STEPS_TO_DOUBLE = 2000


def adapt_loss_scale(scale, good_steps, finite):
    """Returns the next loss scale (float32) and number of steps since it changed (int32)."""
    good_steps = ops.where(finite, good_steps + 1, 0)
    grown_scale = ops.where(good_steps >= _STEPS_TO_DOUBLE, scale * 2.0, scale)
    scale = ops.where(finite, grown_scale, ops.maximum(scale / 2.0, 1.0))
    return scale, good_steps % _STEPS_TO_DOUBLE


def dropout_seeds(seed: int, step: int, part: int, generators: int) -> np.ndarray:
    """Returns the states of a model's seed generators, int64 [generators, 2] as Keras keeps them.

    Masks differ between steps, parts (each microbatch of each replica is one) and layers, and need
    no state in a checkpoint.
    """
    sequence = np.random.SeedSequence([seed, step, part])
    return sequence.generate_state(2 * generators).astype(np.int64).reshape(generators, 2)
