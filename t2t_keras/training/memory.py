"""What a training step holds in memory, counted from the shapes of the model before it runs.

Counted is what TensorFlow keeps between the forward and the backward pass, with padding packed away
or none there: the outputs that gradients are computed from. What a library takes for itself comes
on top.
"""

import dataclasses

from t2t_keras.hyperparameters import HParams
from t2t_keras.layers.restricted_attention import block_length

_FLOAT32 = 4
_BOOLEAN = 1
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclasses.dataclass(frozen=True)
class StepMemory:
    """Bytes that one replica holds during a step, by what they are for.

    Attributes:
      weights: float32, and in half precision their copies that the matrix work reads.
      optimizer: Adam's two moments, float32.
      accumulators: sums of the microbatches' gradients, float32; 0 where nothing is summed.
      gradients: float32; while they come, activations go.
      activations: what the layers keep for the backward pass.
      logits: of all target tokens, with their softmax or gradient.
      work: what the backward pass of one layer needs besides, after the logits are gone.
    """

    weights: int
    optimizer: int
    accumulators: int
    gradients: int
    activations: int
    logits: int
    work: int

    @property
    def passing(self) -> int:
        """The most bytes that are held during the step only: at its middle, or at its end."""
        return max(self.activations + max(self.logits, self.work), self.gradients)

    @property
    def together(self) -> int:
        """The most bytes at once."""
        return self.weights + self.optimizer + self.accumulators + self.passing

    def lines(self) -> list[str]:
        """Returns a line for each part and one for all, in megabytes of 10^6 bytes."""
        parts = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        parts["at most"] = self.together
        return [f"{name:<12} {size / 1e6:>9,.0f} MB" for name, size in parts.items()]


def step_memory(
    hparams: HParams,
    vocab_size: int,
    weights: int,
    tokens: int,
    length: int,
    accumulates: bool = False,
) -> StepMemory:
    """Returns what a step of the Transformer holds.

    Args:
      hparams: the hyperparameters.
      vocab_size: ids of the shared vocabulary.
      weights: number of trained numbers.
      tokens: of a microbatch of one replica, on either side, padding counted.
      length: of its sentences on either side, in tokens.
      accumulates: whether gradients of microbatches are added up.
    """
    size = _BYTES[hparams.compute_dtype]
    casts = size * weights if size < _FLOAT32 else 0
    inputs = 2 * _embedded(hparams)
    layers = hparams.num_layers * (
        _encoder_layer(hparams, length) + _decoder_layer(hparams, length)
    )
    work = _work(hparams, length)
    if hparams.recompute:
        # The input of each layer, and then the inside of one.
        layers = 2 * hparams.num_layers * hparams.d_model * size
        work += _decoder_layer(hparams, length)
    return StepMemory(
        weights=_FLOAT32 * weights + casts,
        optimizer=2 * _FLOAT32 * weights,
        accumulators=_FLOAT32 * weights if accumulates else 0,
        gradients=_FLOAT32 * weights,
        activations=int(tokens * (inputs + layers)),
        # The logits, in half precision also as they were before they became float32, and their
        # softmax; in the backward pass the softmax and the gradient. The projection reads a
        # transposed copy of the matrix.
        logits=(2 * _FLOAT32 + (size if size < _FLOAT32 else 0)) * tokens * vocab_size
        + size * vocab_size * hparams.d_model,
        work=int(tokens * work),
    )


# From here on, bytes for each token: of the source in the encoder, of the target in the decoder.


def _encoder_layer(hparams: HParams, length: int) -> float:
    attention = _self_attention(hparams, length, blocks=3)
    return attention + _position_wise(hparams) + 2 * _residual(hparams)


def _decoder_layer(hparams: HParams, length: int) -> float:
    attention = _self_attention(hparams, length, blocks=2) + _attention(hparams, length)
    return attention + _position_wise(hparams) + 3 * _residual(hparams)


def _self_attention(hparams: HParams, length: int, blocks: int) -> float:
    """With a radius, each block of queries has keys and values of its own, of so many blocks."""
    radius = hparams.self_attention_radius
    if not radius:
        return _attention(hparams, length)
    return _attention(hparams, blocks * block_length(radius, length), copies=blocks)


def _attention(hparams: HParams, keys: int, copies: int = 1) -> float:
    """Scaled queries, keys, values and joined heads; for each head and key the weights, twice.

    Twice, since the softmax is kept in float32, and again with illegal keys at 0 or in the type of
    the values.
    """
    size, (d_k, d_v) = _BYTES[hparams.compute_dtype], hparams.head_widths()
    weight = _FLOAT32 + size + (_BOOLEAN if hparams.attention_dropout else 0)
    return hparams.num_heads * (size * (1 + copies) * (d_k + d_v) + weight * keys)


def _position_wise(hparams: HParams) -> float:
    """The inner units after the ReLU, and after their dropout; or attention over parameters."""
    size, (d_k, d_v) = _BYTES[hparams.compute_dtype], hparams.head_widths()
    dropped = size + _BOOLEAN if hparams.relu_dropout else 0
    heads = hparams.parameter_attention_heads
    if not heads:
        return hparams.d_ff * (size + dropped)
    softmax = _FLOAT32 + (size if size < _FLOAT32 else 0)
    return heads * (hparams.d_ff * (softmax + dropped) + size * (d_k + d_v))


def _residual(hparams: HParams) -> float:
    """The sum in float32 with mean 0 and variance 1, the result, and which units were dropped."""
    mask = _BOOLEAN if hparams.dropout else 0
    return hparams.d_model * (_FLOAT32 + _BYTES[hparams.compute_dtype] + mask)


def _embedded(hparams: HParams) -> float:
    """The sum of embedding and position after dropout, and which units were dropped."""
    mask = _BOOLEAN if hparams.dropout else 0
    return hparams.d_model * (_BYTES[hparams.compute_dtype] + mask)


def _work(hparams: HParams, length: int) -> float:
    """Gradients of attention weights, scores and scores before the mask; of the inner units."""
    inner = max(hparams.d_ff, hparams.parameter_attention_heads * hparams.d_ff)
    size = _BYTES[hparams.compute_dtype]
    return size * max(3 * hparams.num_heads * length, 2 * inner)
