"""The checkpoints of a run as they come."""

from pathlib import Path

from t2t_keras.training import backend
from t2t_keras.training.checkpoint_names import refuse_other_format, step_of
from t2t_keras.training.following import NO_WAIT, Follower, Patience
from t2t_keras.training.run_record import RunRecord


def follow_run(
    output_dir: str | Path, patience: Patience = NO_WAIT, min_steps: int = 0, **options
) -> Follower:
    """Follows the checkpoints of a run, in the format of this backend.

    Args:
      output_dir: the run's directory.
      patience: how long to wait for more.
      min_steps: earlier ones are left alone.
      **options: more of `Follower`'s, such as `done`.

    Raises:
      UserError: there are checkpoints, but in the other backend's format.
    """
    files = backend.checkpoints()
    refuse_other_format(output_dir, files.SUFFIX)
    return Follower(
        lambda: {step_of(path): path for path in files.checkpoint_paths(output_dir)},
        patience,
        min_steps=min_steps,
        # Read anew: a run that is continued may have been given more steps.
        last_step=lambda: RunRecord.load(output_dir).hparams.train_steps,
        **options,
    )
