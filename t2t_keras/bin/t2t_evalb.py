"""Scores parses against gold trees, a tree a line, as the C program evalb does.

t2t-evalb --gold=gold.trees --test=system.trees --param=COLLINS
"""

import sys
from collections.abc import Sequence

from absl import flags as absl_flags

from t2t_keras.bin.flags import FlagValues, required, run_command
from t2t_keras.data.text_files import read_text
from t2t_keras.evaluation.evalb import MAX_ERRORS, PARAMETERS, evalb


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags."""
    absl_flags.DEFINE_string("gold", "", "File of gold trees, one a line.", flag_values=flags)
    absl_flags.DEFINE_string("test", "", "File of parses, one a line.", flag_values=flags)
    absl_flags.DEFINE_enum(
        "param", "COLLINS", list(PARAMETERS), "Which of evalb's parameter files.", flag_values=flags
    )
    absl_flags.DEFINE_integer(
        "max_errors",
        MAX_ERRORS,
        "Sentences that may be impossible to score, and one, before it gives up.",
        0,
        flag_values=flags,
    )


def main(flags: FlagValues) -> None:
    """Prints the table; errors of sentences go to standard error."""
    required(flags, "gold", "test")
    gold, test = read_text(flags.gold), read_text(flags.test)

    def on_error(text: str) -> None:
        print(text, file=sys.stderr)

    for line in evalb(gold, test, PARAMETERS[flags.param], on_error, flags.max_errors):
        print(line)


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
