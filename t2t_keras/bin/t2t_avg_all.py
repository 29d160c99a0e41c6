"""Average the last checkpoints of a run (section 6.1 of the paper).

t2t-avg-all --model_dir=runs/base --output_dir=runs/averaged
t2t-avg-all --model_dir=runs/base --output_dir=runs/averaged --n=5 --seconds_apart=600

Without --n, the loss on the run's dev set decides how many of the last 20 checkpoints to average.
Without that data, the checkpoints of the last tenth of training are averaged.
"""

from t2t_keras.bin.flags import command, define_common, require
from t2t_keras.io.flags import Flags


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Checkpoints")
    flags.path("model_dir", "Directory of the run to average")
    define_common(flags, output_dir="Directory to write the average to, as a run of its own")
    flags.integer(
        "n",
        "Number of last checkpoints (paper: 5 for base, 20 for big)",
        None,
        1,
    )
    flags.number(
        "seconds_apart", "Minimum seconds of training between checkpoints (paper: 600); 0 = all", 0
    )
    flags.switch("ema", "Instead, write the newest moving average of a run with ema_decay")
    flags.switch("overwrite", "Replace an earlier average in --output_dir")


@command(define_flags)
def run(flags: Flags) -> None:
    """Averages as the flags say."""
    require(flags, "model_dir", "output_dir")
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
