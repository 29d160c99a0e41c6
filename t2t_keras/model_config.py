"""What shapes a Transformer: `HParams` extends `ModelConfig`, which extends `LayerConfig`.

Models and layers take the same fields as keyword arguments, or one such object.
"""

import dataclasses
from typing import Any, TypeVar

from t2t_keras.errors import UserError
from t2t_keras.settings import Registry, setting

Config = TypeVar("Config", bound="LayerConfig")

ACTIVATIONS = Registry("activation", "t2t_keras.layers")
FEED_FORWARDS = Registry("feed-forward layer", "t2t_keras.layers")
POSITION_ENCODINGS = Registry("position encoding", "t2t_keras.layers")
# All classes of configs by their full names, for models that are loaded from files.
_CLASSES: dict[str, type["LayerConfig"]] = {}


def _name(config_class: type) -> str:
    return f"{config_class.__module__}.{config_class.__qualname__}"


def _dropout(default: float, meaning: str) -> Any:
    return setting(default, meaning, minimum=0.0, maximum=0.99)


@dataclasses.dataclass(frozen=True)
class LayerConfig:
    """The settings of an encoder or decoder layer; the defaults are the paper's base model."""

    def __init_subclass__(cls) -> None:
        _CLASSES[_name(cls)] = cls

    num_heads: int = setting(8, "h, parallel attention heads (section 3.2.2)", minimum=1)
    d_k: int = setting(
        0, "width of a head's queries and keys; 0 = d_model / num_heads (section 3.2.2)", minimum=0
    )
    d_v: int = setting(
        0, "width of a head's values; 0 = d_model / num_heads (section 3.2.2)", minimum=0
    )
    d_ff: int = setting(
        2048,
        "inner width of the feed-forward sub-layer (section 3.3); for attention over parameters, "
        "n_p, the key-value pairs of a head",
        minimum=1,
    )
    dropout: float = _dropout(
        0.1,
        "P_drop, share of units dropped from each sub-layer's output and from the embedding sums "
        "(section 5.4)",
    )
    attention_dropout: float = _dropout(0.0, "share of attention weights dropped after the softmax")
    relu_dropout: float = _dropout(
        0.0,
        "share of the feed-forward sub-layer's inner units dropped after the activation; for "
        "attention over parameters, of its weights after the softmax",
    )
    activation: str = setting(
        "relu",
        "function of the feed-forward sub-layer's inner units (section 3.3: relu)",
        choices=ACTIVATIONS,
    )
    feed_forward: str = setting(
        "feed_forward",
        "layer that is the second sub-layer; parameter_attention = attention over parameters",
        choices=FEED_FORWARDS,
    )
    self_attention_radius: int = setting(
        0,
        "how many positions away self-attention sees: the neighbourhood r of section 4 is "
        "2 * radius + 1; 0 = all",
        minimum=0,
    )
    parameter_attention_heads: int = setting(
        8,
        "h_p, heads of an attention over parameters (feed_forward=parameter_attention)",
        minimum=1,
    )
    attention_bias: bool = setting(
        False, "biases in the projections of attention, as other toolkits have; none in the paper"
    )
    pre_norm: bool = setting(
        False,
        "normalise the input of each sub-layer and the output of each stack, as tensor2tensor's "
        "later models do; false = normalise the residual sums (section 3.1)",
    )
    norm_epsilon: float = setting(
        1e-6, "added to the variance in layer normalisation", minimum=1e-12, maximum=1e-2
    )
    positions: str = setting(
        "sinusoidal",
        "how the order of a sentence enters (section 3.5); learned = from a table for the source "
        "and one for the target (Table 3, row E); rotary = by turning the queries and keys of "
        "self-attention; none",
        choices=POSITION_ENCODINGS,
    )

    def resolve_head_widths(self, d_model: int) -> tuple[int, int]:
        """Returns (d_k, d_v) with 0 replaced by d_model / num_heads."""
        return self.d_k or d_model // self.num_heads, self.d_v or d_model // self.num_heads


@dataclasses.dataclass(frozen=True)
class ModelConfig(LayerConfig):
    """The settings of a Transformer but for its vocabulary; the defaults are the base model."""

    num_layers: int = setting(
        6, "N, layers of the encoder and of the decoder (section 3.1)", minimum=1, maximum=1000
    )
    num_encoder_layers: int = setting(
        0, "layers of the encoder; 0 = num_layers", minimum=0, maximum=1000
    )
    num_decoder_layers: int = setting(
        0, "layers of the decoder; 0 = num_layers", minimum=0, maximum=1000
    )
    d_model: int = setting(512, "width of embeddings and sub-layers (section 3.1)", minimum=2)
    share_embeddings: str = setting(
        "all",
        "what shares a matrix (section 3.4): all = source, target and softmax; target = target and "
        "softmax; input = source and target; none",
        choices=("all", "target", "input", "none"),
    )
    scale_embedding: bool = setting(
        True, "multiply embeddings by the square root of d_model (section 3.4)"
    )
    embedding_norm: bool = setting(
        False, "layer normalisation of the sums of embeddings and positions; none in the paper"
    )
    source_bias: bool = setting(
        False,
        "a vector added to each embedding of the source, as tensor2tensor's for the kind of "
        "target; none in the paper",
    )
    source_end: bool = setting(
        True, "let the encoder read the source's end of sentence; OpenNMT-tf's models do not"
    )
    softmax_bias: bool = setting(False, "a bias for each logit; none in the paper")
    start_id: int = setting(
        0, "id whose embedding is the decoder's first input; 0 = a zero vector", minimum=0
    )
    sinusoids: str = setting(
        "interleaved",
        "order of sinusoidal positions (section 3.5): sines and cosines interleaved, or "
        "concatenated; tensor2tensor = concatenated, with wavelengths up to 10000 · 2 pi itself",
        choices=("interleaved", "concatenated", "tensor2tensor"),
    )
    first_position: int = setting(
        0, "number of a sentence's first position", minimum=0, maximum=65_535
    )
    max_positions: int = setting(
        256, "rows of learned position tables; later positions share the last row", minimum=1
    )
    recompute: bool = setting(
        False,
        "keep only the input of each layer, and compute the layer again for its gradient: less "
        "memory, more time, the same update",
    )

    def head_widths(self) -> tuple[int, int]:
        """Returns (d_k, d_v) with 0 replaced by d_model / num_heads."""
        return self.resolve_head_widths(self.d_model)

    def shares_input(self, source_vocab_size: int | None) -> bool:
        """Returns whether source and target read the same embeddings.

        Args:
          source_vocab_size: number of ids of a source that has its own; None = shared ids.

        Raises:
          UserError: they would, and have two vocabularies.
        """
        shared = self.share_embeddings in ("all", "input")
        if shared and source_vocab_size:
            raise UserError(
                f"share_embeddings={self.share_embeddings} needs one vocabulary, got two. Set "
                f"--hparams=share_embeddings=target, or none; or shared_vocabulary=true in "
                f"--problem_config.",
                code="conflicting_settings",
            )
        return shared

    def depths(self) -> tuple[int, int]:
        """Returns how many layers the encoder and the decoder have."""
        return (
            self.num_encoder_layers or self.num_layers,
            self.num_decoder_layers or self.num_layers,
        )


def take_config(
    config_class: type[Config], config: LayerConfig | None, arguments: dict[str, Any]
) -> Config:
    """Returns the config of a layer or model from its constructor's arguments.

    Args:
      config_class: the class of the config.
      config: the values; None = the defaults. From one of this library's classes only the fields
        of `config_class` are kept; an instance of a user's class is kept whole.
      arguments: keyword arguments; those that are fields replace values, and are removed. One more,
        `config_class`, is the name that `config_arguments` has given to a user's class.

    Raises:
      UserError: the class of that name has not been imported.
    """
    if name := arguments.pop("config_class", None):
        if name not in _CLASSES:
            raise UserError(
                f"The model needs the class {name}. Import its module first.", code="not_registered"
            )
        config = _CLASSES[name]()
    given: Any = config or config_class()  # A user's own class extends `config_class`.
    if _is_ours(given):
        names = [field.name for field in dataclasses.fields(config_class)]
        given = config_class(**{name: getattr(given, name) for name in names})
    names = [field.name for field in dataclasses.fields(given) if field.name in arguments]
    return dataclasses.replace(given, **{name: arguments.pop(name) for name in names})


def config_arguments(config: LayerConfig) -> dict[str, Any]:
    """Returns the keyword arguments from which `take_config` makes the same config, as JSON."""
    own = {} if _is_ours(config) else {"config_class": _name(type(config))}
    return dataclasses.asdict(config) | own


def _is_ours(config: LayerConfig) -> bool:
    return type(config).__module__ in (__name__, f"{__package__}.hyperparameters")
