"""Layers of the encoder and the decoder, and residuals around their sub-layers (3.1, 5.4)."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops
from keras.src.backend import get_keras_mask  # on JAX, masks are not attributes of tensors

from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import LayerConfig, config_arguments, take_config
from t2t_keras.layers.attention import MultiHeadAttention, RestrictedSelfAttention
from t2t_keras.layers.base import (
    AS_IS,
    Dropout,
    PaperLayer,
    build,
    check_sizes,
    pop_alias,
    seed_states,
)
from t2t_keras.registry import FEED_FORWARDS


@keras.saving.register_keras_serializable(package="t2t_keras")
class Residual(PaperLayer):
    """LayerNorm(x + Dropout(Sublayer(x))) (section 3.1; dropout: section 5.4).

    With `pre_norm`, tensor2tensor's later x + Dropout(Sublayer(LayerNorm(x))) instead. Both are
    x = residual(x, sublayer(residual(x))), which `apply` computes.

    Args:
      dropout: share of the sub-layer's output dropped.
      pre_norm: whether the sub-layer's input is normalised instead of the sum.
      epsilon: added to the variance in the layer normalisation.
      seed: seed of the dropout.

    Call arguments:
      x: [..., d_model], the sum that the sub-layer adds to.
      sublayer_output: [..., d_model]; None = the call returns the sub-layer's input.
      training: whether dropout acts.

    Returns:
      [..., d_model].

    Example:
      >>> x = keras.random.normal((2, 5, 64))
      >>> tuple(Residual(dropout=0.1, pre_norm=True).apply(FeedForward(256), x).shape)
      (2, 5, 64)
    """

    def __init__(
        self,
        dropout: float = 0.0,
        pre_norm: bool = False,
        epsilon: float = 1e-6,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.pre_norm = pre_norm
        self.epsilon = epsilon
        self.seed = seed
        self.dropout = Dropout(dropout, seed=seed, dtype=self.dtype_policy)
        self.norm = LayerNormalization(epsilon=epsilon, dtype=self.dtype_policy, name="norm")

    def build(self, x_shape, sublayer_output_shape=None):
        """Makes the scale and the offset of the layer normalisation."""
        self.norm.build(x_shape)

    def sublayer_input(self, x):
        """Returns the sub-layer's input: x, or LayerNorm(x) with `pre_norm`."""
        if isinstance(x, keras.KerasTensor):
            return self(x)  # Keras could not load a model in which the norm alone is called.
        if not self.built:
            self.build(x.shape)
        return self.norm(x) if self.pre_norm else x

    def apply(self, sublayer, x, training=None):
        """Runs `sublayer`, a layer or a function called like one; returns the sum after it."""
        output = sublayer(self.sublayer_input(x), training=training)
        return self(x, output, training=training)

    def call(self, x, sublayer_output=None, training=None):
        """See the class."""
        if sublayer_output is None:
            return self.sublayer_input(x)
        x = x + self.dropout(sublayer_output, training=training)
        return x if self.pre_norm else self.norm(x)

    def get_config(self):
        """Returns the constructor's arguments."""
        config = {name: getattr(self, name) for name in ("pre_norm", "epsilon", "seed")}
        return {**super().get_config(), "dropout": self.dropout.rate, **config}


@keras.saving.register_keras_serializable(package="t2t_keras")
class LayerNormalization(keras.layers.LayerNormalization):
    """gamma · (x - mean) / sqrt(variance + epsilon) + beta, over the last axis, in float32.

    It has the arguments, weights and values of Keras's layer. If axis, center, scale and
    rms_scaling have their defaults, its gradient is fused, and moves a third less memory than the
    gradient that the backend would derive.

    Raises:
      UserError: a negative epsilon.

    Call arguments:
      x: [..., d_model].
      training: whether to use the fused gradient; otherwise the backend derives it.

    Returns:
      [..., d_model].
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        check_sizes(self, epsilon=0.0)

    def call(self, x, training=None):
        """See the class."""
        is_last_axis = self.axis in (-1, [-1], [len(x.shape) - 1])
        is_default = is_last_axis and self.center and self.scale
        if not is_default or getattr(self, "rms_scaling", False) or self.compute_dtype == "float64":
            return super().call(x)

        mean = functools.partial(ops.mean, axis=-1, keepdims=True)

        def standardize(x):
            centred = x - mean(x)
            scale = ops.rsqrt(mean(ops.square(centred)) + self.epsilon)
            y = centred * scale

            def gradient(upstream):
                return (upstream - mean(upstream) - y * mean(upstream * y)) * scale

            return y, gradient

        # TensorFlow never frees graphs with custom gradients, so skip it at inference.
        apply = ops.custom_gradient(standardize) if training else lambda x: standardize(x)[0]
        gamma, beta = (ops.cast(weight, "float32") for weight in (self.gamma, self.beta))
        normalized = apply(ops.cast(x, "float32")) * gamma + beta
        return ops.cast(normalized, self.compute_dtype)


class _TransformerLayer(PaperLayer):
    """The common part of encoder and decoder layers: a `LayerConfig` and its sub-layers.

    Attributes:
      has_memory: whether the layer attends to an encoder's output; known when it is built.
    """

    _weights_with_options = ("kernel", "bias")
    has_memory = False

    def __init__(
        self,
        intermediate_dim: int | None = None,
        num_heads: int | None = None,
        dropout: float | None = None,
        activation: str | Callable[[Any], Any] | None = None,
        layer_norm_epsilon: float | None = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        normalize_first: bool | None = None,
        *,
        config: LayerConfig | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        # A config holds only names, so a function goes to the feed-forward network directly.
        self._activation = None
        if not isinstance(activation, str | None):
            self._activation, activation = keras.activations.get(activation), None
        keras_arguments = {
            "intermediate_dim": ("d_ff", intermediate_dim),
            "dropout": ("dropout", dropout),
            "num_heads": ("num_heads", num_heads),
            "activation": ("activation", activation),
            "layer_norm_epsilon": ("norm_epsilon", layer_norm_epsilon),
            "normalize_first": ("pre_norm", normalize_first),
            "key_dim": ("d_k", kwargs.pop("key_dim", None)),
            "value_dim": ("d_v", kwargs.pop("value_dim", None)),
            "kernel_initializer": ("kernel_initializer", kernel_initializer),
            "bias_initializer": ("bias_initializer", bias_initializer),
        }
        for name, (field, value) in keras_arguments.items():
            if value is not None:
                kwargs[field] = pop_alias(self, kwargs, field, name, value)
        config = take_config(LayerConfig, config, kwargs)
        super().__init__(**kwargs)
        self.config = config
        self.seed = seed

    @property
    def layers(self):
        """The sub-layers and residuals, which `summary(expand_nested=True)` shows."""
        return self._flatten_layers(include_self=False, recursive=False)

    def _make_sublayers(self, x_shape, memory_shape=None):
        """Makes the sub-layers, with attention to a memory if `memory_shape` is given."""
        config, d_model = self.config, x_shape[-1]
        self.has_memory = memory_shape is not None
        residuals = [f"residual_{number}" for number in ((1, 2, 3) if self.has_memory else (1, 2))]
        attentions = ["self_attention", *(["memory_attention"] if self.has_memory else [])]
        names = [*attentions, "feed_forward", *residuals]
        options: dict[str, Any] = {
            name: {"dtype": self.dtype_policy, "name": name} for name in names
        }
        if self.seed is not None:
            # Each dropout has its own seed: with the same one, two would drop the same units.
            seeds = np.random.SeedSequence(self.seed).generate_state(len(names)).tolist()
            for name, seed in zip(names, seeds, strict=True):
                options[name]["seed"] = seed
        for name in attentions:
            options[name] |= dict(dropout=config.attention_dropout, use_bias=config.attention_bias)
            options[name] |= self._weight_options
        options["self_attention"]["rotary"] = config.positions == "rotary"
        options["feed_forward"] |= self._weight_options
        if self._activation is not None:
            options["feed_forward"]["activation"] = self._activation
        sizes = config.num_heads, *config.head_widths(d_model)
        radius = config.self_attention_radius
        make = functools.partial(RestrictedSelfAttention, radius) if radius else MultiHeadAttention
        self.self_attention = make(*sizes, **options["self_attention"])
        if self.has_memory:
            self.memory_attention = MultiHeadAttention(*sizes, **options["memory_attention"])
        make_feed_forward = FEED_FORWARDS[config.feed_forward]
        self.feed_forward = make_feed_forward(config, d_model, **options["feed_forward"])
        for name in residuals:
            settings = config.dropout, config.pre_norm, config.norm_epsilon
            setattr(self, name, Residual(*settings, **options[name]))
        # Keep the order of these calls: a seed's initial weights depend on it.
        self.self_attention.build(x_shape)
        if self.has_memory:
            self.memory_attention.build(x_shape, memory_shape)
            self.residual_3.build(x_shape)
        build(self.feed_forward, x_shape)
        self.residual_1.build(x_shape)
        self.residual_2.build(x_shape)

    # Symbolic tensors pass through `call`, which may return attention weights too.
    compute_output_spec = keras.Operation.compute_output_spec

    def get_config(self):
        """Returns the constructor's arguments."""
        config = {**config_arguments(self.config), "seed": self.seed}
        if self._activation is not None:
            config["activation"] = keras.activations.serialize(self._activation)
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="t2t_keras")
class TransformerEncoder(_TransformerLayer):
    """A layer of the encoder: self-attention, then feed-forward, each in a residual (section 3.1).

    Called like KerasHub's layer of this name. Defaults are those of the paper's base model; the
    names of `LayerConfig` are accepted as well.

    Args:
      intermediate_dim: d_ff, the inner width of the feed-forward sub-layer.
      num_heads: h.
      dropout: P_drop, the dropped share of each sub-layer's output. Attention weights and inner
        units have their own rates, `attention_dropout` and `relu_dropout`, 0 in the paper.
      activation: the function of the feed-forward sub-layer's inner units, see `FeedForward`.
      layer_norm_epsilon: added to the variance in layer normalisation.
      kernel_initializer: for all projections; default: see `MultiHeadAttention`, `FeedForward`.
      bias_initializer: for the biases of the projections.
      normalize_first: whether the input of each sub-layer is normalised instead of the sum.
      config: a `LayerConfig` or a subclass, whose fields the other arguments replace.
      seed: seed of the dropouts; each has a seed of its own, drawn from this one.
      **kwargs: more fields of the config; `kernel_regularizer`, `bias_regularizer`,
        `kernel_constraint` and `bias_constraint` of all projections; and arguments of every
        Keras layer.

    Call arguments:
      inputs: [batch, length, d_model].
      padding_mask: boolean [batch, length], True = a token (default: the Keras mask of the inputs).
        Hidden values must be finite.
      attention_mask: see `MultiHeadAttention`.
      training: whether dropout acts.
      return_attention_scores: whether the attention weights are returned as well.
      layout: the `Layout` of the inputs; in a `RaggedLayout`, `padding_mask` must be given.

    Returns:
      [batch, length, d_model], in the layout of the inputs; and the weights [batch, heads, length,
      length], if requested.

    Example:
      >>> x = keras.random.normal((2, 5, 512))
      >>> tuple(TransformerEncoder(intermediate_dim=2048, num_heads=8, dropout=0.1)(x).shape)
      (2, 5, 512)
    """

    def build(self, inputs_shape):
        """Makes the two sub-layers."""
        self._make_sublayers(inputs_shape)

    def call(
        self,
        inputs,
        padding_mask=None,
        attention_mask=None,
        training=None,
        return_attention_scores=False,
        layout=AS_IS,
    ):
        """See the class."""
        padding_mask = get_keras_mask(inputs) if padding_mask is None else padding_mask
        attended, *weights = keras.tree.flatten(
            self.self_attention(
                self.residual_1.sublayer_input(inputs),
                query_mask=padding_mask if layout is AS_IS else None,
                value_mask=padding_mask,
                attention_mask=attention_mask,
                layout=layout,
                return_attention_scores=return_attention_scores,
                training=training,
            )
        )
        x = self.residual_1(inputs, attended, training=training)
        x = self.residual_2.apply(self.feed_forward, x, training=training)
        return (x, *weights) if weights else x


@keras.saving.register_keras_serializable(package="t2t_keras")
class TransformerDecoder(_TransformerLayer):
    """A layer of the decoder: causal self-attention, attention to a memory, then feed-forward.

    Section 3.1; each sub-layer is in a residual with layer normalisation. Called like KerasHub's
    layer of this name. Whether it attends to a memory is decided when it is built: without an
    `encoder_sequence` it is a layer of a language model.

    Args:
      intermediate_dim: this and the remaining arguments are those of `TransformerEncoder`.

    Call arguments:
      decoder_sequence: x, [batch, target length, d_model].
      encoder_sequence: memory, the encoder's output [batch, source length, d_model].
      decoder_padding_mask: boolean [batch, target length], True = a token (default: the Keras mask
        of `decoder_sequence`). Where padding is on the right, the causal mask hides it already.
      decoder_attention_mask: see `MultiHeadAttention`; combined (AND) with the causal mask.
      encoder_padding_mask: boolean [batch, source length], True = a token (default: the Keras mask
        of `encoder_sequence`). Hidden values must be finite.
      encoder_attention_mask: see `MultiHeadAttention`; for the attention to memory.
      self_attention_cache: keys and values of all positions, [batch, 2, length, heads, d_k]; the
        keys and values of `decoder_sequence` are written into it.
      self_attention_cache_update_index: position where writing starts, an integer or a scalar;
        None = positions from 0, and nothing is written. All positions must fit: an integer is
        checked; with a tensor, positions that do not fit replace the last ones.
      cross_attention_cache: keys and values of the memory, [batch, 2, source length, heads, d_k].
      cross_attention_cache_update_index: 0 = write the keys and values of `encoder_sequence` first;
        None = only read the cache, and ignore the values of `encoder_sequence`.
      use_causal_mask: whether position i sees only positions up to i.
      training: whether dropout acts.
      return_attention_scores: whether the attention weights are returned as well.
      layout: the `Layout` of `decoder_sequence`.
      memory_layout: the `Layout` of `encoder_sequence`; a `RaggedLayout` needs the padding mask.

    Returns:
      [batch, target length, d_model], in `layout`. With a cache, also the caches, in the order of
      the arguments. If requested, finally the weights of self-attention [batch, heads, target
      length, target length], and those of the attention to memory [batch, heads, target length,
      source length].
    """

    # Keras passes the shapes of a layer's arguments by name, so each class has its own `build`.
    def build(self, decoder_sequence_shape, encoder_sequence_shape=None):
        """Makes the sub-layers."""
        self._make_sublayers(decoder_sequence_shape, encoder_sequence_shape)

    def call(
        self,
        decoder_sequence,
        encoder_sequence=None,
        decoder_padding_mask=None,
        decoder_attention_mask=None,
        encoder_padding_mask=None,
        encoder_attention_mask=None,
        self_attention_cache=None,
        self_attention_cache_update_index=None,
        cross_attention_cache=None,
        cross_attention_cache_update_index=None,
        use_causal_mask=True,
        training=None,
        return_attention_scores=False,
        layout=AS_IS,
        memory_layout=AS_IS,
    ):
        """See the class."""
        if (encoder_sequence is not None) != self.has_memory:
            raise UserError(
                f"{type(self).__name__} was built with{'' if self.has_memory else 'out'} "
                f"encoder_sequence: pass it {'always' if self.has_memory else 'never'}, or create "
                f"another layer.",
                code="bad_value",
            )
        for name, cache, index in (
            ("self", self_attention_cache, self_attention_cache_update_index),
            ("cross", cross_attention_cache, cross_attention_cache_update_index),
        ):
            if cache is None and index is not None:
                raise UserError(
                    f"{type(self).__name__}: {name}_attention_cache_update_index={index} needs a "
                    f"{name}_attention_cache.",
                    code="bad_value",
                )
        options = dict(layout=layout, training=training)
        options |= dict(return_attention_scores=return_attention_scores)
        if decoder_padding_mask is None and self_attention_cache is None:
            decoder_padding_mask = get_keras_mask(decoder_sequence)
        masks = dict(value_mask=decoder_padding_mask, attention_mask=decoder_attention_mask)
        masks["use_causal_mask"] = use_causal_mask
        x = self.residual_1.sublayer_input(decoder_sequence)
        if self_attention_cache is None:
            query_mask = decoder_padding_mask if layout is AS_IS else None
            attended = self.self_attention(x, query_mask=query_mask, **masks, **options)
            caches = []
        else:
            index = self_attention_cache_update_index
            attended, *caches = self._attend_with_cache(
                x, self_attention_cache, index, **masks, **options
            )
        attended, *weights = keras.tree.flatten(attended)
        x = self.residual_1(decoder_sequence, attended, training=training)
        feed_forward_residual = self.residual_2
        if self.has_memory:
            attention = self.memory_attention
            if encoder_padding_mask is None:
                encoder_padding_mask = get_keras_mask(encoder_sequence)
            if cross_attention_cache is None:
                keys_values = attention.keys_and_values(encoder_sequence, memory_layout)
            else:
                index = cross_attention_cache_update_index
                new_keys_values = None
                if index is not None:
                    new_keys_values = attention.keys_and_values(encoder_sequence, memory_layout)
                keys_values, cache = _update_cache(cross_attention_cache, index, new_keys_values)
                caches.append(cache)
            visible = attention.visible(
                keys_values, value_mask=encoder_padding_mask, attention_mask=encoder_attention_mask
            )
            query = self.residual_2.sublayer_input(x)
            attended = attention.attend(query, keys_values, visible, **options)
            attended, *memory_weights = keras.tree.flatten(attended)
            weights += memory_weights
            x = self.residual_2(x, attended, training=training)
            feed_forward_residual = self.residual_3
        x = feed_forward_residual.apply(self.feed_forward, x, training=training)
        return (x, *caches, *weights) if caches or weights else x

    def _attend_with_cache(
        self, x, cache, index, value_mask, attention_mask, use_causal_mask, layout, **options
    ):
        """Returns x's attention to a cache, and the cache with x's keys and values at `index`."""
        if self.config.self_attention_radius:
            raise UserError(
                "Restricted attention cannot use a self_attention_cache: expected "
                "self_attention_radius=0. Call the layer without a cache.",
                code="conflicting_settings",
            )
        attention = self.self_attention
        start = 0 if index is None else ops.cast(index, "int32")
        positions = start + ops.arange(ops.shape(layout.unpack(x))[1])
        new_keys_values = attention.keys_and_values(x, layout, position=positions)
        keys_values, cache = _update_cache(cache, index, new_keys_values)
        masks = dict(value_mask=value_mask, attention_mask=attention_mask)
        masks["causal_positions"] = positions if use_causal_mask else None
        visible = attention.visible(keys_values, **masks)
        return attention.attend(x, keys_values, visible, positions, layout, **options), cache

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
        """Computes the next position of each sentence's hypotheses.

        The keys and values of earlier positions are in slots, one for each hypothesis and position,
        in any order: `valid_slots` selects the slots of each hypothesis.

        Args:
          x: [batch · hypotheses, d_model].
          index: position in the output, an integer or an int32 scalar.
          past: {"key", "value"} of earlier positions, each [batch, heads, slots, width]; read only.
          recent: the same for the positions after `past`, with free slots.
          write_mask: boolean [slots of recent, 1], True for the new position's slots: one for each
            hypothesis, consecutive and in order, from a multiple of the number of hypotheses on.
          valid_slots: boolean [batch, 1, hypotheses, slots of past + slots of recent], True for
            the slots of a hypothesis's own positions, the new one included.
          memory: {"key", "value"} of the encoder's output.
          memory_mask: boolean [batch, 1, 1, source length].
          layout: the `DenseLayout` of x.

        Returns:
          [batch · hypotheses, d_model], `recent` with the new position, and the weights of the
          attention to memory, [batch, heads, hypotheses, source length].
        """
        inputs = self.residual_1.sublayer_input(x)
        new = self.self_attention.keys_and_values(inputs, position=index, layout=layout)
        if (hypotheses := new["key"].shape[2]) != 1:
            copies = recent["key"].shape[2] // hypotheses
            new = {name: ops.tile(new[name], (1, 1, copies, 1)) for name in new}
        # `ops.slice_update` is an XLA operator, which TensorFlow compiles even if XLA is off.
        recent = {name: ops.where(write_mask, new[name], recent[name]) for name in new}
        attended = self.self_attention.attend(
            inputs,
            recent,
            valid_slots,
            index,
            layout=layout,
            past=past if past["key"].shape[2] != 0 else None,
        )
        x = self.residual_1(x, attended)
        inputs = self.residual_2.sublayer_input(x)
        attended, weights = self.memory_attention.attend(
            inputs, memory, memory_mask, return_attention_scores=True, layout=layout
        )
        x = self.residual_2(x, attended)
        return self.residual_3.apply(self.feed_forward, x), recent, weights


def _update_cache(cache, index, new_keys_values):
    """Updates a cache in KerasHub's form; returns all its keys and values, and the new cache.

    Args:
      cache: [batch, 2, length, heads, width].
      index: position of the first new key and value; None = nothing is written.
      new_keys_values: {"key", "value"} at the new positions, each [batch, heads, positions, width].
    """
    if index is not None:
        length, positions = cache.shape[2], new_keys_values["key"].shape[2]
        is_checkable = isinstance(index, int | np.integer) and None not in (length, positions)
        if is_checkable and not 0 <= index <= length - positions:
            raise UserError(
                f"A cache of {length} positions has no room for {positions} more at position "
                f"{index}. Give a smaller index or a longer cache.",
                code="bad_value",
            )
        new_rows = ops.stack([new_keys_values["key"], new_keys_values["value"]], axis=1)
        new_rows = ops.cast(ops.transpose(new_rows, (0, 1, 3, 2, 4)), cache.dtype)
        cache = ops.slice_update(cache, (0, 0, index, 0, 0), new_rows)
    key, value = (ops.transpose(cache[:, number], (0, 2, 1, 3)) for number in (0, 1))
    return {"key": key, "value": value}, cache


def call_with_remat(layer, *inputs, **options):
    """Calls a layer so that the backward pass computes it again, with the same dropout masks.

    Between the passes only its inputs are kept. Values and masks, on every device, are those of
    `layer(*inputs, **options)`.

    Args:
      layer: a built layer with no state but weights and seed generators, each used once per call.
      *inputs: float tensors that gradients flow through.
      **options: further arguments of the layer.

    Returns:
      The layer's output.
    """
    states, non_trainable = seed_states(layer), layer.non_trainable_variables
    # Tensors, not variables: by the backward pass the generators have advanced, and outside a graph
    # no gradient flows to a variable that is an argument.
    seeds = [ops.copy(state) for state in states]
    weights = [ops.copy(weight) for weight in layer.trainable_variables]

    seeds_by_id = dict(zip(map(id, states), seeds, strict=True))
    non_trainable = [seeds_by_id.get(id(x), ops.convert_to_tensor(x)) for x in non_trainable]

    @keras.remat
    def call(*tensors):
        outputs, _ = layer.stateless_call(
            list(tensors[: len(weights)]), non_trainable, *tensors[len(weights) :], **options
        )
        return outputs

    outputs = call(*_join_gradients(*weights, *inputs))
    for state, seed in zip(states, seeds, strict=True):
        # As `SeedGenerator.next` does.
        state.assign(seed + ops.convert_to_tensor([0, 1], dtype=seed.dtype))
    return outputs


@ops.custom_gradient
def _join_gradients(*tensors):
    """Returns the tensors unchanged, and passes their gradients on once all are computed.

    Otherwise TensorFlow may go on to the previous layer and postpone the gradients of the weights,
    which keeps the activations of layer after layer in memory.
    """

    def pass_on(*gradients):
        # JAX passes one tuple, TensorFlow one argument for each gradient.
        gradients = keras.tree.flatten(gradients)
        # 0, or NaN if a gradient is NaN, so that no graph optimizer can remove it.
        first_values = [ops.cast(ops.reshape(x, (-1,))[:1], "float32") for x in gradients]
        zero = ops.sum(ops.minimum(ops.abs(ops.concatenate(first_values)), 0.0))
        return tuple(x + ops.cast(zero, x.dtype) for x in gradients)

    return tensors, pass_on
