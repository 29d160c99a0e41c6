"""Makes the data of a problem: vocabulary, encoded examples, dev and test text.

t2t-datagen --problem=translate_ende_multi30k --data_dir=data --tmp_dir=downloads
"""

from collections.abc import Sequence

from absl import flags as absl_flags

from t2t_keras import registry
from t2t_keras.bin.flags import FlagValues, required, run_command
from t2t_keras.data.generate import generate
from t2t_keras.errors import UserError
from t2t_keras.processor_cores import usable_cores


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags."""
    absl_flags.DEFINE_integer(
        "num_workers",
        usable_cores(),
        "Processes that encode; the data is the same for any number. Default: one a core.",
        1,
        flag_values=flags,
    )


def main(flags: FlagValues) -> None:
    """Generates the data."""
    required(flags, "problem", "data_dir")
    problem = registry.problem(flags.problem, flags.problem_config)
    try:
        generate(problem, flags.data_dir, flags.tmp_dir, flags.num_workers)
    except KeyboardInterrupt:
        raise UserError(
            f"Interrupted: there is no complete data of {problem.name} in {flags.data_dir}. The "
            f"same command goes on from there."
        ) from None


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
