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
from t2t_keras.data.problem import Score
from t2t_keras.errors import OutOfMemoryError, UserError
from t2t_keras.io.files import BEST, EVALUATIONS_FILE, write_atomically
from t2t_keras.io.terminal import print_beside_bar, printable
from t2t_keras.text.files import split_lines
from t2t_keras.training.backends import base as backend
from t2t_keras.training.checkpoint_files import checkpoint_paths, step_of
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.progress import averages
from t2t_keras.training.run_config import RunConfig

# Triples of source, translation and reference.
Sample = Sequence[tuple[str, str, str]]

# Tokens to measure at once if the run does not record how many fit.
_DEFAULT_TOKENS = 4096
# Longer translations are shown in part: a model that has learned little may repeat itself.
_MAX_SHOWN_CHARACTERS = 300
# Below this accuracy the dev set is not translated: it would take long, for a BLEU of 0.
_MIN_ACCURACY = 0.2


def read_evaluations(output_dir: str | Path) -> list[dict[str, Any]]:
    """Returns the evaluations of a run so far, in order of steps.

    An evaluation has "step", the result of `SplitLoss.measure`, and "train_loss" (mean training
    loss per token since the previous evaluation). A scored evaluation also has the score
    under its name, "score" (the lines of its report) and "sample" (some translations).

    Raises:
      UserError: the file of the evaluations is damaged.
    """
    path, evaluations = Path(output_dir) / EVALUATIONS_FILE, []
    if not path.exists():
        return []
    lines = split_lines(path.read_text(encoding="utf-8", errors="replace"))
    for number, line in enumerate(lines, 1):
        try:
            evaluations.append(json.loads(line))
            evaluations[-1]["step"], evaluations[-1]["loss"]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path}:{number} is not an evaluation. Delete the line.", code="damaged_file"
            ) from error
    return evaluations


class Evaluator:
    """Measures the dev set, and saves the best weights in the run's `best/`.

    Args:
      loss: measures the loss of the dev set.
      output_dir: directory of the run.
      score: scores the model on the dev set with the problem's `score`; returns the score and some
        translations. None = no score.
      writes_files: whether this worker writes the files.
      history: the evaluations so far, see `read_evaluations`.
      best_by: the criterion for the best weights: loss, or the name of a metric. After a change of
        the criterion, `best/` keeps its weights until better ones come.

    Attributes:
      left_out: number of pairs that are too long to be measured.
      history: the evaluations so far.
      best_saved_step: step of the weights in `best/`; None = none, or not written by this worker.
    """

    def __init__(
        self,
        loss: "SplitLoss",
        output_dir: Path,
        score: Callable[[], tuple[Score, Sample]] | None,
        writes_files: bool,
        history: Sequence[dict[str, Any]],
        best_by: str = "loss",
    ):
        self._loss, self._output_dir, self._best_by = loss, output_dir, best_by
        self._score_model, self._writes_files = score, writes_files
        self.left_out, self.history = loss.left_out, list(history)
        best = checkpoint_paths(output_dir / BEST) if writes_files else []
        self.best_saved_step = step_of(best[-1]) if best else None

    def evaluate(
        self,
        step: int,
        train_loss: Mapping[str, float] | None = None,
        is_last: bool = True,
        head: Mapping[str, Any] | None = None,
    ) -> tuple[dict[str, float], str]:
        """Measures the model after a step, and records the result with `train_loss`.

        The model is scored if its accuracy allows a score above 0, or if the evaluation `is_last`.
        `head` is saved with the best weights, see `Checkpoints.save`.

        Returns:
          The result of `SplitLoss.measure`, with the main score if there is one, such as "bleu";
          and lines to print.

        Raises:
          FloatingPointError: the dev loss is NaN or infinite; nothing is recorded.
        """
        started = time.monotonic()
        scalars = self._loss.measure()
        if not math.isfinite(scalars["loss"]):
            raise FloatingPointError(f"The dev loss is {scalars['loss']} after step {step}.")
        is_scored = is_last or scalars["accuracy"] >= _MIN_ACCURACY
        report: dict[str, Any] = {}
        lines: list[str] = []
        if self._score_model and is_scored:
            score, sample = self._score_model()
            scalars |= dict([score.main]) | selection_metric(score, self._best_by)
            report = {"score": str(score).split("\n"), "sample": sample}
            lines = [*report["score"], *_format_sample(sample)]
        values = ", ".join(f"{name} {value:.4g}" for name, value in scalars.items())
        heading = f"Dev set at step {step:,}: {values} ({time.monotonic() - started:.0f} s)"
        if self._score_model and not is_scored:
            heading += f"; not translated below an accuracy of {_MIN_ACCURACY}"
        # A completed run may be evaluated again, without training.
        earlier_entries = (entry for entry in self.history if entry["step"] == step)
        entry = next(earlier_entries, {}) | {
            "step": step,
            **scalars,
            **(train_loss or {}),
            **report,
        }
        # A run that continues from an earlier checkpoint repeats later evaluations.
        self.history = [*(past for past in self.history if past["step"] < step), entry]
        if self._writes_files:
            self._record(step, head)
        return scalars, "\n".join([heading, *lines])

    def best_step(self) -> int:
        """Returns the step of the best evaluation so far, the first of equals; -1 = none."""
        values = self._criterion_by_step()
        return max(values, key=lambda step: values[step], default=-1)

    def _criterion_by_step(self) -> dict[int, float]:
        """Returns the criterion's recorded values by step; higher is better (a loss is negated)."""
        criterion, sign = self._best_by, -1 if self._best_by == "loss" else 1
        # Evaluations of an earlier start of the run may lack it.
        return {
            evaluation["step"]: sign * evaluation[criterion]
            for evaluation in self.history
            if evaluation.get(criterion) is not None
        }

    def _record(self, step: int, head: Mapping[str, Any] | None) -> None:
        """Writes the history, and the weights of this step if they are the best."""
        is_best = self.best_step() == step
        # An interrupted run may have saved weights without a record; their rank is unknown.
        if not is_best and any(
            evaluation["step"] == self.best_saved_step for evaluation in self.history
        ):
            values = self._criterion_by_step()
            saved_value = values.get(self.best_saved_step or 0, -math.inf)
            is_best = values.get(step, -math.inf) > saved_value
        if is_best:
            self._loss.config.save(self._output_dir / BEST)
            weights = self._loss.step.weights()
            Checkpoints(self._output_dir / BEST, weights, keep=1).save(step, head)
            self.best_saved_step = step
        text = "".join(json.dumps(evaluation) + "\n" for evaluation in self.history)
        write_atomically(self._output_dir / EVALUATIONS_FILE, text.encode("utf-8"))


def selection_metric(score: Score, best_by: str) -> dict[str, float]:
    """Returns the metric that selects the best weights, from a score; {} for the loss.

    Raises:
      UserError: the score has no metric of this name.
    """
    if best_by == "loss":
        return {}
    value = getattr(score, best_by, None)
    if value is None:
        value = getattr(score, "metrics", {}).get(best_by)
    if not isinstance(value, float):
        raise UserError(
            f"--best_by={best_by}: expected loss or a metric of this problem's score, such as "
            f"{score.main[0]}.",
            code="bad_value",
        )
    return {best_by: value}


def _format_sample(sample: Sample) -> list[str]:
    """Returns the lines that show a sample on a terminal."""
    names = "source", "translation", "reference"
    return [
        f"  {name:<11}  {printable(text, _MAX_SHOWN_CHARACTERS)}"
        for texts in sample
        for name, text in zip(names, texts, strict=True)
    ]


class SplitLoss:
    """Measures a run's model, with its current weights, on the run's dev or test split.

    Measures at most `eval_steps` batches; 0 = all.

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
        self.step, self.config, self._store = step, config, generated.open_examples(split)
        hparams = config.hparams
        # microbatch_tokens=auto may have been resolved on another machine.
        self._max_tokens = hparams.microbatch_tokens or max(hparams.max_length, _DEFAULT_TOKENS)
        self._min_tokens = min(hparams.max_length, self._max_tokens)
        # Batches as in training, so that eval_steps selects the same batches on every machine.
        limits = hparams.batch_tokens, self._min_tokens
        self._sampler = TokenBatchSampler(
            self._store.lengths, *limits, seed=0, batching=hparams.batching
        )
        self.left_out = self._sampler.left_out
        self._batches = self._sampler.epoch(0)[: eval_steps or None]
        self._rows = self._sampler.rows_for(step, self._max_tokens)

    def measure(self) -> dict[str, float]:
        """Returns {"loss": unsmoothed cross-entropy per token, "perplexity", "accuracy"}.

        When memory runs out, says so and continues with half as many tokens at once.

        Raises:
          UserError: not even one sentence fits, or a microbatch does not and others wait for it.
        """
        totals: collections.Counter[str] = collections.Counter()
        for examples in self._batches:
            for sums in self._sums(examples):
                totals.update(sums)
        return averages(totals)

    def _sums(self, examples: np.ndarray) -> list[dict[str, float]]:
        """Splits a batch into microbatches that fit into memory; returns the sums of each."""
        while True:
            microbatches = replica_batches(
                self._store, examples, self._max_tokens, self.step, self._rows
            )
            try:
                return [self.step.evaluate(microbatch) for microbatch in microbatches]
            except OutOfMemoryError:
                self._halve()

    def _halve(self) -> None:
        old_tokens = self._max_tokens
        problem = f"Out of memory in an evaluation of {old_tokens:,} tokens at once"
        if old_tokens <= self._min_tokens:
            raise UserError(
                f"{problem}. Lower max_length, or use a smaller model or more memory.",
                code="out_of_memory",
            )
        if len(self.step.local_replicas) < self.step.num_replicas:
            # The other workers wait for this microbatch.
            raise UserError(
                f"{problem}. Start all workers with a smaller microbatch_tokens.",
                code="out_of_memory",
            )
        self._max_tokens = max(old_tokens // 2, self._min_tokens)
        self._rows = self._sampler.rows_for(self.step, self._max_tokens)
        print_beside_bar(f"{problem}: continuing with {self._max_tokens:,}.")
