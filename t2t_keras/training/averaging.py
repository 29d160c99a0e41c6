"""The mean of a run's last checkpoints, as a run of its own (section 6.1)."""

from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.training import backend, npz_checkpoints
from t2t_keras.training.checkpoint_names import (
    NPZ_SUFFIX,
    TENSORFLOW_SUFFIX,
    files_by_step,
    refuse_other_format,
)
from t2t_keras.training.run_record import RunRecord


def average_run(model_dir: str | Path, output_dir: str | Path, n: int = 5) -> str:
    """Writes the mean of a run's last `n` checkpoints, to be decoded and exported like any run.

    The paper takes the last 5 of the base model and the last 20 of the big one (section 6.1). The
    mean has the format of the run: TensorFlow's, or `.npz`, which every backend averages.

    Args:
      model_dir: the run.
      output_dir: where the mean and the run's record go; must not hold checkpoints yet.
      n: how many checkpoints; fewer are taken where there are fewer, which is said.

    Returns:
      The path of the mean, for TensorFlow's format its prefix.

    Raises:
      UserError: no run, no checkpoints, one that cannot be read, or checkpoints in `output_dir`.
    """
    record = RunRecord.load(model_dir)
    files = npz_checkpoints
    if not files.checkpoint_paths(model_dir):
        files = backend.checkpoints()
    paths = files.checkpoint_paths(model_dir)
    if not paths:
        refuse_other_format(model_dir, NPZ_SUFFIX)
        raise UserError(f"There is no checkpoint in {model_dir}. Train first: t2t-trainer.")
    if any(files_by_step(output_dir, suffix) for suffix in (NPZ_SUFFIX, TENSORFLOW_SUFFIX)):
        raise UserError(
            f"There are checkpoints in --output_dir={output_dir} already, which the mean would "
            f"replace. Give a new directory."
        )
    chosen = paths[-n:]
    if len(chosen) < n:
        print(f"There are only {len(chosen)} checkpoints in {model_dir}, not {n}.")
    model = record.make_model()
    record.save(output_dir)
    mean = files.average_checkpoints(model, chosen, output_dir)
    names = ", ".join(Path(path).name for path in chosen)
    print(f"{mean} is the mean of {names}.")
    return mean
