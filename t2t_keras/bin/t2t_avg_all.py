"""Average the last checkpoints of a run (section 6.1 of the paper).

t2t-avg-all --model_dir=runs/base --output_dir=runs/averaged
t2t-avg-all --model_dir=runs/base --output_dir=runs/averaged --n=5 --seconds_apart=600

Without --n, it averages the number of checkpoints with the lowest loss on the run's dev set.
"""

from t2t_keras.bin.flags import command, define_common, required
from t2t_keras.io.flags import Flags


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Checkpoints")
    flags.path("model_dir", "Directory of the run")
    define_common(flags, "output_dir")
    flags.integer(
        "n",
        "Number of checkpoints (the paper: 5 for base, 20 for big); default: the dev loss decides",
        None,
        1,
    )
    flags.number(
        "seconds_apart", "Minimum seconds of training between two checkpoints (the paper: 600)", 0
    )
    flags.switch("ema", "Write the newest checkpoint's moving average (ema_decay) instead")
    flags.switch("overwrite", "Replace an earlier mean in --output_dir")


@command(define_flags)
def run(flags: Flags) -> None:
    """Averages as the flags say."""
    required(flags, "model_dir", "output_dir")
    from t2t_keras.training.run_config import RunConfig

    RunConfig.load(flags.model_dir)  # Without a run, fails before the slow import of TensorFlow.
    from t2t_keras.training.averaging import average_run

    average_run(
        flags.model_dir,
        flags.output_dir,
        flags.n,
        flags.seconds_apart,
        flags.ema,
        flags.overwrite,
    )


if __name__ == "__main__":
    run()
