"""How many tokens a replica holds at once, by the memory that a step is estimated to take."""

import re
from pathlib import Path

from t2t_keras.hyperparameters import HParams
from t2t_keras.layers.attention import block_length
from t2t_keras.text.files import split_lines
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
    weights = count_weights(hparams, vocab_size, source_vocab_size)
    casts = size if size < FLOAT32 else 0
    encoder, decoder = _layer_bytes(hparams, length)
    encoders, decoders = hparams.depths()
    layers = encoders * encoder + decoders * decoder
    # Gradients of attention weights, of scores with and without mask; or of the inner units.
    inner = hparams.d_ff * (_parameter_heads(hparams) or 1)
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


def count_weights(hparams: HParams, vocab_size: int, source_vocab_size: int | None = None) -> int:
    """Returns the number of weights of the Transformer that hyperparameters describe.

    `source_vocab_size` is that of a source which has its own vocabulary.
    """
    d_model, d_ff, (d_k, d_v) = hparams.d_model, hparams.d_ff, hparams.head_widths(hparams.d_model)
    attention, norm = 2 * hparams.num_heads * d_model * (d_k + d_v), 2 * d_model
    if hparams.attention_bias:
        attention += 2 * hparams.num_heads * d_k + hparams.num_heads * d_v + d_model
    inner = 2 * d_model * d_ff + d_ff + d_model
    if heads := _parameter_heads(hparams):
        inner = heads * (d_model + d_ff) * (d_k + d_v)
    positions = 2 * hparams.max_positions * (hparams.positions == "learned")
    encoders, decoders = hparams.depths()
    layers = encoders * (attention + inner + 2 * norm)
    layers += decoders * (2 * attention + inner + 3 * norm)
    rows = vocab_size + positions + hparams.source_bias
    rows += (source_vocab_size or vocab_size) * (not hparams.shares_input(source_vocab_size))
    rows += vocab_size * (hparams.share_embeddings in ("input", "none"))
    norms = 2 * norm * (hparams.pre_norm + hparams.embedding_norm)
    return rows * d_model + layers + norms + vocab_size * hparams.softmax_bias


def _parameter_heads(hparams: HParams) -> int:
    """Returns h_p, or 0 where there is no attention over parameters."""
    parameters = hparams.feed_forward == "parameter_attention"
    return hparams.parameter_attention_heads if parameters else 0


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
    if heads := _parameter_heads(hparams):
        softmax = FLOAT32 + (size if size < FLOAT32 else 0)
        inner = heads * (hparams.d_ff * (softmax + after_dropout) + size * (d_k + d_v))
    # The normalised float32 sum, the result, and which units were dropped.
    residual = hparams.d_model * (FLOAT32 + size + bool(hparams.dropout))
    encoder = self_attention(3) + inner + 2 * residual
    return encoder, self_attention(2) + cross + inner + 3 * residual


# Versions 2 and 1 of control groups: limit, use, and which part of the use is the kernel's copy of
# files, which it gives up on demand.
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def free_memory(root: str | Path = "/") -> int | None:
    """Returns the bytes that this process may still take; None where the system does not tell.

    The machine and every control group set a limit. `root` is the directory of `proc` and `sys`.
    """
    root = Path(root)
    available = _number(r"^MemAvailable:\s*(\d+) kB", root / "proc/meminfo")
    left = [] if available is None else [1024 * available]
    # Lines such as 0::/user.slice/session.scope; in a container the path may be one outside.
    groups = {line.split(":", 2)[2] for line in split_lines(_text(root / "proc/self/cgroup"))}
    for top, (limit, use, files) in (
        (root / "sys/fs/cgroup", _VERSION_2),
        (root / "sys/fs/cgroup/memory", _VERSION_1),
    ):
        own = [top / group.lstrip("/") for group in groups]
        for directory in {top, *own, *(parent for each in own for parent in each.parents)}:
            most, used = (_number(r"^(\d+)$", directory / name) for name in (limit, use))
            if directory.is_relative_to(top) and most is not None and used is not None:
                cached = _number(rf"^{files} (\d+)$", directory / "memory.stat") or 0
                left.append(most - used + cached)
    return max(min(left), 0) if left else None


def _number(pattern: str, path: Path) -> int | None:
    found = re.search(pattern, _text(path), re.MULTILINE)
    return int(found[1]) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
