"""Where the scores of one step after another go: curves, and files of results.

What was scored before is told by the results beside the curves, which are those of one run or of
one directory of translations. A file that the user names may have the results of many.
"""

from collections.abc import Mapping
from pathlib import Path

from t2t_keras.tables.results import Result, append_result, read_results
from t2t_keras.training.backend import make_curves
from t2t_keras.training.run_record import MAY_CHANGE

# What tells whether two results are of the same text, made and scored in the same way.
_KIND = ("set", "problem", "split", "text", "random_seed", "decode")


class ScoreLog:
    """Curves for TensorBoard and lines of results, which also tell what was scored before.

    Args:
      directory: of the curves; beside those of a run, TensorBoard shows both.
      results_file: a file that gets the results too; "" = only results.jsonl in `directory`.

    Attributes:
      results_file: the file of results that the user looks at.
    """

    def __init__(self, directory: str | Path, results_file: str | Path = ""):
        self._directory = Path(directory)
        self._own_file = self._directory / "results.jsonl"
        self.results_file = Path(results_file or self._own_file)
        self._curves = None

    def steps_like(self, result: Result) -> set[int]:
        """Returns the steps that are scored already in the way of a result without scores.

        Their results are added to the file that the user names where they are not in it yet.
        """
        wanted = _kind(result)
        before = [each for each in read_results(self._own_file) if _kind(each) == wanted]
        if self._has_another_file():
            named = read_results(self.results_file)
            for each in before:
                if each not in named:
                    append_result(self.results_file, each)
        return {each.steps for each in before}

    def add(self, result: Result, scalars: Mapping[str, float]) -> None:
        """Adds a point to each curve, and then the result.

        Raises:
          UserError: one of the files cannot be written.
        """
        if self._curves is None:
            self._curves = make_curves(self._directory.parent, [self._directory.name])
        # In this order: a step whose result is missing is scored again.
        self._curves.write(self._directory.name, result.steps, dict(scalars))
        append_result(self._own_file, result)
        if self._has_another_file():
            append_result(self.results_file, result)

    def close(self) -> None:
        """Ends the curves."""
        if self._curves is not None:
            self._curves.close()

    def _has_another_file(self) -> bool:
        return self.results_file.resolve() != self._own_file.resolve()


def _kind(result: Result) -> tuple:
    """Returns what results of one kind have in common; a run may be given more steps."""
    hparams = {name: value for name, value in result.hparams.items() if name not in MAY_CHANGE}
    return hparams, *(getattr(result, name) for name in _KIND)
