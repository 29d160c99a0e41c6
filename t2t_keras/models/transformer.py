"""The Transformer (section 3)."""

import keras
from keras import ops

from t2t_keras.layers import (
    DecoderLayer,
    EncoderLayer,
    SharedEmbedding,
    SinusoidalPositions,
    SymbolDropout,
)
from t2t_keras.layers.attention import attention_mask
from t2t_keras.registry import register_model

_UNKNOWN_ID = 2
_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


@register_model
@keras.saving.register_keras_serializable(package="t2t_keras")
class Transformer(keras.Model):
    """The encoder-decoder of "Attention Is All You Need"; the defaults are its base model.

    Args:
      vocab_size: number of ids, shared by source and target; 0 is padding.
      num_layers: N, layers of the encoder and of the decoder.
      d_model: width of embeddings and sub-layers, even.
      d_ff: inner width of the feed-forward sub-layer.
      num_heads: h.
      d_k: width of each head's queries and keys; default d_model / num_heads.
      d_v: width of each head's values; default d_model / num_heads.
      dropout: share of each sub-layer's output and of the embedding sums dropped (section 5.4).
      attention_dropout: share of attention weights dropped (0 in the paper).
      symbol_dropout: share of the embedded ids replaced by the unknown id (0 in the paper).

    Call arguments:
      inputs: {"source": integers [batch, source length], "target": integers [batch, target
        length]}; the target is what is to be predicted, it is shifted to the right inside.
      training: whether dropout acts.

    Returns:
      float32 logits [batch, target length, vocab_size]; position i has seen targets before i only.
    """

    def __init__(
        self,
        vocab_size,
        num_layers=6,
        d_model=512,
        d_ff=2048,
        num_heads=8,
        d_k=None,
        d_v=None,
        dropout=0.1,
        attention_dropout=0.0,
        symbol_dropout=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        sizes = dict(
            num_heads=num_heads,
            d_k=d_k or d_model // num_heads,
            d_v=d_v or d_model // num_heads,
            d_ff=d_ff,
            dropout=dropout,
            attention_dropout=attention_dropout,
            dtype=self.dtype_policy,
        )
        self.config = dict(
            vocab_size=vocab_size,
            num_layers=num_layers,
            d_model=d_model,
            symbol_dropout=symbol_dropout,
            **{name: value for name, value in sizes.items() if name != "dtype"},
        )
        self.symbol_dropout = SymbolDropout(symbol_dropout, _UNKNOWN_ID)
        self.embedding = SharedEmbedding(
            vocab_size, d_model, dtype=self.dtype_policy, name="embedding"
        )
        self.positions = SinusoidalPositions(dtype=self.dtype_policy)
        self.embedding_dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.encoder = [EncoderLayer(name=f"encoder_{i}", **sizes) for i in range(num_layers)]
        self.decoder = [DecoderLayer(name=f"decoder_{i}", **sizes) for i in range(num_layers)]
        # TensorFlow's checkpoints do not look into Keras's lists, only at attributes.
        for layer in (*self.encoder, *self.decoder):
            setattr(self, layer.name, layer)

    @classmethod
    def from_hparams(cls, hparams, vocab_size):
        """Returns the model that a hyperparameter set describes, with its weights made."""
        d_k, d_v = hparams.head_widths()
        model = cls(
            vocab_size,
            num_layers=hparams.num_layers,
            d_model=hparams.d_model,
            d_ff=hparams.d_ff,
            num_heads=hparams.num_heads,
            d_k=d_k,
            d_v=d_v,
            dropout=hparams.dropout,
            attention_dropout=hparams.attention_dropout,
            symbol_dropout=hparams.symbol_dropout,
            dtype=_POLICIES[hparams.compute_dtype],
            name="transformer",
        )
        model.build()
        return model

    def build(self, input_shape=None):
        """Makes all weights; their shapes do not depend on the input."""
        states = (None, None, self.config["d_model"])
        self.embedding.build()
        for layer in self.encoder:
            layer.build(states)
        for layer in self.decoder:
            layer.build(states, states)
        self.built = True

    def call(self, inputs, training=None):
        """See the class."""
        memory, memory_mask = self.encode(inputs["source"], training=training)
        return self.logits(self.decode(inputs["target"], memory, memory_mask, training=training))

    def encode(self, source, training=None):
        """Runs the encoder.

        Args:
          source: integers [batch, source length].
          training: whether dropout acts.

        Returns:
          memory [batch, source length, d_model], and its mask, boolean [batch, source length].
        """
        mask = ops.not_equal(source, 0)
        x = self.positions(self._embed(source, training))
        x = self.embedding_dropout(x, training=training)
        for layer in self.encoder:
            x = layer(x, mask=mask, training=training)
        return x, mask

    def decode(self, target, memory, memory_mask, training=None):
        """Runs the decoder over known targets.

        Args:
          target: integers [batch, target length]; position i reads those before i.
          memory: [batch, source length, d_model].
          memory_mask: boolean [batch, source length].
          training: whether dropout acts.

        Returns:
          [batch, target length, d_model]; `logits` projects them.
        """
        # The first input is a zero vector: the embedded target shifted to the right by one.
        x = ops.pad(self._embed(target, training)[:, :-1], [[0, 0], [1, 0], [0, 0]])
        x = self.embedding_dropout(self.positions(x), training=training)
        for layer in self.decoder:
            x = layer(x, memory, memory_mask=memory_mask, training=training)
        return x

    def logits(self, x):
        """Projects decoder states [..., d_model] to float32 logits [..., vocab_size]."""
        return self.embedding.logits(x)

    def start_cache(self, memory, memory_mask):
        """Returns what decoding one position after the other keeps, before the first position.

        Args:
          memory: [rows, source length, d_model].
          memory_mask: boolean [rows, source length].

        Returns:
          {"self": keys and values of each decoder layer's positions so far (none yet),
          "memory": keys and values of `memory` for each decoder layer, computed once,
          "memory_mask": boolean [rows, 1, 1, source length]}.
        """
        rows, heads = ops.shape(memory)[0], self.config["num_heads"]

        def nothing_yet(width):
            return ops.zeros((rows, 0, heads, width), dtype=self.compute_dtype)

        return {
            "self": [
                {"key": nothing_yet(self.config["d_k"]), "value": nothing_yet(self.config["d_v"])}
                for _ in self.decoder
            ],
            "memory": [layer.memory_attention.keys_and_values(memory) for layer in self.decoder],
            "memory_mask": attention_mask(memory_mask),
        }

    def decode_step(self, previous, index, cache):
        """Decodes one position.

        Args:
          previous: integers [rows], the token before; ignored at index 0.
          index: the position, a whole number or an int32 scalar.
          cache: as `start_cache` or the step before returned it.

        Returns:
          float32 logits [rows, vocab_size], and the cache with one more position in "self".
        """
        x = self.embedding(previous[:, None])
        x = ops.where(ops.equal(index, 0), ops.zeros_like(x), x)
        x = self.positions(x, start=index)
        kept = []
        for layer, past, memory in zip(self.decoder, cache["self"], cache["memory"], strict=True):
            x, past = layer.step(x, past, memory, cache["memory_mask"])
            kept.append(past)
        return self.logits(x[:, 0]), {**cache, "self": kept}

    def _embed(self, ids, training):
        return self.embedding(self.symbol_dropout(ids, training=training))

    def compute_output_shape(self, input_shape):
        """[batch, target length, vocab_size]."""
        return (*input_shape["target"], self.config["vocab_size"])

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), **self.config}
