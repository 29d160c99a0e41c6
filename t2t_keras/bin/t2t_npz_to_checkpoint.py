"""Convert a run that was trained with KERAS_BACKEND=jax to TensorFlow checkpoints.

t2t-npz-to-checkpoint --model_dir=runs/jax --output_dir=runs/tensorflow
"""

from t2t_keras.bin.flags import command, define_common, required
from t2t_keras.io.flags import Flags


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Checkpoints")
    flags.path("model_dir", "Directory of the .npz run")
    flags.path("checkpoint_path", "A .npz checkpoint; default: the newest of --model_dir")
    define_common(flags, "output_dir")


@command(define_flags)
def run(flags: Flags) -> None:
    """Converts as the flags say."""
    required(flags, "model_dir", "output_dir")
    from t2t_keras.training.run_config import RunConfig

    RunConfig.load(flags.model_dir)  # Where there is none, that is told before TensorFlow's import.
    from t2t_keras.training.checkpoints.derived import convert_npz_run

    convert_npz_run(flags.model_dir, flags.output_dir, flags.checkpoint_path)


if __name__ == "__main__":
    run()
