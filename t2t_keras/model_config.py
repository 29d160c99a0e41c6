"""What shapes a Transformer: `HParams` extends `ModelConfig`, which extends `LayerConfig`.

Models and layers take the same fields as keyword arguments.
"""

import dataclasses
from typing import Any, TypeVar

from t2t_keras.settings import setting

Config = TypeVar("Config", bound="LayerConfig")


def _dropout(default: float, meaning: str) -> Any:
    return setting(default, meaning, minimum=0.0, maximum=0.99)


@dataclasses.dataclass(frozen=True)
class LayerConfig:
    """The settings of an encoder or decoder layer; the defaults are the paper's base model."""

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
        "share of the feed-forward sub-layer's inner units dropped after the ReLU; for attention "
        "over parameters, of its weights after the softmax",
    )
    self_attention_radius: int = setting(
        0,
        "how many positions away self-attention sees: the neighbourhood r of section 4 is "
        "2 * radius + 1; 0 = all",
        minimum=0,
    )
    parameter_attention_heads: int = setting(
        0,
        "h_p, heads of an attention over parameters that replaces the feed-forward sub-layer; "
        "0 = feed-forward",
        minimum=0,
    )
    pre_norm: bool = setting(
        False,
        "normalise the input of each sub-layer and the output of each stack, as tensor2tensor's "
        "later models do; false = normalise the residual sums (section 3.1)",
    )

    def resolve_head_widths(self, d_model: int) -> tuple[int, int]:
        """Returns (d_k, d_v) with 0 replaced by d_model / num_heads."""
        return self.d_k or d_model // self.num_heads, self.d_v or d_model // self.num_heads


@dataclasses.dataclass(frozen=True)
class ModelConfig(LayerConfig):
    """The settings of a Transformer but for its vocabulary; the defaults are the base model."""

    num_layers: int = setting(
        6, "N, layers of the encoder and of the decoder (section 3.1)", minimum=1
    )
    d_model: int = setting(512, "width of embeddings and sub-layers (section 3.1)", minimum=2)
    symbol_dropout: float = _dropout(
        0.0,
        "share of the ids read by the embeddings that become the unknown id; never in the loss",
    )
    learned_positions: int = setting(
        0,
        "rows of the learned position tables, of source and of target (Table 3, row E); later "
        "positions share the last row; 0 = sinusoids (section 3.5)",
        minimum=0,
    )
    recompute: bool = setting(
        False,
        "keep only the input of each layer, and compute the layer again for its gradient: less "
        "memory, more time, the same update",
    )

    def head_widths(self) -> tuple[int, int]:
        """Returns (d_k, d_v) with 0 replaced by d_model / num_heads."""
        return self.resolve_head_widths(self.d_model)


def settings_of(config_class: type, source: Any) -> dict[str, Any]:
    """Returns the values that an object has for the fields of a config class, by name."""
    return {field.name: getattr(source, field.name) for field in dataclasses.fields(config_class)}


def take_settings(config_class: type[Config], arguments: dict[str, Any]) -> Config:
    """Makes a config of those keyword arguments that are its fields, and removes them."""
    names = [field.name for field in dataclasses.fields(config_class)]
    return config_class(**{name: arguments.pop(name) for name in names if name in arguments})
