"""Checkpoints: written whole or not at all, pruned, restored past a damaged one."""

import contextlib
import shutil
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from t2t_keras.errors import UserError
from t2t_keras.training.checkpoint_names import (
    NAME,
    TENSORFLOW_SUFFIX,
    files_by_step,
    no_checkpoint,
    refuse_other_format,
    weights_alone,
)

SUFFIX = TENSORFLOW_SUFFIX


class Checkpoints:
    """The checkpoints of a run, as `tf.train.latest_checkpoint` finds them.

    Args:
      directory: where they stand.
      state: what they hold, as arguments of `tf.train.Checkpoint`.
      keep: how many are kept.
    """

    def __init__(self, directory: str | Path, state: dict[str, object], keep: int):
        self._directory = Path(directory)
        self._checkpoint = tf.train.Checkpoint(**state)
        self._has_optimizer = "optimizer" in state
        self._keep = keep
        self._manager = None

    def restore_newest(self) -> str | None:
        """Restores the newest checkpoint that is whole; names the damaged ones on the way.

        Returns:
          Its path prefix, or None where there is no checkpoint.

        Raises:
          UserError: there are checkpoints, but none can be read; or they are JAX's.
        """
        refuse_other_format(self._directory, TENSORFLOW_SUFFIX)
        paths = checkpoint_paths(self._directory)
        whole = list(paths)
        while whole and (damage := _damage(whole[-1])):
            print(f"The checkpoint {whole[-1]} is damaged and set aside: {damage}", flush=True)
            _set_aside(Path(whole.pop()))
        if paths and not whole:
            raise UserError(
                f"None of the {len(paths)} checkpoints in {self._directory} can be read. Give a "
                f"new --output_dir."
            )
        if not whole:
            return None
        self._restore(whole[-1])
        for interrupted in self._directory.glob(f"{NAME}-*_temp"):
            shutil.rmtree(interrupted)
        # So that `tf.train.latest_checkpoint` and the manager below agree with what was found.
        tf.compat.v1.train.update_checkpoint_state(
            str(self._directory),
            whole[-1],
            all_model_checkpoint_paths=whole,
            all_model_checkpoint_timestamps=[
                Path(f"{path}.index").stat().st_mtime for path in whole
            ],
            last_preserved_timestamp=0.0,
        )
        return whole[-1]

    def restore(self, path: str) -> None:
        """Restores the checkpoint with this path prefix, and changes no file.

        Raises:
          UserError: it cannot be read.
        """
        if damage := _damage(path):
            raise UserError(f"The checkpoint {path} is damaged: {damage}")
        self._restore(path)

    def _restore(self, path: str) -> None:
        if self._has_optimizer:
            names = tf.train.load_checkpoint(path).get_variable_to_shape_map()
            if not any(name.startswith("optimizer/") for name in names):
                raise weights_alone(path)
        self._checkpoint.restore(path).assert_existing_objects_matched()

    def save(self, step: int) -> str:
        """Writes the state under its step number and deletes the oldest ones.

        Returns:
          The checkpoint's path prefix.

        Raises:
          UserError: it cannot be written, as on a full disk; those before it stay good.
        """
        path = self._directory / f"{NAME}-{step}"
        if self._manager is None:
            self._manager = tf.train.CheckpointManager(
                self._checkpoint, str(self._directory), self._keep, checkpoint_name=NAME
            )
        try:
            return self._manager.save(checkpoint_number=step)
        except (tf.errors.OpError, OSError) as error:
            _remove_partial(path)
            last = self._manager.latest_checkpoint
            raise UserError(
                f"The checkpoint {path} cannot be written: {_first_line(error)} Make room, then "
                f"run the same command again: it continues from {last or 'the beginning'}."
            ) from error


def checkpoint_paths(directory: str | Path) -> list[str]:
    """Returns the path prefixes of the checkpoints in a directory, by step, newest last."""
    return [str(index.with_suffix("")) for index in files_by_step(directory, TENSORFLOW_SUFFIX)]


def newest_checkpoint(directory: str | Path) -> str:
    """Returns the path prefix of a run's newest checkpoint.

    Raises:
      UserError: there is none, or it is JAX's.
    """
    refuse_other_format(directory, TENSORFLOW_SUFFIX)
    path = tf.train.latest_checkpoint(str(directory))
    if path is None:
        raise UserError(f"There is no checkpoint in {directory}. Train first: t2t-trainer.")
    return path


def load_weights(model: keras.Model, path: str | Path) -> None:
    """Restores the weights of a model, and nothing else, from a checkpoint.

    Args:
      model: with its weights made.
      path: a checkpoint's path prefix, such as `run/model.ckpt-1000`.

    Raises:
      UserError: there is no such checkpoint (those that are there are named), it is damaged, or
        it belongs to a model of other hyperparameters.
    """
    path = str(path).removesuffix(".index")
    if not Path(f"{path}.index").exists():
        refuse_other_format(Path(path).parent, TENSORFLOW_SUFFIX)
        raise no_checkpoint(Path(path), TENSORFLOW_SUFFIX)
    try:
        held = _weights_of_model(path)
        if held < model.count_params():
            raise ValueError(f"it holds {held:,} of {model.count_params():,} weights.")
        exact = model if model.variable_dtype == "float32" else _in_float32(model)
        status = tf.train.Checkpoint(model=exact).restore(path)
        status.assert_existing_objects_matched().expect_partial()
        if exact is not model:
            model.set_weights(exact.get_weights())
    except Exception as error:
        raise UserError(
            f"The checkpoint {path} is damaged, or of a model with other hyperparameters: "
            f"{_first_line(error)}"
        ) from error


def _in_float32(model: keras.Model) -> keras.Model:
    """Returns a model like this one that holds what checkpoints hold: float32."""
    exact = type(model).from_config(model.get_config() | {"dtype": "float32"})
    exact.build()
    return exact


def _remove_partial(path: Path) -> None:
    """Deletes what a write that failed has left of a checkpoint."""
    shutil.rmtree(path.with_name(f"{path.name}_temp"), ignore_errors=True)
    for left in path.parent.glob(f"{path.name}.*"):
        with contextlib.suppress(OSError):
            left.unlink()


def _weights_of_model(path: str) -> int:
    """Returns how many numbers a checkpoint holds for what was saved as "model".

    TensorFlow reports a weight that the checkpoint lacks only where it finds the weight in the
    model, and it does not look into Keras's lists.
    """
    reader = tf.train.load_checkpoint(path)
    shapes = reader.get_variable_to_shape_map()
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
        reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
    )
    waiting = [each.node_id for each in graph.nodes[0].children if each.local_name == "model"]
    seen, keys = set(waiting), set()
    while waiting:
        node = graph.nodes[waiting.pop()]
        keys |= {attribute.checkpoint_key for attribute in node.attributes}
        following = {each.node_id for each in node.children} - seen
        waiting += following
        seen |= following
    return sum(int(np.prod(shapes[key])) for key in keys if key in shapes)


def _damage(path: str) -> str:
    """Returns what is wrong with a checkpoint, or "".

    Every value is read, and its checksum with it, before anything is restored: a `Checkpoint` that
    failed half-way goes on waiting for the rest of the damaged file.
    """
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except Exception as error:  # An OpError, IndexError, RuntimeError ... as the damage may be.
        return _first_line(error)
    return ""


def _set_aside(path: Path) -> None:
    """Renames a damaged checkpoint, so that its step can be written again."""
    for file in path.parent.glob(f"{path.name}.*"):
        file.rename(file.with_name(f"damaged.{file.name}"))


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
