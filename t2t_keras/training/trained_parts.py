"""The weights that a run trains: all, some by name, or low-rank adapters (LoRA)."""

import re
from collections.abc import Collection, Sequence
from typing import Any

import keras
import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.training.checkpoints import LORA_SCALE, MODEL, merge_adapters, name_in


def choose_trained(model: keras.Model, hparams: HParams) -> None:
    """Makes only those weights trainable that `hparams.trainable` selects.

    With `lora_rank`, adds Keras's adapters to the selected matrices, and trains only the adapters.

    Raises:
      UserError: a pattern matches no name.
    """
    weights = {name_in(model, weight): weight for weight in model.trainable_weights}
    if not hparams.lora_rank:
        chosen_names = _matching_names(weights, hparams.trainable)
        for name, weight in weights.items():
            weight.trainable = name in chosen_names
        return
    layers = {}
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dense):
            layers[name_in(model, layer.kernel)] = layer
        elif isinstance(layer, keras.layers.Embedding):
            layers[name_in(model, layer.embeddings)] = layer
    for name in _matching_names(layers, hparams.trainable):
        layers[name].enable_lora(hparams.lora_rank, hparams.lora_alpha or None)
    for weight in weights.values():
        weight.trainable = False


def _matching_names(names: Collection[str], patterns: Sequence[str]) -> list[str]:
    """Returns the names that match one of the patterns; without patterns, all names."""
    patterns = patterns or [".*"]
    for pattern in patterns:
        if not any(re.fullmatch(pattern, name) for name in names):
            prefixes = dict.fromkeys(name.partition("/")[0] for name in names)
            raise UserError(
                f"trainable: '{pattern}' matches no full name. An example of a name is "
                f"{max(names, key=len)}; names begin with {', '.join(prefixes)}.",
                code="unknown_name",
            )
    return [name for name in names if any(re.fullmatch(pattern, name) for pattern in patterns)]


def weights_state(model: keras.Model, hparams: HParams) -> dict[str, Any]:
    """Returns a model's part of a checkpoint, which models without adapters can read too."""
    if not hparams.lora_rank:
        return {MODEL: model}
    scale = (hparams.lora_alpha or hparams.lora_rank) / hparams.lora_rank
    return {MODEL: model, LORA_SCALE: keras.Variable(scale, trainable=False, dtype="float32")}


def merged_weights(model: keras.Model, hparams: HParams) -> list[np.ndarray]:
    """Returns the model's weights as `get_weights` does, with adapters merged."""
    if not hparams.lora_rank:
        return model.get_weights()
    named_weights = {name_in(model, weight): weight for weight in model.weights}
    named_weights[LORA_SCALE] = weights_state(model, hparams)[LORA_SCALE]
    arrays = merge_adapters(
        {name: keras.ops.convert_to_numpy(weight.value) for name, weight in named_weights.items()}
    )
    del arrays[LORA_SCALE]
    return [*arrays.values()]
