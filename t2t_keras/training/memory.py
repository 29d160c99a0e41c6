"""How many tokens a replica holds at once, by the memory that a step is estimated to take."""

from t2t_keras.hyperparameters import HParams
from t2t_keras.layers.attention import block_length
from t2t_keras.text.tokenizer import Tokenizer

FLOAT32 = 4  # bytes; weights are kept and saved in it, whatever a step computes in
# What an optimizer keeps of each weight, if not 2. Keras's Adafactor also keeps the moments that it
# makes of its sums over rows and columns; these are as good as nothing.
_MOMENTS = {"lion": 1, "adafactor": 1}
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def step_memory(
    hparams: HParams,
    vocab_size: int,
    tokens: int,
    length: int,
    accumulates: bool = False,
    source_vocab_size: int | None = None,
    trained: int | None = None,
) -> dict[str, int]:
    """Estimates what one replica holds in a training step of the Transformer, to about 25 %.

    What libraries take for themselves comes on top. A microbatch has so many `tokens` on either
    side, padding counted, in sentences of `length` tokens; if the step `accumulates`, gradients of
    several are summed. `trained` is how many weights are trained; None = all, or with `lora_rank`
    adapters, which are as good as nothing.

    Returns:
      Bytes of "weights" (in half precision with their copies), "optimizer" (moments, average),
      "accumulators" (sums of gradients), "gradients", "activations" (kept for the backward pass),
      "logits" (with their softmax, or what the backward pass of a layer needs, if that is more),
      and "at most": the first three and the larger of gradients and activations with logits.
    """
    size = _BYTES[hparams.compute_dtype]
    weights = hparams.count_weights(vocab_size, source_vocab_size)
    casts = size if size < FLOAT32 else 0
    encoder, decoder = _layer_bytes(hparams, length)
    encoders, decoders = hparams.depths()
    layers = encoders * encoder + decoders * decoder
    # Gradients of attention weights, of scores with and without mask; or of the inner units.
    inner = hparams.d_ff * (hparams.parameter_heads() or 1)
    work = size * max(3 * hparams.num_heads * length, 2 * inner)
    if hparams.recompute:
        # The input of each layer, and then the inside of one.
        layers = (encoders + decoders) * hparams.d_model * size
        work += decoder
    embedded = 2 * hparams.d_model * (size + bool(hparams.dropout))
    # In half precision also the logits before they became float32. The projection reads a
    # transposed copy of the embedding matrix.
    logits = vocab_size * ((2 * FLOAT32 + casts) * tokens + size * hparams.d_model)
    if trained is None:
        trained = 0 if hparams.lora_rank else weights
    kept = _MOMENTS.get(hparams.optimizer, 2) + (hparams.ema_decay > 0)
    memory = {
        "weights": (FLOAT32 + casts) * weights,
        "optimizer": kept * FLOAT32 * trained,
        "accumulators": FLOAT32 * trained * accumulates,
    }
    passing = {
        "gradients": FLOAT32 * trained,
        "activations": tokens * (embedded + layers),
        "logits": max(logits, tokens * work),
    }
    most = max(passing["gradients"], passing["activations"] + passing["logits"])
    return {**memory, **passing, "at most": sum(memory.values()) + most}


def step_memory_with(
    hparams: HParams,
    tokenizer: Tokenizer,
    tokens: int,
    length: int,
    accumulates: bool = False,
    trained: int | None = None,
) -> dict[str, int]:
    """Returns `step_memory` with the vocabularies of a tokenizer."""
    sizes = tokenizer.vocab_size, tokenizer.source_vocab_size
    return step_memory(hparams, sizes[0], tokens, length, accumulates, sizes[1], trained)


def _layer_bytes(hparams: HParams, length: int) -> tuple[int, int]:
    """Returns what a layer of the encoder and one of the decoder keep for each token."""
    size, (d_k, d_v) = _BYTES[hparams.compute_dtype], hparams.head_widths(hparams.d_model)

    def attention(keys, copies=1):
        # Scaled queries, keys, values and joined heads; for each head and key the weight, twice:
        # the float32 softmax, and again masked or in the type of the values.
        weight = FLOAT32 + size + bool(hparams.attention_dropout)
        return hparams.num_heads * (size * (1 + copies) * (d_k + d_v) + weight * keys)

    def self_attention(blocks):
        # With a radius, each block of queries has its own keys and values, of several blocks.
        radius = hparams.self_attention_radius
        return attention(blocks * block_length(radius, length), blocks) if radius else cross

    cross = attention(length)
    after_dropout = (size + 1) * bool(hparams.relu_dropout)
    inner = hparams.d_ff * (size + after_dropout)
    if heads := hparams.parameter_heads():
        softmax = FLOAT32 + (size if size < FLOAT32 else 0)
        inner = heads * (hparams.d_ff * (softmax + after_dropout) + size * (d_k + d_v))
    # The normalised float32 sum, the result, and which units were dropped.
    residual = hparams.d_model * (FLOAT32 + size + bool(hparams.dropout))
    encoder = self_attention(3) + inner + 2 * residual
    return encoder, self_attention(2) + cross + inner + 3 * residual
