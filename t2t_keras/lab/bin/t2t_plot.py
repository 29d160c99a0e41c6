"""Plot the curves of runs: loss, perplexity, scores, learning rate and speed.

t2t-plot runs/base runs/big --plot_file=curves.png
t2t-plot runs/base --over=hours --curves=loss,bleu

Without --plot_file, or without matplotlib (pip install -e '.[plot]'), prints each curve as a
line of text. For steps repeated after a crash only the last attempt counts.
"""

import importlib.util

from t2t_keras.bin.flags import command
from t2t_keras.errors import UserError
from t2t_keras.io.flags import Flags


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.arguments("runs", "Directories of runs, the --output_dir of t2t-trainer")
    flags.group("Plot")
    flags.strings("curves", "Names of curves, as loss,bleu; default: the usual ones")
    flags.choice("over", "Horizontal axis; hours without evaluations", ("steps", "hours"), "steps")
    flags.path("plot_file", "Picture to write, ending in .png or .svg")


@command(define_flags)
def run(flags: Flags) -> None:
    """Plots as the flags say."""
    from t2t_keras.lab.plot import check_plot, run_curves, text_plot, write_plot

    if not flags.runs:
        raise UserError(
            "Please give the directories of runs, as in: t2t-plot runs/base runs/big",
            code="bad_arguments",
        )
    if flags.plot_file:
        check_plot(flags.plot_file, flags.runs)
    curves = run_curves(flags.runs, flags.curves or (), flags.over)
    if not flags.plot_file or not importlib.util.find_spec("matplotlib"):
        print(text_plot(curves, flags.over))
    if flags.plot_file:
        missing = write_plot(flags.plot_file, curves, flags.over)
        print(f"{flags.plot_file}: {', '.join(curves)} over {flags.over}")
        if missing:
            print(f"The plot's font lacks {' '.join(missing)}, shown as boxes.")


if __name__ == "__main__":
    run()
