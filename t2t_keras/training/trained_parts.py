"""Which of a model's weights a run trains."""

import re

import keras

from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams


def name_in(model: keras.Model, weight: keras.Variable) -> str:
    """Returns the name of a weight, as `encoder_0/self_attention/query/kernel`."""
    return weight.path.removeprefix(f"{model.name}/")


def choose_trained(model: keras.Model, hparams: HParams) -> None:
    """Makes `trainable` what `HParams` say is trained, of what a model would train.

    Raises:
      UserError: a pattern matches no name.
    """
    weights = {name_in(model, weight): weight for weight in model.trainable_weights}
    chosen = _matching(weights, hparams.trainable)
    for name, weight in weights.items():
        weight.trainable = name in chosen


def _matching(names, patterns: str) -> set[str]:
    """Returns the names that match one of the patterns, which are joined by +; "" = all."""
    chosen = set() if patterns else set(names)
    for pattern in filter(None, patterns.split("+")):
        found = {name for name in names if re.fullmatch(pattern, name)}
        if not found:
            parts = dict.fromkeys(name.partition("/")[0] for name in names)
            raise UserError(
                f"trainable={patterns}: no whole name matches '{pattern}'. Names are such as "
                f"{max(names, key=len)}; they begin with {', '.join(parts)}."
            )
        chosen |= found
    return chosen
