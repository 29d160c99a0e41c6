"""Print the paper's Tables 1 to 4 next to this project's own counts and measurements.

t2t-tables --table=3 --format=markdown
t2t-tables --table=1 --n=64 --d=512 --k=3 --r=9
t2t-tables --table=2 --hparams_set=transformer_base --gpus=8 --hardware=P100 --step_seconds=0.4
"""

from typing import TYPE_CHECKING

from t2t_keras.bin.flags import command, define_common, given_flags, require
from t2t_keras.errors import UserError
from t2t_keras.io.files import RESULTS_FILE
from t2t_keras.io.flags import Flags
from t2t_keras.io.terminal import printable
from t2t_keras.text.files import check_readable

if TYPE_CHECKING:
    from t2t_keras.tables import Table

# The title of a group has the numbers of the tables that its flags are for.
_COST_GROUP = "Table 2: the cost of training"


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Output")
    flags.choice("table", "Table of the paper", ("1", "2", "3", "4"), None)
    flags.choice("format", "Format", ("text", "markdown", "json"), "text")
    flags.group("Tables 2, 3 and 4")
    flags.path("results_file", "File of your results", RESULTS_FILE)
    flags.group("Table 1")
    flags.integer("n", "Length of the sequence", 64, 2, 2048)
    flags.integer("d", "Width of the representations", 512, 1)
    flags.integer("k", "Width of a convolution's kernel", 3, 2)
    flags.integer("r", "Neighbourhood of restricted self-attention, odd", 9, 3)
    flags.group(_COST_GROUP)
    define_common(flags, hparams_set="Hyperparameter set; --registry_help lists all")
    flags.integer("gpus", "Number of GPUs", 8, 1)
    flags.string("hardware", "K80, K40, M40, P100, or a GPU's sustained TFLOP/s", "P100")
    flags.number("hours", "Hours of training", 0)
    meaning = "Instead of --hours: seconds per step, for the set's train_steps"
    flags.number("step_seconds", meaning, 0)
    flags.group("Table 3")
    flags.integer("vocab_size", "Number of ids, which the number of weights depends on", 37_000, 4)


@command(define_flags)
def run(flags: Flags) -> None:
    """Prints the table."""
    require(flags, "table")
    for title, names in flags.groups.items():
        unused = [f"--{name}" for name in names if flags[name].present]
        if unused and title.startswith("Table") and flags.table not in title:
            raise UserError(
                f"--table={flags.table} does not use {unused[0]}, a flag for {title}. Leave it "
                f"out.",
                code="conflicting_settings",
            )
    from t2t_keras.tables import render

    print(printable(render(_table(flags), flags.format)))


def _table(flags: Flags) -> "Table":
    """Returns the requested table."""
    from t2t_keras import tables
    from t2t_keras.evaluation.results import read_results

    if flags.table == "1":
        return tables.complexity_table(flags.n, flags.d, flags.k, flags.r)
    if flags["results_file"].present:
        check_readable(flags.results_file)
    results = read_results(flags.results_file)
    if flags.table == "2":
        cost_flags = {name: getattr(flags, name) for name in flags.groups[_COST_GROUP]}
        row = tables.cost_row(**cost_flags) if given_flags(flags, *cost_flags) else None
        return tables.cost_table(results, row)
    if flags.table == "3":
        return tables.weights_table(results, flags.vocab_size)
    return tables.parsing_table(results)


if __name__ == "__main__":
    run()
