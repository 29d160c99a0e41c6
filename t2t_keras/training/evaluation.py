"""Evaluation on the dev set while training, and the best weights so far."""

import collections
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.data.batches import TokenBatchSampler, replica_batches
from t2t_keras.data.dataset import Generated
from t2t_keras.errors import OutOfMemoryError, UserError
from t2t_keras.io.files import write_atomically
from t2t_keras.io.terminal import print_beside_bar, printable
from t2t_keras.text.files import split_lines
from t2t_keras.training.backends import base as backend
from t2t_keras.training.checkpoint_files import BEST, checkpoint_paths, step_of
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.progress import averages
from t2t_keras.training.run_config import RunConfig

# Some sources, each with its translation and its reference.
Sample = Sequence[tuple[str, str, str]]

_HISTORY = "evaluations.json"
# Tokens that are measured at once where the run does not say how many fit.
_USUAL_TOKENS = 4096
# A model that has learned little may repeat itself up to the longest translation.
_SHOWN_CHARACTERS = 300
# Accuracy below which translations share nothing with their references: BLEU is 0, and each search
# goes on to the longest translation.
_LEAST_ACCURACY = 0.2


def read_evaluations(output_dir: str | Path) -> list[dict[str, Any]]:
    """Returns the evaluations of a run so far, by step.

    Each has "step", what `SplitLoss.measure` returns, "train_loss" (the mean training loss per
    token since the evaluation before) and, where the model is scored, the name and value of the
    score, "score", the lines of its report, and "sample", some translations.

    Raises:
      UserError: the file of the evaluations is damaged.
    """
    path, found = Path(output_dir) / _HISTORY, []
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for number, line in enumerate(split_lines(text), 1):
        try:
            found.append(json.loads(line))
            found[-1]["step"], found[-1]["loss"]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path}:{number} is no evaluation. Delete the line.", code="damaged_file"
            ) from error
    return found


class Evaluator:
    """Measures the dev set, and keeps the best weights in the run's `best/`.

    Args:
      loss: of the dev set.
      output_dir: the run's.
      score: returns the score of the model on the dev set, as a problem's `score` does, and some
        of its translations; None = not scored.
      writes: whether this worker, of several, writes what all compute together.
      history: the evaluations so far, see `read_evaluations`.
      best_by: what tells the best: the loss, or a number of the score by its name. After a change
        of it the best so far may be another than what `best/` holds, which stays until one is
        better than that.

    Attributes:
      left_out: number of pairs that are too long to be measured.
      history: the evaluations so far.
      kept: step of the weights in `best/`, where this worker writes them; None = of none.
    """

    def __init__(
        self,
        loss: "SplitLoss",
        output_dir: Path,
        score: Callable | None,
        writes: bool,
        history: Sequence[Mapping[str, Any]],
        best_by: str = "loss",
    ):
        self._loss, self._output_dir, self._best_by = loss, output_dir, best_by
        self._score, self._writes = score, writes
        self.left_out, self.history = loss.left_out, history
        kept = checkpoint_paths(output_dir / BEST) if writes else []
        self.kept = step_of(kept[-1]) if kept else None

    def evaluate(
        self,
        step: int,
        training: Mapping[str, float] | None = None,
        is_last: bool = True,
        head: Mapping[str, Any] | None = None,
    ) -> tuple[dict[str, float], str]:
        """Measures the model after a step, and records it with numbers of its training.

        It is scored if its accuracy allows a score above 0, or if the evaluation `is_last`. `head`
        is saved beside the best weights, see `Checkpoints.save`.

        Returns:
          What `SplitLoss.measure` does, with the main value where the model is scored, as "bleu";
          and lines to print.

        Raises:
          FloatingPointError: the dev loss is NaN or infinite; nothing is recorded.
        """
        started = time.monotonic()
        scalars = self._loss.measure()
        if not math.isfinite(scalars["loss"]):
            raise FloatingPointError(f"The dev loss is {scalars['loss']} after step {step}.")
        is_scored = self._score and (is_last or scalars["accuracy"] >= _LEAST_ACCURACY)
        score, sample = self._score() if self._score and is_scored else (None, [])
        if score:
            scalars |= dict([score.main]) | deciding(score, self._best_by)
        lines = str(score).split("\n") if score else []
        values = ", ".join(f"{name} {value:.4g}" for name, value in scalars.items())
        seconds = time.monotonic() - started
        heading = f"Dev set at step {step:,}: {values} ({seconds:.0f} s)"
        if self._score and not is_scored:
            heading += f"; not translated before an accuracy of {_LEAST_ACCURACY}"
        entry = {"step": step, **scalars, **(training or {})}
        entry |= {"score": lines, "sample": sample} if score else {}
        # A completed run may be evaluated again, without training.
        entry = next((each for each in self.history if each["step"] == step), {}) | entry
        # A run that continues from an earlier checkpoint evaluates the later steps again.
        self.history = [*(each for each in self.history if each["step"] < step), entry]
        if self._writes:
            if self._is_to_be_kept(step):
                directory = self._output_dir / BEST
                self._loss.config.save(directory)
                weights = self._loss.step.weights()
                Checkpoints(directory, weights, keep=1).save(step, head)
                self.kept = step
            text = "".join(json.dumps(each) + "\n" for each in self.history)
            write_atomically(self._output_dir / _HISTORY, text.encode("utf-8"))
        return scalars, "\n".join([heading, *lines, *_shown(sample)])

    def best_step(self) -> int:
        """Returns the step of the best evaluation so far, or -1; of several, the first."""
        values = self._values()
        return max(values, key=values.get, default=-1)

    def _values(self) -> dict[int, float]:
        """Returns by step how good the evaluations are, of those that have what tells the best."""
        by, sign = self._best_by, -1 if self._best_by == "loss" else 1
        # Those of an earlier start of the run may lack it.
        found = (each for each in self.history if each.get(by) is not None)
        return {each["step"]: sign * each[by] for each in found}

    def _is_to_be_kept(self, step: int) -> bool:
        if self.best_step() == step:
            return True
        # Of what an interrupted start has kept without a record, nothing is known.
        known, values = any(each["step"] == self.kept for each in self.history), self._values()
        return known and step in values and values[step] > values.get(self.kept, -math.inf)


def deciding(score, best_by: str) -> dict[str, float]:
    """Returns the number of a problem's score that tells the best, by its name; {} for the loss.

    Raises:
      UserError: the score has no number of this name.
    """
    if best_by == "loss":
        return {}
    value = getattr(score, best_by, None)
    if value is None:
        value = getattr(score, "metrics", {}).get(best_by)
    if not isinstance(value, float):
        raise UserError(
            f"--best_by={best_by}: expected loss or a number of this problem's score, as "
            f"{score.main[0]}.",
            code="bad_value",
        )
    return {best_by: value}


def _shown(sample: Sample) -> list[str]:
    """Returns lines for a terminal."""
    names = "source", "translation", "reference"
    return [
        f"  {name:<11}  {printable(text, _SHOWN_CHARACTERS)}"
        for texts in sample
        for name, text in zip(names, texts, strict=True)
    ]


class SplitLoss:
    """Measures a run's model on its dev or test split, with the weights that it has at each call.

    At most `eval_steps` batches are measured; 0 = all.

    Attributes:
      left_out: number of pairs that are too long to be measured.

    Raises:
      UserError: the data has no such split.
    """

    def __init__(
        self,
        step: backend.Step,
        config: RunConfig,
        generated: Generated,
        split: str,
        eval_steps: int = 0,
    ):
        self.step, self.config, self._store = step, config, generated.store(split)
        hparams = config.hparams
        # A run with microbatch_tokens=auto may have found its number on another machine.
        self._most = hparams.microbatch_tokens or max(hparams.max_length, _USUAL_TOKENS)
        self._fewest = min(hparams.max_length, self._most)
        # Batches as in training, so that eval_steps takes the same ones on every machine.
        limits = hparams.batch_tokens, self._fewest
        sampler = TokenBatchSampler(self._store.lengths, *limits, seed=0)
        self.left_out = sampler.left_out
        self._batches = sampler.epoch(0)[: eval_steps or None]

    def measure(self) -> dict[str, float]:
        """Returns {"loss": unsmoothed cross-entropy per token, "perplexity", "accuracy"}.

        On OOM it goes on with half as much at once, and says so.

        Raises:
          UserError: not even one sentence fits, or there are other workers and so much does not.
        """
        totals = collections.Counter()
        for batch in self._batches:
            for sums in self._sums(batch):
                totals.update(sums)
        return averages(totals)

    def _sums(self, batch: np.ndarray) -> list[dict[str, float]]:
        """Returns the sums of each part of a batch, in parts that fit."""
        while True:
            parts = replica_batches(self._store, batch, self._most, self.step)
            try:
                return [self.step.evaluate(arrays) for arrays in parts]
            except OutOfMemoryError:
                self._halve()

    def _halve(self) -> None:
        before = self._most
        problem = f"Out of memory in an evaluation of {before:,} tokens at once"
        if before <= self._fewest:
            raise UserError(
                f"{problem}. Lower max_length, or take a smaller model or more memory.",
                code="out_of_memory",
            )
        if len(self.step.local_replicas) < self.step.num_replicas:
            # The others wait for this part.
            raise UserError(
                f"{problem}. Start all workers with a smaller microbatch_tokens.",
                code="out_of_memory",
            )
        self._most = max(before // 2, self._fewest)
        print_beside_bar(f"{problem}: continuing with {self._most:,}.")
