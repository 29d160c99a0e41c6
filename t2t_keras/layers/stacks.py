"""Layers of the encoder and of the decoder, and what is around their sub-layers (3.1, 5.4)."""

from typing import Any

import keras
from keras import ops

from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import LayerConfig, config_arguments, take_config
from t2t_keras.layers.attention import (
    MultiHeadAttention,
    RestrictedSelfAttention,
)
from t2t_keras.layers.base import AS_IS, Dropout, ShapePreservingLayer, build, seed_states
from t2t_keras.registry import FEED_FORWARDS


@keras.saving.register_keras_serializable(package="t2t_keras")
class Residual(ShapePreservingLayer):
    """LayerNorm(x + Dropout(Sublayer(x))) (section 3.1; dropout: section 5.4).

    With `pre_norm`, tensor2tensor's later x + Dropout(Sublayer(LayerNorm(x))) instead. Either is
    x = residual(x, sublayer(residual.sublayer_input(x))), which `around` computes.

    Args:
      dropout: share of the sub-layer's output dropped.
      pre_norm: whether the sub-layer's input is normalised instead of the sum.
      epsilon: that of the layer normalisation.

    Call arguments:
      x: [..., d_model], the sum that the sub-layer adds to.
      sublayer_output: [..., d_model].
      training: whether dropout acts.

    Returns:
      [..., d_model].
    """

    def __init__(
        self, dropout: float = 0.0, pre_norm: bool = False, epsilon: float = 1e-6, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.pre_norm = pre_norm
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.norm = LayerNormalization(epsilon=epsilon, dtype=self.dtype_policy, name="norm")

    def build(self, x_shape, sublayer_output_shape=None):
        """Makes the scale and the offset of the layer normalisation."""
        self.norm.build(x_shape)

    def sublayer_input(self, x):
        """Returns what the sub-layer reads: x, or LayerNorm(x) with `pre_norm`."""
        return self.norm(x) if self.pre_norm else x

    def around(self, sublayer, x, training=None):
        """Returns the sum after a sub-layer, given as a layer or a function with its arguments."""
        output = sublayer(self.sublayer_input(x), training=training)
        return self(x, output, training=training)

    def call(self, x, sublayer_output, training=None):
        """See the class."""
        x = x + self.dropout(sublayer_output, training=training)
        return x if self.pre_norm else self.norm(x)


@keras.saving.register_keras_serializable(package="t2t_keras")
class LayerNormalization(keras.layers.LayerNormalization):
    """gamma · (x - mean) / sqrt(variance + epsilon) + beta, over the last axis, in float32.

    It has the weights and the values of Keras's layer, but a gradient of few operations: the one
    derived from that layer's many small ones reads and writes x half as often again.

    Call arguments:
      x: [..., d_model].
      training: whether a gradient will be asked for; without, it is the one derived.

    Returns:
      [..., d_model].
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        fixed = {"center": True, "scale": True, "rms_scaling": False}
        changed = [name for name, value in fixed.items() if getattr(self, name, value) != value]
        if self.axis not in (-1, [-1]):
            changed.append("axis")
        if changed:
            raise UserError(
                f"LayerNormalization always has a scale and an offset over the last axis: expected "
                f"the defaults of {' and '.join(changed)}. Use Keras's layer instead.",
                code="no_such_argument",
            )

    def call(self, x, training=None):
        """See the class."""

        def standardized(x):
            centred = x - _mean(x)
            scale = ops.rsqrt(_mean(ops.square(centred)) + self.epsilon)
            y = centred * scale

            def gradient(upstream):
                return (upstream - _mean(upstream) - y * _mean(upstream * y)) * scale

            return y, gradient

        # TensorFlow never frees graphs with custom gradients, so skip it at inference.
        own = ops.custom_gradient(standardized) if training else lambda x: standardized(x)[0]
        gamma, beta = (ops.cast(each, "float32") for each in (self.gamma, self.beta))
        normalized = own(ops.cast(x, "float32")) * gamma + beta
        return ops.cast(normalized, self.compute_dtype)


def _mean(x):
    return ops.mean(x, axis=-1, keepdims=True)


class _TransformerLayer(ShapePreservingLayer):
    """What layers of the encoder and of the decoder share: a `LayerConfig` and its sub-layers."""

    def __init__(self, config: LayerConfig | None = None, **kwargs: Any):
        config = take_config(LayerConfig, config, kwargs)
        super().__init__(**kwargs)
        self.config = config

    @property
    def layers(self):
        """The sub-layers and residuals, which `summary(expand_nested=True)` shows."""
        return self._flatten_layers(include_self=False, recursive=False)

    def _make_sublayers(self, x_shape, memory_shape=None):
        """Makes the sub-layers: of a decoder layer, if the shape of a memory is given."""
        config, dtype, cross = self.config, self.dtype_policy, memory_shape is not None
        widths = config.head_widths(x_shape[-1])
        options = dict(dropout=config.attention_dropout, bias=config.attention_bias, dtype=dtype)
        own = options | dict(rotary=config.positions == "rotary", name="self_attention")
        sizes, radius = (config.num_heads, *widths), config.self_attention_radius
        if radius:
            self.self_attention = RestrictedSelfAttention(radius, *sizes, **own)
        else:
            self.self_attention = MultiHeadAttention(*sizes, **own)
        if cross:
            name = "memory_attention"
            self.memory_attention = MultiHeadAttention(*sizes, **options, name=name)
        make_feed_forward = FEED_FORWARDS[config.feed_forward]
        self.feed_forward = make_feed_forward(config, x_shape[-1], dtype=dtype, name="feed_forward")
        for number in range(1, 4 if cross else 3):
            name = f"residual_{number}"
            settings = config.dropout, config.pre_norm, config.norm_epsilon
            setattr(self, name, Residual(*settings, dtype=dtype, name=name))
        # In this order: it decides which initial weights come from a seed.
        self.self_attention.build(x_shape)
        if cross:
            self.memory_attention.build(x_shape, memory_shape)
            self.residual_3.build(x_shape)
        build(self.feed_forward, x_shape)
        self.residual_1.build(x_shape)
        self.residual_2.build(x_shape)

    # Symbols pass through the call itself, which may return attention weights as well.
    compute_output_spec = keras.Operation.compute_output_spec

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), **config_arguments(self.config)}


@keras.saving.register_keras_serializable(package="t2t_keras")
class EncoderLayer(_TransformerLayer):
    """Self-attention, then feed-forward, each in a residual with layer normalisation.

    Section 3.1.

    Args:
      config: a `LayerConfig`, or what extends it; None = the paper's base model.
      **kwargs: fields of it that differ, and what every Keras layer takes.

    Call arguments:
      x: [batch, length, d_model].
      mask: boolean [batch, length], True = a token (default: the Keras mask of x). Hidden
        values must be finite.
      layout: the `Layout` of x; in a `RaggedLayout`, `mask` must be given.
      return_attention_scores: whether the attention weights are returned as well.
      training: whether dropout acts.

    Returns:
      [batch, length, d_model], in the layout of x; and the weights [batch, heads, length, length],
      if they are asked for.

    Example:
      >>> x = keras.random.normal((2, 5, 512))
      >>> EncoderLayer(num_heads=8, d_ff=2048, dropout=0.1)(x).shape
      (2, 5, 512)
    """

    def build(self, x_shape):
        """Makes the two sub-layers."""
        self._make_sublayers(x_shape)

    def call(self, x, mask=None, layout=AS_IS, return_attention_scores=False, training=None):
        """See the class."""
        attended, *weights = keras.tree.flatten(
            self.self_attention(
                self.residual_1.sublayer_input(x),
                mask=mask,
                layout=layout,
                return_attention_scores=return_attention_scores,
                training=training,
            )
        )
        x = self.residual_1(x, attended, training=training)
        x = self.residual_2.around(self.feed_forward, x, training=training)
        return (x, *weights) if weights else x


@keras.saving.register_keras_serializable(package="t2t_keras")
class DecoderLayer(_TransformerLayer):
    """Causal self-attention, attention to the encoder's output, then feed-forward.

    Section 3.1; each sub-layer in a residual with layer normalisation.

    Args:
      config: a `LayerConfig`, or what extends it; None = the paper's base model.
      **kwargs: fields of it that differ, and what every Keras layer takes.

    Call arguments:
      x: [batch, target length, d_model].
      memory: the encoder's output [batch, source length, d_model].
      memory_mask: boolean [batch, source length], True = a token (default: memory's Keras mask).
        Hidden values must be finite.
      layout: the `Layout` of x.
      memory_layout: that of `memory`; in a `RaggedLayout`, `memory_mask` must be given.
      return_attention_scores: whether the attention weights are returned as well.
      training: whether dropout acts.

    Returns:
      [batch, target length, d_model], in the layout of x; and, if they are asked for, the weights
      of self-attention [batch, heads, target length, target length], and those of the attention to
      memory [batch, heads, target length, source length].
    """

    # Keras hands each layer the shapes of its own arguments, by their names.
    def build(self, x_shape, memory_shape):  # type: ignore[override]
        """Makes the three sub-layers."""
        self._make_sublayers(x_shape, memory_shape)

    def call(
        self,
        x,
        memory,
        memory_mask=None,
        layout=AS_IS,
        memory_layout=AS_IS,
        return_attention_scores=False,
        training=None,
    ):
        """See the class."""
        scores = return_attention_scores
        options = dict(layout=layout, return_attention_scores=scores, training=training)
        read = self.residual_1.sublayer_input(x)
        attended, *weights = keras.tree.flatten(self.self_attention(read, causal=True, **options))
        x = self.residual_1(x, attended, training=training)
        read = self.residual_2.sublayer_input(x)
        part = self.memory_attention.keys_and_values(memory, memory_layout)
        visible = self.memory_attention.visible(part, memory_mask)
        attended, *cross_weights = keras.tree.flatten(
            self.memory_attention.attend(read, [part], visible, **options)
        )
        x = self.residual_2(x, attended, training=training)
        x = self.residual_3.around(self.feed_forward, x, training=training)
        return (x, *weights, *cross_weights) if scores else x

    def step(
        self,
        x,
        index,
        past,
        recent,
        write_mask,
        valid_slots,
        memory,
        memory_mask,
        layout,
    ):
        """Computes the next position of some hypotheses of each sentence.

        The keys and values of the positions before stand in slots, one for each hypothesis and
        position, in no order: `valid_slots` tells which of them belong to a hypothesis.

        Args:
          x: [batch · hypotheses, d_model].
          index: position in the output, an integer or an int32 scalar.
          past: {"key", "value"} of earlier positions, each [batch, heads, slots, width]; read only.
          recent: the same of the positions since, with slots for more.
          write_mask: boolean [slots of recent, 1], True for the slots of the new position, which
            are consecutive, in the order of the hypotheses, from a multiple of their number on.
          valid_slots: boolean [batch, 1, hypotheses, slots of past + slots of recent], True for
            the slots of a hypothesis's own positions, the new one included.
          memory: {"key", "value"} of the encoder's output.
          memory_mask: boolean [batch, 1, 1, source length].
          layout: the `DenseLayout` of x.

        Returns:
          [batch · hypotheses, d_model], `recent` with the new position, and the weights of the
          attention to memory, [batch, heads, hypotheses, source length].
        """
        read = self.residual_1.sublayer_input(x)
        new = self.self_attention.keys_and_values(read, position=index, layout=layout)
        recent = {name: _write(recent[name], write_mask, new[name]) for name in recent}
        parts = [past, recent]
        attended = self.self_attention.attend(read, parts, valid_slots, index, layout=layout)
        x = self.residual_1(x, attended)
        read = self.residual_2.sublayer_input(x)
        attended, weights = self.memory_attention.attend(
            read, [memory], memory_mask, return_attention_scores=True, layout=layout
        )
        x = self.residual_2(x, attended)
        return self.residual_3.around(self.feed_forward, x), recent, weights


def _write(slots, write_mask, new):
    """Returns slots with new [batch, heads, n, width] written where `write_mask` is True.

    `ops.slice_update` would be XLA's operator, which TensorFlow compiles even without XLA.
    """
    if new.shape[2] != 1:
        new = ops.tile(new, (1, 1, slots.shape[2] // new.shape[2], 1))
    return ops.where(write_mask, new, slots)


def call_with_remat(layer, *inputs, **options):
    """Calls a layer so that the backward pass computes it again, with the same dropout masks.

    Between the passes only its inputs are kept. Values and masks, on every device, are those of
    `layer(*inputs, **options)`.

    Args:
      layer: a built layer. Beside its weights it has seed generators, and draws from each once a
        call.
      *inputs: float tensors that gradients flow through.
      **options: its other arguments.

    Returns:
      The layer's output.
    """
    states, others = seed_states(layer), layer.non_trainable_variables
    # Tensors, not variables: in the backward pass the generators have moved on, and to a variable
    # that is an argument no gradient flows outside of a graph.
    seeds = [ops.copy(state) for state in states]
    weights = [ops.copy(weight) for weight in layer.trainable_variables]

    given = dict(zip(map(id, states), seeds, strict=True))
    others = [given.get(id(each), ops.convert_to_tensor(each)) for each in others]

    @keras.remat
    def call(*tensors):
        outputs, _ = layer.stateless_call(
            list(tensors[: len(weights)]), others, *tensors[len(weights) :], **options
        )
        return outputs

    outputs = call(*_gradients_together(*weights, *inputs))
    for state, seed in zip(states, seeds, strict=True):
        # As `SeedGenerator.next` does.
        state.assign(seed + ops.convert_to_tensor([0, 1], dtype=seed.dtype))
    return outputs


@ops.custom_gradient
def _gradients_together(*tensors):
    """Returns the tensors as they are; their gradients go on when all of them are computed.

    Left to itself, TensorFlow may go on to the layer before and put off the gradients of the
    weights, which keeps the activations of one layer after the other.
    """

    def together(*gradients):
        # JAX passes one tuple, TensorFlow one argument each.
        gradients = keras.tree.flatten(gradients)
        # 0, or NaN where a gradient is, so that no optimizer of graphs can leave it out.
        firsts = [ops.cast(ops.reshape(each, (-1,))[:1], "float32") for each in gradients]
        zero = ops.sum(ops.minimum(ops.abs(ops.concatenate(firsts)), 0.0))
        return tuple(each + ops.cast(zero, each.dtype) for each in gradients)

    return tensors, together
