"""Evaluation on the dev set while training, and the best weights so far."""

import json
from pathlib import Path
from typing import Any

from t2t_keras.data.atomic_file import write_atomically
from t2t_keras.data.generated import Generated
from t2t_keras.training import backend
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.split_evaluation import SplitEvaluator

_HISTORY = "evaluations.json"
BEST = "best"


class Evaluator:
    """Measures the dev set and keeps the weights with the lowest dev loss.

    Args:
      step: a `backend.Step`.
      record: what the run uses.
      generated: its data.
      output_dir: the run's; the best weights go to `best/` in it.
      eval_steps: most batches to evaluate; 0 = the whole dev set.
      with_bleu: whether the dev set's BLEU, or the problem's other score, is computed as well.
      writes: whether this worker, of several, writes what it finds, and computes that score; the
        loss all compute together.

    Attributes:
      left_out: how many pairs are too long to be measured.
      report: the last score with its signature, as the problem's `score` tells it; "" = none.
    """

    def __init__(
        self,
        step,
        record: RunRecord,
        generated: Generated,
        output_dir: str | Path,
        eval_steps: int = 0,
        with_bleu: bool = False,
        writes: bool = True,
    ):
        self._step, self._record = step, record
        self._output_dir = Path(output_dir)
        self._dev = SplitEvaluator(step, record, generated, "dev", eval_steps)
        self._with_bleu = with_bleu and writes
        self._writes = writes
        # Read once: of several workers one writes, and the others may see it late.
        self._entries: list[dict[str, Any]] | None = None
        self.left_out = self._dev.left_out
        self.report = ""

    def evaluate(self, step: int) -> dict[str, float]:
        """Returns scalars of the dev set at this step, and records them.

        Returns:
          {"loss": unsmoothed cross-entropy a token, "perplexity", "accuracy", and where asked for
          "bleu", or what else the problem is scored by}.
        """
        scalars = self._dev.measure()
        if self._with_bleu:
            score = self._dev.score()
            name, value = score.main
            scalars[name] = value
            self.report = str(score)
        self._remember(step, scalars)
        return scalars

    def told(self, step: int, scalars: dict[str, float], seconds: float | None = None) -> str:
        """Returns lines to print of what `evaluate` has measured, and in how many seconds."""
        values = ", ".join(f"{name} {value:.4g}" for name, value in scalars.items())
        took = "" if seconds is None else f" ({seconds:.0f} s)"
        return "\n".join(filter(None, (f"Dev set at step {step:,}: {values}{took}", self.report)))

    def best_step(self) -> int:
        """Returns the step of the lowest dev loss so far, or -1."""
        history = self._history()
        return min(history, key=lambda entry: entry["loss"])["step"] if history else -1

    def _remember(self, step: int, scalars: dict[str, float]) -> None:
        # A run that continues from an earlier checkpoint evaluates the later steps again.
        history = [entry for entry in self._history() if entry["step"] < step]
        report = {"score": self.report.splitlines()} if self.report else {}
        history.append({"step": step, **scalars, **report})
        self._entries = history
        text = "".join(json.dumps(entry) + "\n" for entry in history)
        best = min(history, key=lambda entry: entry["loss"])
        if not self._writes:
            return
        if best["step"] == step:
            directory = self._output_dir / BEST
            self._record.save(directory)
            weights = {"model": self._step.model}
            backend.checkpoints().Checkpoints(directory, weights, keep=1).save(step)
        write_atomically(self._output_dir / _HISTORY, text.encode("utf-8"))

    def _history(self) -> list[dict[str, Any]]:
        if self._entries is None:
            path = self._output_dir / _HISTORY
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            self._entries = [json.loads(line) for line in lines]
        return self._entries
