"""Score parses against gold trees as the C program evalb does; files have one tree per line.

t2t-evalb --gold=gold.trees --test=system.trees --param=COLLINS
"""

import sys

from t2t_keras.bin.flags import command, require
from t2t_keras.io.flags import Flags
from t2t_keras.io.terminal import printable
from t2t_keras.parsing.score import MAX_ERRORS, PARAMETERS, evalb
from t2t_keras.text.files import read_text


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Trees")
    flags.path("gold", "File of gold trees, one per line")
    flags.path("test", "File of parses, one per line")
    flags.choice("param", "Parameter file of evalb", list(PARAMETERS), "COLLINS")
    flags.integer(
        "max_errors", "Maximum number of errors; like evalb, stops two errors later", MAX_ERRORS
    )


@command(define_flags)
def run(flags: Flags) -> None:
    """Prints the table; errors of sentences go to standard error."""
    require(flags, "gold", "test")
    gold, test = read_text(flags.gold), read_text(flags.test)

    def on_error(text: str) -> None:
        print(printable(text), file=sys.stderr)

    for line in evalb(gold, test, PARAMETERS[flags.param], on_error, flags.max_errors):
        print(line)


if __name__ == "__main__":
    run()
