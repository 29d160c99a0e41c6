"""Checkpoints as `.npz`: NumPy's arrays by name, for backends without TensorFlow.

It reads and writes the variables of any backend, so that TensorFlow can continue what JAX wrote.
"""

import functools
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from t2t_keras.io.atomic import replaced_atomically
from t2t_keras.training.checkpoints import base, names
from t2t_keras.training.optimizer import Adam
from t2t_keras.training.trained_parts import merged, name_in

SUFFIX = names.NPZ_SUFFIX
_MODEL = "model"

checkpoint_paths = functools.partial(names.checkpoint_paths, suffix=SUFFIX)
newest_checkpoint = functools.partial(names.newest_checkpoint, suffix=SUFFIX)


class Checkpoints(base.Checkpoints):
    """See `checkpoints.base`.

    The state has "model", by name what else is kept: a variable, or a mapping of such, and
    "optimizer" is Keras's. The weight `encoder_0/self_attention/query/kernel` is the array
    `model/encoder_0/self_attention/query/kernel`.
    """

    suffix = SUFFIX

    def restore(self, path: str) -> None:
        """See `checkpoints.base`."""
        load_state(self._state, path)

    def _write(self, path: str) -> None:
        arrays = {
            name: keras.ops.convert_to_numpy(variable.value)
            for name, variable in _named_variables(self._state).items()
        }
        with replaced_atomically(Path(path)) as file:
            np.savez(file, **arrays)


def load_state(state: Mapping[str, Any], path: str | Path) -> set[str]:
    """Restores variables from a checkpoint; returns the names of its arrays beside them.

    One that is missing, damaged or of a model with other hyperparameters raises `UserError`.
    """
    path = names.existing_checkpoint(path, SUFFIX)
    return _assign(_named_variables(state), _read(path), path)


def load_weights(model: keras.Model, path: str | Path) -> set[str]:
    """Restores the weights of a model, on any backend, with those of adapters merged.

    Returns and raises what `load_state` does.
    """
    path = names.existing_checkpoint(path, SUFFIX)
    variables = _named_variables({_MODEL: model})
    own = {name: each for name, each in variables.items() if "/lora_" not in name}
    with base.named_alternative(path, SUFFIX, _read):
        arrays = merged(_read(path))
    return _assign(own, arrays, path)


def _assign(variables: Mapping[str, Any], arrays: Mapping[str, np.ndarray], path: str) -> set[str]:
    missing = [name for name in variables if name not in arrays]
    if missing and not any(name.startswith(f"{_MODEL}/") for name in missing):
        raise base.WeightsOnlyError(path)
    wrong = [
        f"{name} is {list(arrays[name].shape)} there, {list(variable.shape)} in the model"
        for name, variable in variables.items()
        if name in arrays and arrays[name].shape != tuple(variable.shape)
    ]
    # A weight that the model does not have is as wrong as one that the checkpoint lacks.
    wrong += [f"{name} is not there" for name in missing]
    beside = sorted(set(arrays) - set(variables))
    wrong += [f"{name} is not in the model" for name in beside if name.startswith(f"{_MODEL}/")]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise base.other_hyperparameters(path, f"{wrong[0]}{more}")
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return set(beside)


def _named_variables(state: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the variables of a state (see `Checkpoints`) by the names of their arrays."""
    model, optimizer = state[_MODEL], state.get("optimizer")
    nested = {**state, _MODEL: {name_in(model, weight): weight for weight in model.weights}}
    if isinstance(optimizer, keras.optimizers.Optimizer):
        trained = [name_in(model, weight) for weight in model.trainable_weights]
        named = optimizer.named_variables(trained) if isinstance(optimizer, Adam) else {}
        if len(keras.tree.flatten(named)) != len(optimizer.variables):
            named = {}
            for each in optimizer.variables:
                # Their paths begin with the name of the optimizer; Adafactor's are not unique.
                name = each.path.partition("/")[2]
                named[f"{name}_{len(named)}" if name in named else name] = each
        nested["optimizer"] = named
    return {"/".join(path): each for path, each in keras.tree.flatten_with_path(nested)}


def _read(path: str) -> dict[str, np.ndarray]:
    """Reads all arrays, and with them their checksums."""
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not a complete zip archive")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # BadZipFile, ValueError, EOFError ... as the damage may be.
        raise base.unreadable(path, error) from error
