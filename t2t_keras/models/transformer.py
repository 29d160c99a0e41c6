"""The Transformer (section 3)."""

import functools
import inspect
from typing import Any, Self

import keras
from keras import ops

from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import (
    POSITION_ENCODINGS,
    HParams,
    ModelConfig,
    config_arguments,
    take_config,
)
from t2t_keras.layers import (
    DenseLayout,
    LayerNormalization,
    SharedEmbedding,
    TransformerDecoder,
    TransformerEncoder,
)
from t2t_keras.layers.base import AS_IS, Dropout, PaperArguments, build, layout_of
from t2t_keras.layers.stacks import call_with_remat
from t2t_keras.registry import register_model
from t2t_keras.special_ids import EOS_ID, PADDING_ID

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


@register_model
@keras.saving.register_keras_serializable(package="t2t_keras")
class Transformer(PaperArguments, keras.Model):
    """The encoder-decoder of "Attention Is All You Need"; the defaults are its base model.

    Args:
      vocab_size: number of ids of the target, and of a source that shares them; id 0 is padding.
      source_vocab_size: number of ids of a source that has its own; None = shared ids.
      config: a `ModelConfig` or a subclass, such as `HParams`; None = the base model.
      **kwargs: changed fields of the config, and arguments of every Keras model.

    Call arguments:
      inputs: {"source": integers [batch, source length], "target": integers [batch, target
        length]}. The model predicts this target, and itself shifts it to the right. If rows hold
        several sentences, also "source_sentences" and "target_sentences": the number of each
        token's sentence, see `PackedLayout`; sentences of one number are a pair.
      packed: whether to skip padding in computations (see `RaggedLayout`).
      training: whether dropout acts.

    Returns:
      float32 logits [batch, target length, vocab_size]; position i depends only on targets
      before i. With `packed`, [target tokens, vocab_size], without padding.
    """

    def __init__(
        self,
        vocab_size: int,
        config: ModelConfig | None = None,
        source_vocab_size: int | None = None,
        **kwargs: Any,
    ):
        config = take_config(ModelConfig, config, kwargs)
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.source_vocab_size = source_vocab_size
        self.config = config
        shares_input = config.shares_input(source_vocab_size)
        if config.start_id >= vocab_size:
            raise UserError(
                f"start_id={config.start_id}: expected an id below the vocabulary's size of "
                f"{vocab_size}.",
                code="bad_value",
            )
        dtype = dict(dtype=self.dtype_policy)
        width: dict[str, Any] = {
            "d_model": config.d_model,
            "scale": config.scale_embedding,
            **dtype,
        }
        self.embedding = SharedEmbedding(
            vocab_size,
            tied=config.share_embeddings in ("all", "target"),
            bias=config.softmax_bias,
            name="embedding" if shares_input else "target_embedding",
            **width,
        )
        self.source_embedding = self.embedding
        if not shares_input:
            source_size = source_vocab_size or vocab_size
            self.source_embedding = SharedEmbedding(source_size, name="source_embedding", **width)
        make_positions = POSITION_ENCODINGS[config.positions]
        self.source_positions = make_positions(config, **dtype, name="source_positions")
        self.target_positions = make_positions(config, **dtype, name="target_positions")
        self.embedding_dropout = Dropout(config.dropout, **dtype)
        encoders, decoders = map(range, config.depths())
        layer = dict(config=config, **dtype)
        self.encoder = [TransformerEncoder(**layer, name=f"encoder_{i}") for i in encoders]
        self.decoder = [TransformerDecoder(**layer, name=f"decoder_{i}") for i in decoders]
        norm = functools.partial(LayerNormalization, epsilon=config.norm_epsilon, **dtype)
        if config.embedding_norm:
            self.source_norm, self.target_norm = norm(name="source_norm"), norm(name="target_norm")
        if config.pre_norm:
            self.encoder_norm = norm(name="encoder_norm")
            self.decoder_norm = norm(name="decoder_norm")

    @classmethod
    def from_hparams(
        cls,
        hparams: HParams,
        vocab_size: int,
        weights_dtype: str = "float32",
        source_vocab_size: int | None = None,
    ) -> Self:
        """Returns the built model for hyperparameters.

        Args:
          hparams: the hyperparameters.
          vocab_size: number of ids.
          weights_dtype: type of the weights. A type other than float32 is not for training, and
            replaces `hparams.compute_dtype` for everything except softmax and layer normalisation.
          source_vocab_size: number of ids of a source that has its own.
        """
        # User models may not accept source_vocab_size.
        sizes = {"source_vocab_size": source_vocab_size} if source_vocab_size else {}
        model = cls(
            vocab_size,
            hparams,
            **sizes,
            dtype=weights_dtype if weights_dtype != "float32" else _POLICIES[hparams.compute_dtype],
            name="transformer",
        )
        model.build()
        return model

    def build(self, input_shape=None):
        """Creates all weights; their shapes do not depend on the input."""
        states = (None, None, self.config.d_model)
        self.embedding.build((None, None))
        if self.source_embedding is not self.embedding:
            self.source_embedding.build((None, None))
        if self.config.source_bias:
            shape = (self.config.d_model,)
            self.source_bias = self.add_weight(name="source_bias", shape=shape, initializer="zeros")
        if self.config.embedding_norm:
            self.source_norm.build(states)
            self.target_norm.build(states)
        build(self.source_positions, states)
        build(self.target_positions, states)
        for layer in self.encoder:
            layer.build(states)
        for layer in self.decoder:
            layer.build(states, states)
        if self.config.pre_norm:
            self.encoder_norm.build(states)
            self.decoder_norm.build(states)
        self.built = True

    def call(self, inputs, packed=False, training=None):
        """See the class."""
        source, target = inputs["source"], inputs["target"]
        sentences = inputs.get("target_sentences"), inputs.get("source_sentences")
        layouts = layout_of(target, packed, sentences[0]), layout_of(source, packed, sentences[1])
        memory, memory_mask = self.encode(source, layouts[1], training=training)
        x = self.decode(target, memory, memory_mask, *layouts, training=training)
        logits = self.logits(x)
        return logits if packed else layouts[0].unpack(logits)

    def encode(self, source, layout=AS_IS, return_attention_scores=False, training=None):
        """Runs the encoder.

        Args:
          source: integers [batch, source length].
          layout: the `Layout` of computations and of memory.
          return_attention_scores: whether to return attention weights too.
          training: whether dropout acts.

        Returns:
          memory [batch, source length, d_model], in the layout; its mask, boolean [batch, source
          length]; and, if requested, the attention weights of each layer, [batch, heads, source
          length, source length].
        """
        mask = ops.not_equal(source, PADDING_ID)
        if not self.config.source_end:
            # Mask the final EOS, unless it is the whole sentence.
            is_visible = ops.logical_or(layout.starts(source), ops.not_equal(source, EOS_ID))
            mask = ops.logical_and(mask, is_visible)
        x = self.source_embedding(source)
        x = x + ops.cast(self.source_bias, x.dtype) if self.config.source_bias else x
        x = self._add_positions(self.source_positions, x, layout)
        x = self.source_norm(x) if self.config.embedding_norm else x
        x = self.embedding_dropout(layout.pack(x), training=training)
        options = dict(layout=layout, return_attention_scores=return_attention_scores)
        options |= dict(attention_mask=layout.same_sentence(layout))
        weights = []
        for layer in self.encoder:
            x, *layer_weights = self._run(layer, x, padding_mask=mask, training=training, **options)
            weights += layer_weights
        x = self.encoder_norm(x) if self.config.pre_norm else x
        return (x, mask, weights) if return_attention_scores else (x, mask)

    def decode(
        self,
        target,
        memory,
        memory_mask,
        layout=AS_IS,
        memory_layout=AS_IS,
        return_attention_scores=False,
        training=None,
    ):
        """Runs the decoder over known targets.

        Args:
          target: integers [batch, target length]; position i reads targets before i.
          memory: [batch, source length, d_model], or in another layout.
          memory_mask: boolean [batch, source length], True = a token.
          layout: the `Layout` of computations.
          memory_layout: the `Layout` of memory.
          return_attention_scores: whether to return attention weights too.
          training: whether dropout acts.

        Returns:
          states [batch, target length, d_model], in the layout, for `logits`; and, if requested,
          the weights of each layer's self-attention, [batch, heads, target length, target length],
          and of its attention to memory, [batch, heads, target length, source length].
        """
        # Shift the target to the right by one.
        if start := self.config.start_id:
            x = self.embedding(layout.shift_right(target, start))
        else:
            # The first input is a zero vector.
            x = layout.shift_right(self.embedding(target))
        x = self._add_positions(self.target_positions, x, layout)
        x = self.target_norm(x) if self.config.embedding_norm else x
        x = self.embedding_dropout(layout.pack(x), training=training)
        options = dict(layout=layout, memory_layout=memory_layout)
        options |= dict(encoder_padding_mask=memory_mask)
        options |= dict(decoder_attention_mask=layout.same_sentence(layout))
        options |= dict(encoder_attention_mask=layout.same_sentence(memory_layout))
        options |= dict(return_attention_scores=return_attention_scores, training=training)
        weights = []
        for layer in self.decoder:
            x, *layer_weights = self._run(layer, x, memory, **options)
            weights += layer_weights
        x = self.decoder_norm(x) if self.config.pre_norm else x
        return (x, weights[::2], weights[1::2]) if return_attention_scores else x

    def logits(self, x):
        """Projects decoder states [..., d_model] to float32 logits [..., vocab_size]."""
        return self.embedding(x, reverse=True)

    def attention_weights(self, inputs):
        """Returns the attention weights of each layer and head (section 3.2).

        Args:
          inputs: {"source", "target"}, as for a call. Row i of the decoder's weights belongs to
            the prediction of target i. Column j of its self-attention belongs to decoder input j:
            target j - 1, or the zero vector at the start.

        Returns:
          {"encoder": [batch, layers, heads, source length, source length],
          "decoder": [batch, layers, heads, target length, target length],
          "cross": [batch, layers, heads, target length, source length]}, float32; the rows of
          tokens (not padding) sum to 1, and masked keys have 0.
        """
        source, target = inputs["source"], inputs["target"]
        layouts = layout_of(target), layout_of(source)
        options = dict(return_attention_scores=True)
        memory, memory_mask, encoder = self.encode(source, layouts[1], **options)
        _, decoder, cross = self.decode(target, memory, memory_mask, *layouts, **options)
        # In half precision, sums of weights would be rounded again.
        return {
            kind: ops.cast(ops.stack(weights, axis=1), "float32")
            for kind, weights in (("encoder", encoder), ("decoder", decoder), ("cross", cross))
        }

    def start_cache(self, memory, memory_mask, block_size, hypotheses=1, layout=AS_IS):
        """Returns the initial cache of decoding.

        Keys and values of decoded positions are in slots, `hypotheses` slots for each position:
        first the slots of "past", which starts empty and is read only, then those of "recent".

        Args:
          memory: [batch, source length, d_model], or in another layout.
          memory_mask: boolean [batch, source length].
          block_size: number of positions that "recent" can hold.
          hypotheses: number of hypotheses per sentence to decode in parallel.
          layout: the `Layout` of memory.

        Returns:
          {"memory": keys and values of `memory` for each decoder layer, computed once,
          "memory_mask": boolean [batch, 1, 1, source length],
          "projection": [d_model, vocab_size], faster than the shared matrix for few rows,
          "past", "recent": {"key", "value"} for each decoder layer, [batch, heads, slots, width]}.
        """
        lead = ops.shape(memory_mask)[0], self.config.num_heads
        d_k, d_v = self.config.head_widths(self.config.d_model)
        past, recent = (
            {
                "key": ops.zeros((*lead, slots, d_k), self.compute_dtype),
                "value": ops.zeros((*lead, slots, d_v), self.compute_dtype),
            }
            for slots in (0, block_size * hypotheses)
        )
        return {
            "memory": [
                layer.memory_attention.keys_and_values(memory, layout) for layer in self.decoder
            ],
            "memory_mask": ops.expand_dims(ops.cast(memory_mask, "bool"), axis=(1, 2)),
            "projection": self.embedding.projection(),
            "past": [past] * len(self.decoder),
            "recent": [recent] * len(self.decoder),
        }

    def decode_step(
        self,
        previous,
        index,
        cache,
        position=None,
        valid_slots=None,
        return_attention_scores=False,
    ):
        """Decodes the next position of each sentence's hypotheses.

        Args:
          previous: integers [batch, hypotheses], the previous tokens; ignored at index 0.
          index: position in the output, an integer or an int32 scalar.
          cache: the cache from `start_cache` or the previous step.
          position: position in "recent" to write to; default `index`.
          valid_slots: boolean [batch, hypotheses, slots], True for the slots of the hypothesis's
            own positions, including the new one; default: each hypothesis continues itself.
          return_attention_scores: whether to return attention weights too.

        Returns:
          float32 logits [batch, hypotheses, vocab_size]; the cache with one more position in
          "recent"; and, if requested, the weights of each layer's attention to memory, [batch,
          heads, hypotheses, source length].
        """
        x, cache, weights = self.step_states(previous, index, cache, position, valid_slots)
        logits = self.embedding.logits(x, cache["projection"])
        return (logits, cache, weights) if return_attention_scores else (logits, cache)

    def step_states(self, previous, index, cache, position=None, valid_slots=None):
        """Like `decode_step`, but returns states [batch, hypotheses, d_model] instead of logits."""
        hypotheses = previous.shape[1]
        slots = ops.arange(ops.shape(cache["recent"][0]["key"])[2], dtype="int32")
        write_mask = ops.equal(slots // hypotheses, index if position is None else position)
        if valid_slots is None:
            offsets, radius = slots // hypotheses - index, self.config.self_attention_radius
            is_visible = ops.logical_and(offsets <= 0, offsets >= -radius if radius else True)
            is_own = ops.arange(hypotheses)[:, None] == slots % hypotheses
            valid_slots = ops.logical_and(is_visible, is_own)[None]
        previous = ops.reshape(previous, (-1, 1))
        if self.config.start_id:
            x = self.embedding(ops.where(ops.equal(index, 0), self.config.start_id, previous))
        else:
            x = self.embedding(previous)
            x = ops.where(ops.equal(index, 0), ops.zeros_like(x), x)
        x = self.target_positions(x, start=index)
        x = self.target_norm(x) if self.config.embedding_norm else x
        x = ops.reshape(x, (-1, self.config.d_model))
        layout, recent_caches, weights = DenseLayout(-1, hypotheses), [], []
        masks = write_mask[:, None], valid_slots[:, None]
        for layer, past, recent, memory in zip(
            self.decoder, cache["past"], cache["recent"], cache["memory"], strict=True
        ):
            x, recent, cross = layer.step(
                x, index, past, recent, *masks, memory, cache["memory_mask"], layout
            )
            recent_caches.append(recent)
            weights.append(cross)
        x = self.decoder_norm(x) if self.config.pre_norm else x
        return layout.unpack(x), {**cache, "recent": recent_caches}, weights

    def dense_layers(self):
        """Returns all `keras.layers.Dense` in the model: projections and feed-forward layers."""
        layers = self._flatten_layers()
        return [layer for layer in layers if isinstance(layer, keras.layers.Dense)]

    @property
    def packs_rows(self):
        """Whether a row may hold several sentences, see `PackedLayout`.

        A subclass with its own `call`, `encode` or `decode`, or a position encoding whose `call`
        has no `positions`, might compute them as one sentence; it may set this attribute itself.
        """
        methods = ("call", "encode", "decode")
        return all(
            getattr(type(self), name) is getattr(Transformer, name) for name in methods
        ) and all(
            "positions" in inspect.signature(layer.call).parameters
            for layer in (self.source_positions, self.target_positions)
        )

    def _add_positions(self, encoding, x, layout):
        """Returns x [batch, length, d_model] with the encoding of each token's position."""
        positions = layout.positions()
        return encoding(x) if positions is None else encoding(x, positions=positions)

    def _run(self, layer, *inputs, training, **options):
        """Returns the outputs of a layer: states and, if requested, attention weights."""
        # On JAX, symbolic calls accept only arrays and plain values.
        options = {name: value for name, value in options.items() if value is not AS_IS}
        call = (
            functools.partial(call_with_remat, layer)
            if training and self.config.recompute
            else layer
        )
        return keras.tree.flatten(call(*inputs, training=training, **options))

    def compute_output_shape(self, input_shape):
        """Returns [batch, target length, vocab_size]."""
        return (*input_shape["target"], self.vocab_size)

    def export(self, filepath, *args, input_signature=None, **kwargs):
        """Runs `keras.Model.export` with ids as int32, which Keras would take for floats."""
        ids = dict(shape=(None, None), dtype="int32")
        specs = {name: keras.InputSpec(**ids, name=name) for name in ("source", "target")}
        signature = input_signature or [specs]
        return super().export(filepath, *args, input_signature=signature, **kwargs)

    def get_config(self):
        """Returns the constructor's arguments."""
        settings = config_arguments(self.config)
        sizes = {"vocab_size": self.vocab_size, "source_vocab_size": self.source_vocab_size}
        return {**super().get_config(), **sizes, **settings}
