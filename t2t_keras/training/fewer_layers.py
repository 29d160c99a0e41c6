"""A model's first weights from one with more layers, as a student has them of its teacher."""

import re

import keras

from t2t_keras.training.checkpoints.run_checkpoints import load_weights, other_hyperparameters
from t2t_keras.training.run_config import RunConfig
from t2t_keras.training.trained_parts import name_in, own_weights

_IN_LAYER = re.compile(r"(encoder|decoder)_(\d+)/(.*)")


def layers_to_keep(count: int, of: int) -> list[int]:
    """Returns which layers a model of `count` takes of one with more: evenly spread, the first too.

    With more than one, the last as well (Shleifer and Rush, 2020: "Pre-trained Summarization
    Distillation", section 3).
    """
    return [round(number * (of - 1) / max(count - 1, 1)) for number in range(count)]


def load_fewer_layers(model: keras.Model, config: RunConfig, other: RunConfig, path: str) -> None:
    """Loads the weights of a run with as many or more layers, and prints which layers are kept.

    Args:
      model: what is trained.
      config: the run that begins.
      other: the other.
      path: of its checkpoint.

    Raises:
      UserError: the model has more layers than there are, or another width; or the checkpoint has
        weights beside its layers that the model has not, or cannot be read.
    """
    kept = {}
    for stack, ours, theirs in zip(
        ("encoder", "decoder"), config.hparams.depths(), other.hparams.depths(), strict=True
    ):
        if ours > theirs:
            raise other_hyperparameters(path, f"it has {theirs} layers in the {stack}, not {ours}")
        kept[stack] = layers_to_keep(ours, theirs)
    old = other.make_model(loaded=True)
    load_weights(old, path)
    found = {name_in(old, weight): weight for weight in own_weights(old)}
    for weight in own_weights(model):
        name = name_in(model, weight)
        if inside := _IN_LAYER.fullmatch(name):
            stack, number, rest = inside.groups()
            name = f"{stack}_{kept[stack][int(number)]}/{rest}"
        if name not in found or found[name].shape != weight.shape:
            shape = [*found[name].shape] if name in found else "not"
            raise other_hyperparameters(path, f"{name} is {shape} there, {[*weight.shape]} here")
        weight.assign(found.pop(name).value)
    for name, weight in found.items():
        inside = _IN_LAYER.fullmatch(name)
        if not inside or int(inside[2]) in kept[inside[1]]:
            raise other_hyperparameters(
                path,
                f"{name} is {[*weight.shape]} there, not here. Give the same hyperparameters, but "
                f"fewer layers",
            )
    said = (f"{stack} {', '.join(map(str, numbers))}" for stack, numbers in kept.items())
    print(f"Layers kept, from 0: {'; '.join(said)}.")
