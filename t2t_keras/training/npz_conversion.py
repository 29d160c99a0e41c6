"""A run that was trained without TensorFlow becomes one of TensorFlow's."""

from pathlib import Path

import keras

from t2t_keras.errors import UserError
from t2t_keras.training import npz_checkpoints
from t2t_keras.training.checkpoint_names import (
    NPZ_SUFFIX,
    TENSORFLOW_SUFFIX,
    files_by_step,
    step_or_none,
)
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.training_cost import copy_cost


def convert_npz_run(
    model_dir: str | Path, output_dir: str | Path, checkpoint_path: str | Path = ""
) -> str:
    """Writes a checkpoint of a run as TensorFlow's, to be continued, decoded and exported.

    Args:
      model_dir: a run with `.npz` checkpoints: trained under JAX, averaged, or its `best/`.
      output_dir: where the checkpoint and the run's record go; must not hold checkpoints yet.
      checkpoint_path: which checkpoint; default: the newest.

    Returns:
      The path prefix of the checkpoint. It holds the optimizer's state where the `.npz` does, so
      that t2t-trainer continues it on TensorFlow.

    Raises:
      UserError: no run, no such checkpoint, one that cannot be read or does not fit the run's
        hyperparameters, checkpoints in `output_dir`, or another backend than TensorFlow.
    """
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            f"Making TensorFlow's checkpoints needs TensorFlow: KERAS_BACKEND is "
            f"{keras.backend.backend()}. Run the command where TensorFlow is installed, with "
            f"KERAS_BACKEND=tensorflow or without it."
        )
    record = RunRecord.load(model_dir)
    if not checkpoint_path and not npz_checkpoints.checkpoint_paths(model_dir):
        raise UserError(
            f"There is no {NPZ_SUFFIX} checkpoint in {model_dir}: it is not a run that was trained "
            f"or averaged under KERAS_BACKEND=jax. TensorFlow's own need no conversion."
        )
    if any(files_by_step(output_dir, suffix) for suffix in (NPZ_SUFFIX, TENSORFLOW_SUFFIX)):
        raise UserError(
            f"There are checkpoints in --output_dir={output_dir} already, which the new one would "
            f"stand among. Give a new directory."
        )
    path = str(checkpoint_path) or npz_checkpoints.newest_checkpoint(model_dir)
    step = step_or_none(path)
    if step is None:
        raise UserError(
            f"The name of {path} does not say which step it is of: give it the name that "
            f"t2t-trainer gave it, as model.ckpt-1000{NPZ_SUFFIX}."
        )
    state = _restored_state(record, path)
    from t2t_keras.training.checkpoints import Checkpoints

    record.save(output_dir)
    copy_cost(path, output_dir)
    made = Checkpoints(output_dir, state, keep=1).save(step)
    left = "with" if "optimizer" in state else "without"
    print(f"{made} is {path} as TensorFlow's, {left} the optimizer's state.")
    return made


def _restored_state(record: RunRecord, path: str) -> dict[str, object]:
    """Returns what TensorFlow's checkpoint is to hold: all that the `.npz` does."""
    import tensorflow as tf

    from t2t_keras.training.tensorflow_step import TensorFlowStep

    step = TensorFlowStep(
        record.make_model, record.hparams, tf.distribute.MirroredStrategy(["/cpu:0"]), seed=0
    )
    beside = npz_checkpoints.load_state({"model": step.model}, path)
    if not beside:
        return {"model": step.model}
    names = npz_checkpoints.weight_names(step.model)
    momentum, velocity = step.optimizer.moments()
    rest = {
        **step.state(),
        "optimizer": {
            "iterations": step.optimizer.iterations,
            "momentum": dict(zip(names, momentum, strict=True)),
            "velocity": dict(zip(names, velocity, strict=True)),
        },
    }
    npz_checkpoints.load_state(rest, path)
    return step.state()
