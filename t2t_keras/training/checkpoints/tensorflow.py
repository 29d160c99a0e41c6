"""TensorFlow's checkpoints, as `tf.train.latest_checkpoint` finds them."""

import contextlib
import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from t2t_keras.errors import UserError
from t2t_keras.io.atomic import write_atomically
from t2t_keras.io.plain_path import plain_path
from t2t_keras.training.checkpoints import base, names
from t2t_keras.training.trained_parts import LORA_SCALE, own_weights

SUFFIX = names.TENSORFLOW_SUFFIX
_LIST = "checkpoint"  # Written after each of them.
# TensorFlow does not see a file that is there, or has no room for it.
_NOT_DAMAGE = (tf.errors.NotFoundError, tf.errors.ResourceExhaustedError)

checkpoint_paths = functools.partial(names.checkpoint_paths, suffix=SUFFIX)
newest_checkpoint = functools.partial(names.newest_checkpoint, suffix=SUFFIX)


class Checkpoints(base.Checkpoints):
    """See `checkpoints.base`; the state is the arguments of `tf.train.Checkpoint`."""

    suffix = SUFFIX
    write_errors = (OSError, tf.errors.OpError)

    def __init__(self, directory: str | Path, state: Mapping[str, Any], keep: int):
        super().__init__(directory, state, keep)
        with plain_path(self._directory):  # What could not be read again is not written.
            pass
        self._checkpoint = tf.train.Checkpoint(**state)

    def restore(self, path: str) -> None:
        """See `checkpoints.base`."""
        saved = _read(path)
        if "optimizer" in self._state and not any(name.startswith("optimizer/") for name in saved):
            raise base.WeightsOnlyError(path)
        with plain_path(path) as plain:
            self._checkpoint.restore(plain).assert_existing_objects_matched()

    def _write(self, path: str) -> None:
        # `tf.train.Checkpoint.restore` expects the counter.
        self._checkpoint.save_counter.assign_add(1)
        self._checkpoint.write(path)

    def _has_saved(self) -> bool:
        return (self._directory / _LIST).exists()

    def _list(self, paths: Sequence[str]) -> None:
        # The text form of TensorFlow's `CheckpointState`.
        lines = [f'model_checkpoint_path: "{Path(paths[-1]).name}"']
        lines += [f'all_model_checkpoint_paths: "{Path(path).name}"' for path in paths]
        write_atomically(self._directory / _LIST, "\n".join([*lines, ""]).encode())


def load_weights(model: keras.Model, path: str | Path) -> None:
    """Restores a model's weights, and nothing else, from a path such as `run/model.ckpt-1000`.

    Those of adapters are merged with the matrices that they belong to.

    One that is missing, damaged or of a model with other hyperparameters raises `UserError`.
    """
    path = names.existing_checkpoint(path, SUFFIX)
    with base.named_alternative(path, SUFFIX, _read):
        arrays = _read_model(path)
    own = own_weights(model)
    held, expected = (sum(math.prod(x.shape) for x in each) for each in (arrays.values(), own))
    # What only the checkpoint has would go unnoticed.
    if held != expected:
        reason = f"it has {held:,} weights, the model {expected:,}"
        raise base.other_hyperparameters(path, reason)
    with plain_path(path) as plain:
        both = tf.train.CheckpointView(plain).match(tf.train.Checkpoint(model=model))
    found = {id(weight): arrays[number] for number, weight in both.items() if number in arrays}
    for weight in own:
        array, shape = found.get(id(weight)), tuple(weight.shape)
        if array is None or array.shape != shape:
            there = "not there" if array is None else f"{list(array.shape)} there"
            reason = f"{weight.path} is {there}, {list(shape)} in the model"
            raise base.other_hyperparameters(path, reason)
    for weight in own:
        weight.assign(found[id(weight)])


def _read(path: str) -> list[str]:
    """Reads all values and returns their names.

    With them it reads their checksums, before anything is restored: a `tf.train.Checkpoint` that
    fails half-way goes on waiting for the rest of the damaged file, and TensorFlow logs what it
    finds.
    """
    with _open(path) as reader:
        found = list(reader.get_variable_to_shape_map())
        for name in found:
            reader.get_tensor(name)
    return found


def _read_model(path: str) -> dict[int, np.ndarray]:
    """Returns the values of what was saved as "model", by node, with those of adapters merged."""
    with _open(path) as reader:
        graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
            reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
        )
        nodes = {}
        for at, number in _nodes_in_model(graph).items():
            for value in graph.nodes[number].attributes:
                nodes[at] = number, reader.get_tensor(value.checkpoint_key)
        arrays = {number: array for at, (number, array) in nodes.items() if "/lora_" not in at}
        for at, (_, a) in nodes.items():
            if factor := re.fullmatch(r"(.*)/lora_(\w+)_a", at):
                _, b = nodes[f"{at.removesuffix('_a')}_b"]
                number, matrix = nodes[f"{factor[1]}/_{factor[2]}"]
                scale = reader.get_tensor(f"{LORA_SCALE}/.ATTRIBUTES/VARIABLE_VALUE")
                arrays[number] = matrix + scale * (a @ b)
    return arrays


@contextlib.contextmanager
def _open(path: str) -> Iterator[Any]:
    """Yields TensorFlow's reader; a checkpoint that cannot be read is a `UserError`."""
    try:
        with plain_path(path) as plain:
            yield tf.train.load_checkpoint(plain)
    except UserError:
        raise
    except Exception as error:  # An OpError, IndexError, RuntimeError ... as the damage may be.
        raise base.unreadable(path, error, isinstance(error, _NOT_DAMAGE)) from error


def _nodes_in_model(graph) -> dict[str, int]:
    """Returns the nodes of what was saved as "model", by the path of attributes from there.

    The name of a value does not tell: it may be a path from the optimizer.
    """
    waiting = [
        (child.node_id, "") for child in graph.nodes[0].children if child.local_name == "model"
    ]
    seen, found = {number for number, _ in waiting}, {}
    while waiting:
        number, path = waiting.pop()
        found[path] = number
        for child in graph.nodes[number].children:
            if child.node_id not in seen:
                waiting.append((child.node_id, f"{path}/{child.local_name}".lstrip("/")))
                seen.add(child.node_id)
    return found
