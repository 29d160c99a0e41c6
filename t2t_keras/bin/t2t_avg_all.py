"""Averages the last checkpoints of a run (section 6.1 of the paper).

t2t-avg-all --model_dir=runs/base --output_dir=runs/averaged --n=5 --seconds_apart=600
"""

from collections.abc import Sequence

from absl import flags as absl_flags

from t2t_keras.bin.flags import FlagValues, required, run_command


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags."""
    absl_flags.DEFINE_string("model_dir", "", "Directory of the run.", flag_values=flags)
    absl_flags.DEFINE_integer(
        "n", 5, "How many checkpoints; the paper: 5 (base), 20 (big).", 1, flag_values=flags
    )
    absl_flags.DEFINE_float(
        "seconds_apart",
        0,
        "At least so many seconds of training, without evaluations, lie between two of them (the "
        "paper: 600); 0 = the last ones, however close.",
        0,
        flag_values=flags,
    )


def main(flags: FlagValues) -> None:
    """Averages as the flags say."""
    required(flags, "model_dir", "output_dir")
    from t2t_keras.training.averaging import average_run

    average_run(flags.model_dir, flags.output_dir, flags.n, flags.seconds_apart)


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
