"""Turns a run that was trained under KERAS_BACKEND=jax into one of TensorFlow's.

t2t-npz-to-checkpoint --model_dir=runs/jax --output_dir=runs/tensorflow
"""

from collections.abc import Sequence

from absl import flags as absl_flags

from t2t_keras.bin.flags import FlagValues, required, run_command


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags."""
    absl_flags.DEFINE_string("model_dir", "", "Directory of the .npz run.", flag_values=flags)
    absl_flags.DEFINE_string(
        "checkpoint_path",
        "",
        "Path of a .npz checkpoint; default: the newest of --model_dir.",
        flag_values=flags,
    )


def main(flags: FlagValues) -> None:
    """Converts as the flags say."""
    required(flags, "model_dir", "output_dir")
    from t2t_keras.training.npz_conversion import convert_npz_run

    convert_npz_run(flags.model_dir, flags.output_dir, flags.checkpoint_path)


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
