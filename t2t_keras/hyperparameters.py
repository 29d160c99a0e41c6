"""Every hyperparameter, with its meaning, type and range; the defaults are the paper's base model.

`LayerConfig` configures a layer, `ModelConfig` a model and `HParams` a training run. Layers and
models take such a config, or its fields as keyword arguments. Named sets are in `hparams/`.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from t2t_keras import settings
from t2t_keras.errors import UserError
from t2t_keras.registry import (
    ACTIVATIONS,
    FEED_FORWARDS,
    HPARAMS_SETS,
    LOSSES,
    OPTIMIZERS,
    POSITION_ENCODINGS,
    SCHEDULES,
)
from t2t_keras.settings import json_value, setting

Config = TypeVar("Config", bound="LayerConfig")

# All config classes by their full names, for models that are loaded from files.
_CONFIG_CLASSES: dict[str, type["LayerConfig"]] = {}


def _dropout(default: float, meaning: str) -> Any:
    return setting(default, meaning, minimum=0.0, maximum=0.99)


@dataclasses.dataclass(frozen=True)
class LayerConfig:
    """The settings of an encoder or decoder layer; the defaults are the paper's base model."""

    def __init_subclass__(cls) -> None:
        _CONFIG_CLASSES[f"{cls.__module__}.{cls.__qualname__}"] = cls

    num_heads: int = setting(8, "h, number of attention heads (section 3.2.2)", minimum=1)
    d_k: int = setting(
        0,
        "width of the queries and keys of one head; 0 = d_model / num_heads (section 3.2.2)",
        minimum=0,
    )
    d_v: int = setting(
        0, "width of the values of one head; 0 = d_model / num_heads (section 3.2.2)", minimum=0
    )
    d_ff: int = setting(
        2048,
        "inner width of the feed-forward sub-layer (section 3.3); with "
        "feed_forward=parameter_attention, n_p, the number of key-value pairs per head",
        minimum=1,
    )
    dropout: float = _dropout(
        0.1,
        "P_drop, dropout rate of sub-layer outputs and of the sums of embeddings and positions "
        "(section 5.4)",
    )
    attention_dropout: float = _dropout(0.0, "dropout rate of attention weights, after the softmax")
    relu_dropout: float = _dropout(
        0.0,
        "dropout rate inside the feed-forward sub-layer, after the activation; with "
        "feed_forward=parameter_attention, of its attention weights",
    )
    activation: str = setting(
        "relu",
        "activation of the feed-forward sub-layer (section 3.3; all: --registry_help)",
        choices=ACTIVATIONS,
    )
    feed_forward: str = setting(
        "feed_forward",
        "sub-layer after attention: feed_forward, or parameter_attention = attention over "
        "parameters",
        choices=FEED_FORWARDS,
    )
    self_attention_radius: int = setting(
        0,
        "maximum distance in positions over which self-attention attends (r of section 4 is 2 *"
        " radius + 1); 0 = unlimited",
        minimum=0,
    )
    parameter_attention_heads: int = setting(
        8,
        "h_p, number of heads of feed_forward=parameter_attention",
        minimum=1,
    )
    attention_bias: bool = setting(
        False, "add biases to the projections of attention, as other toolkits do; not in the paper"
    )
    pre_norm: bool = setting(
        False,
        "normalise the input of each sub-layer and the output of each stack, as tensor2tensor's"
        " later models do; false = normalise the residual sums (section 3.1)",
    )
    norm_epsilon: float = setting(
        1e-6, "epsilon of layer normalisation, added to the variance", minimum=1e-12, maximum=1e-2
    )
    positions: str = setting(
        "sinusoidal",
        "position encoding (section 3.5): sinusoidal; learned = one table for the source and "
        "one for the target (Table 3, row E); rotary = rotate queries and keys of "
        "self-attention (RoPE); none",
        choices=POSITION_ENCODINGS,
    )

    def head_widths(self, d_model: int) -> tuple[int, int]:
        """Returns (d_k, d_v) with 0 replaced by d_model / num_heads.

        Raises:
          UserError: `d_model` is not divisible by `num_heads`.
        """
        if d_model % self.num_heads and not (self.d_k and self.d_v):
            raise UserError(
                f"d_model={d_model} is not divisible by num_heads={self.num_heads}. Set d_k and "
                f"d_v, or change d_model or num_heads.",
                code="conflicting_settings",
            )
        return self.d_k or d_model // self.num_heads, self.d_v or d_model // self.num_heads


@dataclasses.dataclass(frozen=True)
class ModelConfig(LayerConfig):
    """The settings of a Transformer, except its vocabulary; the defaults are the base model."""

    num_layers: int = setting(
        6,
        "N, number of layers of the encoder, and of the decoder (section 3.1)",
        minimum=1,
        maximum=1000,
    )
    num_encoder_layers: int = setting(
        0, "number of encoder layers; 0 = num_layers", minimum=0, maximum=1000
    )
    num_decoder_layers: int = setting(
        0, "number of decoder layers; 0 = num_layers", minimum=0, maximum=1000
    )
    d_model: int = setting(
        512, "width of embeddings and sub-layer outputs (section 3.1)", minimum=2
    )
    share_embeddings: str = setting(
        "all",
        "which embedding matrices are shared (section 3.4): all = source, target and softmax; "
        "target = target and softmax; input = source and target; none",
        choices=("all", "target", "input", "none"),
    )
    scale_embedding: bool = setting(
        True, "multiply embeddings by the square root of d_model (section 3.4)"
    )
    embedding_norm: bool = setting(
        False, "apply layer normalisation to the sums of embeddings and positions; not in the paper"
    )
    source_bias: bool = setting(
        False,
        "add one learned vector to all source embeddings, like tensor2tensor's target-space "
        "embedding; not in the paper",
    )
    source_end: bool = setting(
        True, "let the encoder read the EOS of the source; OpenNMT-tf's models do not"
    )
    softmax_bias: bool = setting(False, "add a bias to each logit; not in the paper")
    start_id: int = setting(
        0, "token id whose embedding is the decoder's first input; 0 = a zero vector", minimum=0
    )
    sinusoids: str = setting(
        "interleaved",
        "layout of sinusoidal positions (section 3.5): interleaved = sine and cosine alternate;"
        " concatenated = first all sines, then all cosines; tensor2tensor = concatenated, and "
        "the longest wavelength is exactly 10000 · 2 pi",
        choices=("interleaved", "concatenated", "tensor2tensor"),
    )
    first_position: int = setting(
        0, "position number of the first token", minimum=0, maximum=65_535
    )
    max_positions: int = setting(
        256,
        "number of rows of the tables of positions=learned; later positions share the last row",
        minimum=1,
    )
    recompute: bool = setting(
        False,
        "gradient checkpointing: keep only the input of each layer and recompute the rest in "
        "the backward pass; less memory, more time, the same update",
    )

    def shares_input(self, source_vocab_size: int | None) -> bool:
        """Returns whether source and target read the same embeddings.

        Args:
          source_vocab_size: number of ids of the source's own vocabulary; None = it has none.

        Raises:
          UserError: there are two vocabularies, which cannot share embeddings.
        """
        is_shared = self.share_embeddings in ("all", "input")
        if is_shared and source_vocab_size:
            raise UserError(
                f"share_embeddings={self.share_embeddings} needs one vocabulary, got two. Set "
                f"--hparams=share_embeddings=target, or none; or shared_vocabulary=true in "
                f"--problem_config.",
                code="conflicting_settings",
            )
        return is_shared

    def depths(self) -> tuple[int, int]:
        """Returns how many layers the encoder and the decoder have."""
        return (
            self.num_encoder_layers or self.num_layers,
            self.num_decoder_layers or self.num_layers,
        )

    def parameter_heads(self) -> int:
        """Returns h_p, or 0 without attention over parameters."""
        has_parameter_heads = self.feed_forward == "parameter_attention"
        return self.parameter_attention_heads if has_parameter_heads else 0

    def count_weights(self, vocab_size: int, source_vocab_size: int | None = None) -> int:
        """Returns the number of weights of the Transformer.

        Args:
          vocab_size: number of ids.
          source_vocab_size: number of ids of the source's own vocabulary; None = it has none.
        """
        d_model, d_ff, (d_k, d_v) = self.d_model, self.d_ff, self.head_widths(self.d_model)
        attention, norm = 2 * self.num_heads * d_model * (d_k + d_v), 2 * d_model
        if self.attention_bias:
            attention += 2 * self.num_heads * d_k + self.num_heads * d_v + d_model
        feed_forward = 2 * d_model * d_ff + d_ff + d_model
        if heads := self.parameter_heads():
            feed_forward = heads * (d_model + d_ff) * (d_k + d_v)
        positions = 2 * self.max_positions * (self.positions == "learned")
        encoder_depth, decoder_depth = self.depths()
        layers = encoder_depth * (attention + feed_forward + 2 * norm)
        layers += decoder_depth * (2 * attention + feed_forward + 3 * norm)
        rows = vocab_size + positions + self.source_bias
        rows += (source_vocab_size or vocab_size) * (not self.shares_input(source_vocab_size))
        rows += vocab_size * (self.share_embeddings in ("input", "none"))
        norms = 2 * norm * (self.pre_norm + self.embedding_norm)
        return rows * d_model + layers + norms + vocab_size * self.softmax_bias


# tensor2tensor's names, for users who come from there.
TENSOR2TENSOR_NAMES = {
    "hidden_size": "d_model",
    "filter_size": "d_ff",
    "num_hidden_layers": "num_layers",
    "attention_key_channels": "d_k, and is per head: divide the value by num_heads",
    "attention_value_channels": "d_v, and is per head: divide the value by num_heads",
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
class HParams(ModelConfig):
    """The hyperparameters of a run; the defaults are the paper's base model (Table 3).

    `set_name`, the registered set that the values started from, is not a hyperparameter.
    """

    loss: str = setting(
        "cross_entropy", "training loss (section 5.4; all: --registry_help)", choices=LOSSES
    )
    label_smoothing: float = setting(
        0.1,
        "epsilon_ls, probability spread over the whole vocabulary (section 5.4)",
        minimum=0.0,
        maximum=0.99,
    )
    schedule: str = setting(
        "transformer",
        "learning rate schedule (section 5.3): transformer, inverse_square_root, cosine, or a "
        "registered one",
        choices=SCHEDULES,
    )
    learning_rate: float = setting(
        1.0,
        "factor of schedule=transformer (section 5.3); with inverse_square_root or cosine, the "
        "peak learning rate, such as 0.001",
        minimum=0.0,
    )
    warmup_steps: int = setting(4000, "number of steps of linear warm-up (section 5.3)", minimum=1)
    optimizer: str = setting(
        "adam",
        "optimizer (section 5.3): adam, adamw, lion, adafactor, or a registered one",
        choices=OPTIMIZERS,
    )
    adam_beta1: float = setting(
        0.9,
        "beta_1, decay rate of the mean of gradients (section 5.3)",
        minimum=0.0,
        maximum=0.999999,
    )
    adam_beta2: float = setting(
        0.98,
        "beta_2, decay rate of the mean of squared gradients (section 5.3)",
        minimum=0.0,
        maximum=0.999999,
    )
    adam_epsilon: float = setting(1e-9, "Adam's epsilon (section 5.3)", minimum=0.0)
    weight_decay: float = setting(
        0.0,
        "decoupled weight decay per step, multiplied by the learning rate; not for biases and "
        "scales, nor with optimizer=adam",
        minimum=0.0,
    )
    clip_norm: float = setting(
        0.0, "maximum global norm of the gradient; 0 = no clipping, as in the paper", minimum=0.0
    )
    ema_decay: float = setting(
        0.0,
        "decay per step of a moving average of the weights, such as 0.999; evaluations and "
        "best/ use the average; 0 = none",
        minimum=0.0,
        maximum=0.999999,
    )
    trainable: tuple[str, ...] = setting(
        (),
        "weights to train: regular expressions that match full names, as [encoder.*]; others "
        "are frozen; with lora_rank, the matrices to adapt; [] = all",
    )
    lora_rank: int = setting(
        0,
        "rank of LoRA adapters (Hu et al., 2021), trained instead of the matrices of "
        "--warm_start_from; 0 = none",
        minimum=0,
    )
    lora_alpha: float = setting(
        0.0,
        "scale of LoRA adapters: their output is multiplied by lora_alpha / lora_rank; 0 = by 1",
        minimum=0.0,
    )
    train_steps: int = setting(100_000, "number of optimizer steps (section 5.2)", minimum=0)
    batch_tokens: int = setting(
        25_000,
        "maximum source tokens, and maximum target tokens, of one optimizer step over all "
        "replicas together, without padding (section 5.1)",
        minimum=1,
    )
    batching: str = setting(
        "auto",
        "pairs of a step: length = of similar length (section 5.1); rows = any, packed in rows of "
        "several pairs; auto = rows where each shape is compiled (JAX, --xla), else length; a run "
        "keeps its choice",
        choices=("auto", "length", "rows"),
    )
    microbatch_tokens: int = setting(
        4096,
        "maximum tokens per side, padding included, that one replica processes at once; larger "
        "steps accumulate gradients, with the same update; auto (or 0) = a whole step, halved "
        "until it fits in memory",
        minimum=0,
        words={"auto": 0},
    )
    max_length: int = setting(
        256,
        "maximum tokens per side of a training pair; longer pairs are left out and counted",
        minimum=2,
        maximum=65_535,
    )
    subword_sampling: float = setting(
        0.0,
        "subword regularisation of training text; 0 = off; with a bpe vocabulary, BPE-dropout's"
        " p (0.1); with a unigram vocabulary, alpha (0.1 to 0.5; lower = more varied)",
        minimum=0.0,
        maximum=1.0,
    )
    subword_nbest: int = setting(
        0,
        "number of best segmentations to sample from, with a unigram vocabulary; 0 = all",
        minimum=0,
    )
    compute_dtype: str = setting(
        "float32",
        "dtype of matrix products, bfloat16 or float16 for mixed precision; weights, softmax, "
        "layer normalisation and loss stay float32",
        choices=("float32", "bfloat16", "float16"),
    )
    reduction_dtype: str = setting(
        "float32",
        "dtype in which replicas exchange gradients; bfloat16 halves the traffic and rounds",
        choices=("float32", "bfloat16"),
    )
    set_name: str = dataclasses.field(default="", compare=False, repr=False)

    def config(self) -> dict[str, Any]:
        """Returns every hyperparameter by name."""
        return {name: json_value(value) for name, value in vars(self).items() if name != "set_name"}


# Hyperparameter -> (what decides if it is used, values that leave it unused, one that uses it).
_DEPENDENCIES = {
    "parameter_attention_heads": ("feed_forward", ("feed_forward",), "parameter_attention"),
    "max_positions": ("positions", ("sinusoidal", "rotary", "none"), "learned"),
    "sinusoids": ("positions", ("learned", "rotary", "none"), "sinusoidal"),
    "weight_decay": ("optimizer", ("adam",), "adamw"),
    "lora_alpha": ("lora_rank", (0,), 8),
    "subword_nbest": ("subword_sampling", (0,), 0.1),
    "first_position": ("positions", ("rotary", "none"), "sinusoidal"),
}


def override_hparams(hparams: HParams, changes: str | Mapping[str, Any]) -> HParams:
    """Returns `hparams` with some values changed ("name=value,..." or a mapping).

    Raises:
      UserError: an unknown name (for a name of tensor2tensor, the error has the name used here), a
        wrong type, a value out of range, or values that do not fit together.
    """
    original, names = hparams, TENSOR2TENSOR_NAMES
    hparams = settings.override(hparams, changes, noun="hyperparameter", new_names=names)
    for name, (chooser, unused_with, used_with) in _DEPENDENCIES.items():
        is_changed = getattr(hparams, name) != getattr(original, name)
        if is_changed and (choice := getattr(hparams, chooser)) in unused_with:
            raise UserError(
                f"{name} has no effect with {chooser}={choice}: set {chooser}={used_with}.",
                code="conflicting_settings",
            )
    if hparams.d_model % 2:
        raise UserError(
            f"d_model must be even, got {hparams.d_model}: sines and cosines come in pairs "
            f"(section 3.5).",
            code="bad_value",
        )
    if hparams.positions == "learned" and hparams.first_position >= hparams.max_positions:
        raise UserError(
            f"first_position={hparams.first_position} must be below max_positions="
            f"{hparams.max_positions}, the number of rows of positions=learned.",
            code="conflicting_settings",
        )
    d_k, _ = hparams.head_widths(hparams.d_model)
    if hparams.positions == "rotary" and d_k % 2:
        raise UserError(
            f"positions=rotary rotates pairs of units: d_k must be even, got {d_k}.",
            code="bad_value",
        )
    if hparams.compute_dtype == "float16" and hparams.optimizer != "adam":
        raise UserError(
            f"compute_dtype=float16 needs optimizer=adam, got optimizer={hparams.optimizer}. Set "
            f"compute_dtype=bfloat16.",
            code="conflicting_settings",
        )
    is_peak = hparams.schedule in ("cosine", "inverse_square_root")
    if is_peak and hparams.learning_rate >= 1 and hparams.optimizer in ("adam", "adamw", "lion"):
        raise UserError(
            f"learning_rate is the peak of schedule={hparams.schedule}: expected less than "
            f"1, such as 0.001, got {hparams.learning_rate}.",
            code="conflicting_settings",
        )
    for pattern in hparams.trainable:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UserError(
                f"trainable: expected regular expressions such as encoder.*, got '{pattern}' "
                f"({error}).",
                code="bad_value",
            ) from error
    microbatch = hparams.microbatch_tokens or hparams.batch_tokens
    if hparams.max_length > min(microbatch, hparams.batch_tokens):
        raise UserError(
            f"max_length={hparams.max_length} must be at most microbatch_tokens="
            f"{hparams.microbatch_tokens} and batch_tokens={hparams.batch_tokens}, so that one "
            f"sentence fits. Lower max_length or raise the others.",
            code="conflicting_settings",
        )
    return hparams


def hparams(name: str, overrides: str | Mapping[str, Any] = "", **changes: Any) -> HParams:
    """Returns the hyperparameter set called `name`, with some values changed.

    Raises:
      UserError: no such set, no such hyperparameter, a wrong type or a value out of range.
    """
    new_hparams = override_hparams(override_hparams(HPARAMS_SETS[name](), overrides), changes)
    return dataclasses.replace(new_hparams, set_name=name)


def changed_hparams(hparams: HParams, hparams_set: str = "transformer_base") -> dict[str, Any]:
    """Returns the values that differ from a set's; or from the base model's, without such a set."""
    # The directory of a user's own set may not have been imported.
    is_registered = hparams_set in HPARAMS_SETS
    reference = (HPARAMS_SETS[hparams_set]() if is_registered else HParams()).config()
    # A user's own set may have hyperparameters of its own.
    return {name: value for name, value in hparams.config().items() if value != reference.get(name)}


def take_config(
    config_class: type[Config], config: LayerConfig | None, arguments: dict[str, Any]
) -> Config:
    """Returns the config of a layer or model from its constructor's arguments.

    Args:
      config_class: the class of the config.
      config: the values; None = the defaults. An instance of this library's classes is reduced to
        the fields of `config_class`; an instance of a user's class keeps all its fields.
      arguments: keyword arguments. Those that are fields replace values and are removed; so is
        `config_class`, in which `config_arguments` names a user's class.

    Raises:
      UserError: the class of that name has not been imported, or a value has a wrong type or is
        out of range.
    """
    if name := arguments.pop("config_class", None):
        if name not in _CONFIG_CLASSES:
            raise UserError(
                f"The model needs the class {name}. Import its module first.", code="not_registered"
            )
        config = _CONFIG_CLASSES[name]()
    result: Any = config or config_class()  # A user's own class extends `config_class`.
    if type(result).__module__ == __name__:
        names = [field.name for field in dataclasses.fields(config_class)]
        result = config_class(**{name: getattr(result, name) for name in names})
    names = [field.name for field in dataclasses.fields(result) if field.name in arguments]
    values = {name: arguments.pop(name) for name in names}
    result = dataclasses.replace(result, **settings.convert_all(type(result), values, "argument"))
    settings.check(result, "argument")
    return result


def config_arguments(config: LayerConfig) -> dict[str, Any]:
    """Returns keyword arguments, as JSON, from which `take_config` makes the same config."""
    cls = type(config)
    if cls.__module__ == __name__:
        return dataclasses.asdict(config)
    return dataclasses.asdict(config) | {"config_class": f"{cls.__module__}.{cls.__qualname__}"}
