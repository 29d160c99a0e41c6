"""TensorFlow's checkpoints, as `tf.train.latest_checkpoint` finds them."""

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from t2t_keras.io.atomic import write_atomically
from t2t_keras.training.checkpoints import base, names
from t2t_keras.training.trained_parts import LORA_SCALE, own_weights

SUFFIX = names.TENSORFLOW_SUFFIX

checkpoint_paths = functools.partial(names.checkpoint_paths, suffix=SUFFIX)
newest_checkpoint = functools.partial(names.newest_checkpoint, suffix=SUFFIX)


class Checkpoints(base.Checkpoints):
    """See `checkpoints.base`; the state is the arguments of `tf.train.Checkpoint`."""

    suffix = SUFFIX
    write_errors = (OSError, tf.errors.OpError)

    def __init__(self, directory: str | Path, state: Mapping[str, Any], keep: int):
        super().__init__(directory, state, keep)
        self._checkpoint = tf.train.Checkpoint(**state)

    def restore(self, path: str) -> None:
        """See `checkpoints.base`."""
        values = _read(path)
        if "optimizer" in self._state and not any(name.startswith("optimizer/") for name in values):
            raise base.weights_only(path)
        self._checkpoint.restore(path).assert_existing_objects_matched()

    def _write(self, path: str) -> None:
        # `tf.train.Checkpoint.restore` expects the counter.
        self._checkpoint.save_counter.assign_add(1)
        self._checkpoint.write(path)

    def _list(self, paths: Sequence[str]) -> None:
        # The text form of TensorFlow's `CheckpointState`.
        lines = [f'model_checkpoint_path: "{Path(paths[-1]).name}"']
        lines += [f'all_model_checkpoint_paths: "{Path(path).name}"' for path in paths]
        write_atomically(self._directory / "checkpoint", "\n".join([*lines, ""]).encode())


def load_weights(model: keras.Model, path: str | Path) -> None:
    """Restores a model's weights, and nothing else, from a path such as `run/model.ckpt-1000`.

    Those of adapters are merged with the matrices that they belong to.

    One that is missing, damaged or of a model with other hyperparameters raises `UserError`.
    """
    path = names.existing_checkpoint(path, SUFFIX)
    shapes, own = _read(path, _names_in_model), own_weights(model)
    reader = tf.train.load_checkpoint(path)
    adapters = {at: name for name, at in _names_in_model(reader).items() if "/lora_" in at}
    held = sum(math.prod(shapes[name]) for name in shapes.keys() - set(adapters.values()))
    expected = sum(math.prod(weight.shape) for weight in own)
    try:
        # Of a larger one TensorFlow would restore a part: nothing that the model needs is missing.
        if held != expected:
            raise ValueError(f"it has {held:,} weights, the model {expected:,}")
        exact = model
        if model.variable_dtype != "float32" or len(own) < len(model.weights):
            # Checkpoints hold float32, and other adapters or none.
            exact = type(model).from_config(model.get_config() | {"dtype": "float32"})
            exact.build()
        status = tf.train.Checkpoint(model=exact).restore(path)
        status.assert_existing_objects_matched().expect_partial()
        for at, name in adapters.items():
            if factor := re.fullmatch(r"(.*)/lora_(\w+)_a", at):
                a, b = (reader.get_tensor(each) for each in (name, adapters[f"{at[:-1]}b"]))
                layer = functools.reduce(getattr, factor[1].split("/"), exact)
                scale = reader.get_tensor(f"{LORA_SCALE}/.ATTRIBUTES/VARIABLE_VALUE")
                getattr(layer, factor[2]).assign_add(scale * (a @ b))
        if exact is not model:
            for weight, value in zip(own, exact.get_weights(), strict=True):
                weight.assign(value)
    except (ValueError, AssertionError, tf.errors.OpError) as error:
        raise base.other_hyperparameters(path, base.first_line(error)) from error


def _read(path: str, select: Callable[..., Iterable[str]] | None = None) -> dict[str, list[int]]:
    """Reads all values, or those that `select(reader)` names, and returns their shapes by name.

    With them it reads their checksums, before anything is restored: a `tf.train.Checkpoint` that
    fails half-way goes on waiting for the rest of the damaged file, and TensorFlow logs what it
    finds.
    """
    try:
        reader = tf.train.load_checkpoint(path)
        shapes = reader.get_variable_to_shape_map()
        if select:
            shapes = {name: shapes[name] for name in select(reader) if name in shapes}
        for name in shapes:
            reader.get_tensor(name)
    except Exception as error:  # An OpError, IndexError, RuntimeError ... as the damage may be.
        raise base.DamagedCheckpointError(path, error) from error
    return shapes


def _names_in_model(reader) -> dict[str, str]:
    """Returns the names of all values that a checkpoint holds for what was saved as "model".

    With each name comes the path of attributes from the model: the name itself may be a path from
    the optimizer. TensorFlow reports a weight that the checkpoint lacks only where it finds the
    weight in the model, and it does not look into Keras's lists.
    """
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
        reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
    )
    waiting = [
        (child.node_id, "") for child in graph.nodes[0].children if child.local_name == "model"
    ]
    seen, found = {number for number, _ in waiting}, {}
    while waiting:
        number, path = waiting.pop()
        found |= {each.checkpoint_key: path for each in graph.nodes[number].attributes}
        for child in graph.nodes[number].children:
            if child.node_id not in seen:
                waiting.append((child.node_id, f"{path}/{child.local_name}".lstrip("/")))
                seen.add(child.node_id)
    return found
