"""The mean of a run's last checkpoints, as a run of its own (section 6.1)."""

from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.training.checkpoints import average_checkpoints, checkpoint_paths
from t2t_keras.training.run_record import RunRecord


def average_run(model_dir: str | Path, output_dir: str | Path, n: int = 5) -> str:
    """Writes the mean of a run's last `n` checkpoints, to be decoded and exported like any run.

    The paper takes the last 5 of the base model and the last 20 of the big one (section 6.1).

    Args:
      model_dir: the run.
      output_dir: where the mean and the run's record go; must not hold checkpoints yet.
      n: how many checkpoints; fewer are taken where there are fewer, which is said.

    Returns:
      The path prefix of the mean.

    Raises:
      UserError: no run, no checkpoints, one that cannot be read, or checkpoints in `output_dir`.
    """
    record = RunRecord.load(model_dir)
    paths = checkpoint_paths(model_dir)
    if not paths:
        raise UserError(f"There is no checkpoint in {model_dir}. Train first: t2t-trainer.")
    if checkpoint_paths(output_dir):
        raise UserError(
            f"There are checkpoints in --output_dir={output_dir} already, which the mean would "
            f"replace. Give a new directory."
        )
    chosen = paths[-n:]
    if len(chosen) < n:
        print(f"There are only {len(chosen)} checkpoints in {model_dir}, not {n}.")
    model = record.make_model()
    record.save(output_dir)
    mean = average_checkpoints(model, chosen, output_dir)
    names = ", ".join(Path(path).name for path in chosen)
    print(f"{mean} is the mean of {names}.")
    return mean
