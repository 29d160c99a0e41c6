"""What a format for other programs can have of a translator."""

from collections.abc import Collection, Mapping
from typing import Any

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import ModelConfig
from t2t_keras.models.transformer import Transformer


def supported_model(
    translator: Translator, name: str, refused_settings: Collection[str] = ()
) -> Transformer:
    """Returns the model of a translator for a format, which takes one Transformer.

    Raises:
      UserError: it has other models, forbids phrases, or has another value than the default of a
        setting that the format refuses.
    """
    kinds = [type(model) for model in translator.models]
    if kinds != [Transformer]:
        names = ", ".join(kind.__name__ for kind in kinds) or translator.engine.name
        raise UserError(
            f"--format={name}: expected one Transformer, got {names}.", code="not_supported"
        )
    given, default = vars(translator.config), vars(DecodeConfig())
    changed = [f"{n}={given[n]}" for n in refused_settings if given[n] != default[n]]
    changed += [f"forbidden={', '.join(translator.forbidden)}"] * bool(translator.forbidden)
    if changed:
        raise UserError(
            f"--format={name} cannot have {' and '.join(changed)}: leave it out.",
            code="not_supported",
        )
    return translator.models[0]


def check_config(config: ModelConfig, name: str, allowed: Mapping[str, Collection[Any]]) -> None:
    """Raises `UserError` where a model's settings are not among the values that a format allows."""
    refused = {n: values for n, values in allowed.items() if getattr(config, n) not in values}
    if refused:
        given = " and ".join(f"{n}={getattr(config, n)}" for n in refused)
        expected = "; ".join(f"{n} in {', '.join(map(str, refused[n]))}" for n in refused)
        raise UserError(
            f"--format={name} cannot represent {given}: expected {expected}. Use "
            f"--format=saved_model, or litert for greedy decoding.",
            code="not_supported",
        )
