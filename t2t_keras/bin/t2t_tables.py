"""Prints the paper's Tables 1 to 4 beside what this project counts and measures.

t2t-tables --table=3 --format=markdown
t2t-tables --table=1 --n=64 --d=512 --k=3 --r=9
t2t-tables --table=2 --hparams_set=transformer_base --gpus=8 --hardware=P100 --step_seconds=0.4
"""

from collections.abc import Sequence

from absl import flags as absl_flags

from t2t_keras import registry
from t2t_keras.bin.flags import FlagValues, required, run_command
from t2t_keras.errors import UserError

# The tables that each flag speaks of.
_TABLES = {
    **dict.fromkeys(("n", "d", "k", "r"), "1"),
    **dict.fromkeys(("hparams_set", "gpus", "hardware", "hours", "step_seconds"), "2"),
    "vocab_size": "3",
    "results_file": "234",
}


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags."""

    def choice(name: str, default: str | None, values: Sequence[str], meaning: str) -> None:
        absl_flags.DEFINE_enum(name, default, values, meaning, flag_values=flags)

    def whole(name: str, default: int, meaning: str, least: int, most: int | None = None) -> None:
        absl_flags.DEFINE_integer(name, default, meaning, least, most, flag_values=flags)

    def number(name: str, meaning: str) -> None:
        absl_flags.DEFINE_float(name, 0.0, meaning, 0.0, flag_values=flags)

    choice("table", None, ("1", "2", "3", "4"), "Which table of the paper.")
    choice("format", "text", ("text", "markdown", "json"), "How it is printed.")
    absl_flags.DEFINE_string(
        "results_file",
        "results.jsonl",
        "What --results_file of t2t-decoder and t2t-eval has; need not be there. Tables 2 to 4.",
        flag_values=flags,
    )
    whole("n", 64, "Table 1: length of the sequence.", 2, 2048)
    whole("d", 512, "Table 1: width of the representations.", 1)
    whole("k", 3, "Table 1: width of a convolution's kernel.", 2)
    whole("r", 9, "Table 1: neighbourhood of restricted self-attention, odd.", 3)
    whole("gpus", 8, "Table 2: how many GPUs train --hparams_set.", 1)
    absl_flags.DEFINE_string(
        "hardware",
        "P100",
        "Table 2: K80, K40, M40, P100, or the TFLOP/s that a GPU sustains.",
        flag_values=flags,
    )
    number("hours", "Table 2: how many hours the training takes.")
    number("step_seconds", "Table 2: or how long a step takes; times the set's train_steps.")
    whole("vocab_size", 37_000, "Table 3: ids of the vocabulary that weights are counted with.", 4)


def main(flags: FlagValues) -> None:
    """Prints the table that the flags ask for."""
    required(flags, "table")
    _check_flags(flags)
    from t2t_keras.tables.rendering import render

    print(render(_table(flags), flags.format))


def _check_flags(flags: FlagValues) -> None:
    """Raises `UserError` where a flag would silently be ignored."""
    for name, tables in _TABLES.items():
        if flags[name].present and flags.table not in tables:
            raise UserError(
                f"--{name} has no meaning for --table={flags.table}, but for {', '.join(tables)}."
            )


def _table(flags: FlagValues):
    """Returns the table; each imports only what it needs."""
    from t2t_keras.tables.results import read_results

    if flags.table == "1":
        from t2t_keras.tables.complexity import Sizes, complexity_table

        return complexity_table(Sizes(flags.n, flags.d, flags.k, flags.r))
    results = read_results(flags.results_file)
    if flags.table == "2":
        from t2t_keras.tables.cost import cost_table

        return cost_table(results, _asked_cost(flags))
    if flags.table == "3":
        from t2t_keras.tables.weights import weights_table

        return weights_table(results, flags.vocab_size)
    from t2t_keras.tables.parsing import parsing_table

    return parsing_table(results)


def _asked_cost(flags: FlagValues) -> dict[str, object] | None:
    """Returns the row of the training that the flags describe, if they do."""
    from t2t_keras.tables.cost import cost_row

    if not any(flags[name].present for name, tables in _TABLES.items() if tables == "2"):
        return None
    if flags.hparams_set:
        registry.hparams(flags.hparams_set)
    return cost_row(flags.hparams_set, flags.gpus, flags.hardware, flags.hours, flags.step_seconds)


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
