"""A model's first weights from one with more layers, as a student has them of its teacher."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from t2t_keras.training.checkpoints.run_checkpoints import other_hyperparameters
from t2t_keras.training.run_config import RunConfig

_IN_LAYER = re.compile(r"(encoder|decoder)_(\d+)/(.*)")


def layers_to_keep(count: int, of: int) -> list[int]:
    """Returns which layers a model of `count` takes of one with more: evenly spread, the first too.

    With more than one, the last as well (Shleifer and Rush, 2020: "Pre-trained Summarization
    Distillation", section 3).
    """
    return [round(number * (of - 1) / max(count - 1, 1)) for number in range(count)]


def fewer_layers(
    weights: Mapping[str, np.ndarray], config: RunConfig, other: RunConfig, path: str
) -> dict[str, np.ndarray]:
    """Returns the weights for a run with as many or fewer layers; prints which layers are kept.

    Args:
      weights: of the other run, by name.
      config: the run that begins.
      other: the other.
      path: of its checkpoint, for errors.

    Raises:
      UserError: the run that begins has more layers than there are.
    """
    kept: dict[str, Sequence[int]] = {}
    for stack, ours, theirs in zip(
        ("encoder", "decoder"), config.hparams.depths(), other.hparams.depths(), strict=True
    ):
        if ours > theirs:
            raise other_hyperparameters(path, f"it has {theirs} layers in the {stack}, not {ours}")
        kept[stack] = layers_to_keep(ours, theirs)
    numbers = (f"{stack} {', '.join(map(str, layers))}" for stack, layers in kept.items())
    print(f"Layers kept, from 0: {'; '.join(numbers)}.")
    left = {}
    for name, array in weights.items():
        if in_layer := _IN_LAYER.fullmatch(name):
            stack, number, rest = in_layer.groups()
            if int(number) not in kept[stack]:
                continue
            name = f"{stack}_{kept[stack].index(int(number))}/{rest}"
        left[name] = array
    return left
