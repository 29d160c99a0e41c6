"""The memory that a training step takes, estimated from shapes."""

from t2t_keras.hyperparameters import HParams
from t2t_keras.layers.attention import block_length

FLOAT32 = 4  # Bytes of stored weights, whatever type a step computes in.
# Moments per weight of optimizers that do not have 2. Keras's Adafactor also stores the full
# moments that it derives from its sums over rows and columns; the sums are negligible.
_MOMENTS = {"lion": 1, "adafactor": 1}
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def state_memory(hparams: HParams, num_weights: int, num_trained: int) -> dict[str, int]:
    """Returns the bytes that stay between steps, on one replica.

    These are "weights" (in half precision with their copies) and "optimizer" (moments, average).
    """
    value_bytes = _BYTES[hparams.compute_dtype]
    cast_bytes = value_bytes if value_bytes < FLOAT32 else 0
    arrays_per_weight = _MOMENTS.get(hparams.optimizer, 2) + (hparams.ema_decay > 0)
    return {
        "weights": (FLOAT32 + cast_bytes) * num_weights,
        "optimizer": arrays_per_weight * FLOAT32 * num_trained,
    }


def step_memory(
    hparams: HParams,
    vocab_sizes: tuple[int, int | None],
    tokens: int,
    length: int,
    accumulates: bool = False,
    num_trained: int | None = None,
) -> dict[str, int]:
    """Estimates the memory of a training step of the Transformer on one replica, to about 25 %.

    The libraries' own memory is not included.

    Args:
      hparams: the hyperparameters.
      vocab_sizes: as `RunConfig.vocab_sizes`.
      tokens: tokens of a microbatch on each side, including padding.
      length: tokens of each sentence.
      accumulates: whether gradients of several microbatches are summed.
      num_trained: number of trained weights; None = all, or with `lora_rank` only adapters, whose
        number is negligible.

    Returns:
      Bytes of "weights" and "optimizer" (see `state_memory`),
      "accumulators" (sums of gradients), "gradients", "activations" (kept for the backward pass),
      "logits" (with their softmax, or the working memory of a layer's backward pass if larger),
      and "at most": the first three, plus the larger of gradients and activations with logits.
    """
    value_bytes = _BYTES[hparams.compute_dtype]
    num_weights = hparams.count_weights(*vocab_sizes)
    cast_bytes = value_bytes if value_bytes < FLOAT32 else 0
    encoder_bytes, decoder_bytes = _layer_bytes(hparams, length)
    encoders, decoders = hparams.depths()
    layer_bytes = encoders * encoder_bytes + decoders * decoder_bytes
    # Gradients of attention weights, and of scores with and without mask; or of the inner units.
    inner = hparams.d_ff * (hparams.parameter_heads() or 1)
    work_bytes = value_bytes * max(3 * hparams.num_heads * length, 2 * inner)
    if hparams.recompute:
        # The inputs of all layers, and the activations inside one layer.
        layer_bytes = (encoders + decoders) * hparams.d_model * value_bytes
        work_bytes += decoder_bytes
    embedding_bytes = 2 * hparams.d_model * (value_bytes + bool(hparams.dropout))
    # In half precision, add the logits before their conversion to float32. The projection reads
    # a transposed copy of the embedding matrix.
    logits = vocab_sizes[0] * ((2 * FLOAT32 + cast_bytes) * tokens + value_bytes * hparams.d_model)
    if num_trained is None:
        num_trained = 0 if hparams.lora_rank else num_weights
    memory = state_memory(hparams, num_weights, num_trained)
    memory["accumulators"] = FLOAT32 * num_trained * accumulates
    temporary = {
        "gradients": FLOAT32 * num_trained,
        "activations": tokens * (embedding_bytes + layer_bytes),
        "logits": max(logits, tokens * work_bytes),
    }
    peak = max(temporary["gradients"], temporary["activations"] + temporary["logits"])
    return {**memory, **temporary, "at most": sum(memory.values()) + peak}


def _layer_bytes(hparams: HParams, length: int) -> tuple[int, int]:
    """Returns the bytes per token that an encoder layer and a decoder layer keep."""
    value_bytes, (d_k, d_v) = _BYTES[hparams.compute_dtype], hparams.head_widths(hparams.d_model)

    def attention(keys: int, copies: int = 1) -> int:
        # Scaled queries, keys, values and joined heads; for each head and key the weight twice: the
        # float32 softmax, and its masked copy in the type of the values.
        weight_bytes = FLOAT32 + value_bytes + bool(hparams.attention_dropout)
        return hparams.num_heads * (value_bytes * (1 + copies) * (d_k + d_v) + weight_bytes * keys)

    def self_attention(blocks: int) -> int:
        # With a radius, each block of queries has its own copy of several blocks of keys.
        radius = hparams.self_attention_radius
        return attention(blocks * block_length(radius, length), blocks) if radius else cross

    cross = attention(length)
    after_dropout = (value_bytes + 1) * bool(hparams.relu_dropout)
    inner_bytes = hparams.d_ff * (value_bytes + after_dropout)
    if heads := hparams.parameter_heads():
        softmax = FLOAT32 + (value_bytes if value_bytes < FLOAT32 else 0)
        inner_bytes = heads * (hparams.d_ff * (softmax + after_dropout) + value_bytes * (d_k + d_v))
    # The normalised float32 sum, the result, and the mask of dropped units.
    residual_bytes = hparams.d_model * (FLOAT32 + value_bytes + bool(hparams.dropout))
    encoder = self_attention(3) + inner_bytes + 2 * residual_bytes
    return encoder, self_attention(2) + cross + inner_bytes + 3 * residual_bytes
