"""`HParams`: every hyperparameter, with its one meaning, type and range.

A named set (see `hparams/`) is an instance that states only what differs from these defaults,
which are the base model of the paper.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from t2t_keras import settings
from t2t_keras.errors import UserError
from t2t_keras.settings import setting

# tensor2tensor's names, for users who come from there.
LINEAGE_NAMES = {
    "hidden_size": "d_model",
    "filter_size": "d_ff",
    "num_hidden_layers": "num_layers",
    "num_encoder_layers": "num_layers",
    "num_decoder_layers": "num_layers",
    "attention_key_channels": "d_k, theirs divided by num_heads",
    "attention_value_channels": "d_v, theirs divided by num_heads",
    "batch_size": "batch_tokens",
    "layer_prepostprocess_dropout": "dropout",
    "residual_dropout": "dropout",
    "learning_rate_constant": "learning_rate",
    "learning_rate_warmup_steps": "warmup_steps",
    "clip_grad_norm": "clip_norm",
    "activation_dtype": "compute_dtype",
    "optimizer_adam_beta1": "adam_beta1",
    "optimizer_adam_beta2": "adam_beta2",
    "optimizer_adam_epsilon": "adam_epsilon",
    "max_input_seq_length": "max_length",
    "max_target_seq_length": "max_length",
}


@dataclasses.dataclass(frozen=True)
class HParams:
    """The hyperparameters of a run; the defaults are the paper's base model (Table 3)."""

    num_layers: int = setting(
        6, "N, layers of the encoder and of the decoder (section 3.1)", minimum=1
    )
    d_model: int = setting(512, "width of embeddings and sub-layers (section 3.1)", minimum=2)
    d_ff: int = setting(
        2048,
        "inner width of the feed-forward sub-layer (section 3.3); of an attention over parameters, "
        "n_p, the pairs of a head",
        minimum=1,
    )
    num_heads: int = setting(8, "h, parallel attention heads (section 3.2.2)", minimum=1)
    d_k: int = setting(
        0, "width of a head's queries and keys; 0 = d_model / num_heads (section 3.2.2)", minimum=0
    )
    d_v: int = setting(
        0, "width of a head's values; 0 = d_model / num_heads (section 3.2.2)", minimum=0
    )
    self_attention_radius: int = setting(
        0,
        "self-attention sees positions at most so far away: the neighbourhood r of section 4 is "
        "2 * radius + 1; 0 = all",
        minimum=0,
    )
    learned_positions: int = setting(
        0,
        "rows of the learned position tables, of source and of target (Table 3, row E); later "
        "positions share the last row; 0 = sinusoids (section 3.5)",
        minimum=0,
    )
    parameter_attention_heads: int = setting(
        0,
        "h_p, heads of an attention over parameters in the place of the feed-forward sub-layer; "
        "0 = feed-forward",
        minimum=0,
    )
    pre_norm: bool = setting(
        False,
        "normalise the input of each sub-layer and the output of each stack, as tensor2tensor's "
        "later models; false = the residual sums (section 3.1)",
    )
    dropout: float = setting(
        0.1,
        "P_drop, share of units dropped from each sub-layer's output and from the embedding sums "
        "(section 5.4)",
        minimum=0.0,
        maximum=0.99,
    )
    attention_dropout: float = setting(
        0.0, "share of attention weights dropped after the softmax", minimum=0.0, maximum=0.99
    )
    relu_dropout: float = setting(
        0.0,
        "share of the feed-forward sub-layer's inner units dropped after the ReLU; of an attention "
        "over parameters, of its weights after the softmax",
        minimum=0.0,
        maximum=0.99,
    )
    symbol_dropout: float = setting(
        0.0,
        "share of the ids fed to the embeddings that become the unknown id; never in the loss",
        minimum=0.0,
        maximum=0.99,
    )
    label_smoothing: float = setting(
        0.1, "epsilon_ls, spread over the whole vocabulary (section 5.4)", minimum=0.0, maximum=0.99
    )
    learning_rate: float = setting(
        1.0, "multiplier of the paper's schedule (section 5.3)", minimum=0.0
    )
    warmup_steps: int = setting(
        4000, "steps of linear increase of the learning rate (section 5.3)", minimum=1
    )
    adam_beta1: float = setting(
        0.9, "decay of the gradient's mean (section 5.3)", minimum=0.0, maximum=0.999999
    )
    adam_beta2: float = setting(
        0.98, "decay of the squared gradient's mean (section 5.3)", minimum=0.0, maximum=0.999999
    )
    adam_epsilon: float = setting(1e-9, "Adam's epsilon (section 5.3)", minimum=0.0)
    clip_norm: float = setting(
        0.0, "largest norm of the summed gradient; 0 = no clipping, as the paper", minimum=0.0
    )
    train_steps: int = setting(100_000, "optimizer steps (section 5.2)", minimum=0)
    batch_tokens: int = setting(
        25_000,
        "most source and most target tokens, padding not counted, of one optimizer step over all "
        "replicas together (section 5.1)",
        minimum=1,
    )
    microbatch_tokens: int = setting(
        4096,
        "most tokens a side, padding counted, that one replica holds at once; a larger step is "
        "accumulated, with the same update; auto (or 0) = the most that fit, found at the start",
        minimum=0,
        words={"auto": 0},
    )
    recompute: bool = setting(
        False,
        "keep only the input of each layer, and compute the layer again for its gradient: less "
        "memory, more time, the same update",
    )
    max_length: int = setting(
        256,
        "longest sentence trained on, in tokens a side; longer pairs are left out and counted",
        minimum=2,
    )
    compute_dtype: str = setting(
        "float32",
        "type of the matrix work; weights, softmax, layer normalisation and loss stay float32",
        choices=("float32", "bfloat16", "float16"),
    )
    reduction_dtype: str = setting(
        "float32",
        "type in which replicas exchange gradients; bfloat16 halves what they send, and rounds",
        choices=("float32", "bfloat16"),
    )

    def head_widths(self) -> tuple[int, int]:
        """Returns (d_k, d_v) with 0 resolved to d_model / num_heads."""
        return (
            self.d_k or self.d_model // self.num_heads,
            self.d_v or self.d_model // self.num_heads,
        )


def override_hparams(hparams: HParams, changes: str | Mapping[str, Any]) -> HParams:
    """Returns `hparams` with some values changed ("name=value,..." or a mapping).

    Raises:
      UserError: a name that does not exist (a lineage name is answered with ours), a wrong type,
        a value out of range, or values that do not fit together.
    """
    changed = settings.override(hparams, changes, what="hyperparameter", renamed=LINEAGE_NAMES)
    if changed.d_model % 2:
        raise UserError(
            f"d_model={changed.d_model} is odd: sines and cosines come in pairs (section 3.5)."
        )
    if changed.d_model % changed.num_heads and not (changed.d_k and changed.d_v):
        raise UserError(
            f"d_model={changed.d_model} is not divisible by num_heads={changed.num_heads}: give "
            f"d_k and d_v, or other values."
        )
    at_once = changed.microbatch_tokens or changed.batch_tokens
    if changed.max_length > at_once or changed.max_length > changed.batch_tokens:
        raise UserError(
            f"max_length={changed.max_length} exceeds microbatch_tokens="
            f"{changed.microbatch_tokens} or batch_tokens={changed.batch_tokens}: one sentence "
            f"must fit. Lower max_length or raise the others."
        )
    return changed
