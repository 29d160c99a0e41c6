"""The loop around the optimizer steps: progress, evaluation, checkpoints, faults."""

import signal
import time
from pathlib import Path

import numpy as np

from t2t_keras.data.batches import TokenArrays, TokenBatches
from t2t_keras.errors import UserError
from t2t_keras.training import backend
from t2t_keras.training.evaluation import BEST, Evaluator
from t2t_keras.training.graceful_stop import GracefulStop
from t2t_keras.training.microbatch import Microbatch
from t2t_keras.training.out_of_memory import OutOfMemoryError
from t2t_keras.training.profiling import StepProfiler
from t2t_keras.training.progress import Progress, Totals
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.step_arrays import StepArrays
from t2t_keras.training.time_report import CHECKPOINT, EVALUATION, INPUT, STEP, TimeReport
from t2t_keras.training.train_options import TrainOptions, TrainResult
from t2t_keras.training.training_cost import CostMeter, hardware_name
from t2t_keras.training.workers import Agreed, OneWorker, SeveralWorkers

# Steps between two points of the curves.
_LOG_STEPS = 100


class RunLoop:
    """The loop of one process of a run.

    Args:
      output_dir: the run's directory.
      record: what it uses.
      store: an `ExampleStore` of its training examples.
      step: what computes a step.
      microbatch: how many tokens a replica holds at once.
      checkpoints: what writes checkpoints.
      evaluator: measures the model on the dev set; None = nothing does.
      curves: what writes curves.
      profiler: traces some steps.
      workers: this process and those that do every step with it.
      time_report: where the time goes, from the run's start on.
      options: how the run is watched and kept.
    """

    def __init__(
        self,
        output_dir: Path,
        record: RunRecord,
        *,
        store,
        step: backend.Step,
        microbatch: Microbatch,
        checkpoints,
        evaluator: Evaluator | None,
        curves,
        profiler: StepProfiler,
        workers: OneWorker | SeveralWorkers,
        time_report: TimeReport,
        options: TrainOptions,
    ):
        self._output_dir = output_dir
        self._hparams = record.hparams
        self._step = step
        self._microbatch = microbatch
        self._checkpoints = checkpoints
        self._evaluator = evaluator
        self._profiler = profiler
        self._workers = workers
        self._options = options
        self._batches = TokenBatches(
            store.lengths, self._hparams.batch_tokens, self._hparams.max_length, record.random_seed
        )
        self._arrays = StepArrays(store, self._batches, step, microbatch)
        self._pairs = len(store)
        self._first = step.steps_done()
        self._last = max(self._hparams.train_steps, self._first)
        self._progress = Progress(curves, self._first, self._last)
        self._totals = Totals()
        self._time = time_report
        self._cost = CostMeter(output_dir, self._first, hardware_name(step.gpus(), workers.count))
        self._done = self._first
        self._saved = self._first if self._first else -1
        self._saved_path = ""
        self._saved_at = 0.0
        self._evaluation: dict[str, float] = {}
        self._evaluated = -1

    def run(self, restored: str) -> TrainResult:
        """Trains until the last step, an early stop or a signal.

        Args:
          restored: the checkpoint that the run continues from, "" where it begins.

        Returns:
          How it ended.
        """
        self._saved_path = restored
        self._describe()
        with GracefulStop() as stop:
            try:
                pending, agreed = None, Agreed()
                steps = self._arrays.ahead(
                    iter(range(self._first, self._last)), lambda: self._time.spent_on(INPUT)
                )
                for number, parts in steps:
                    self._workers.begins(number)
                    measure = (number + 1) % _LOG_STEPS == 0
                    sums = self._update(number, parts, measure)
                    # Looked at while the next step runs, so that a device never waits for it.
                    self._finish(pending)
                    pending = number, {**sums, "learning_rate": self._step.schedule(number)}
                    # Asked once: the clock must not make a pause due before the step is finished.
                    agreed = self._workers.agree(
                        self._step, number, stop.number, self._save_is_due()
                    )
                    due = agreed.save or self._evaluation_is_due(number + 1)
                    traced = self._profiler.ends_at(number + 1)
                    if measure or due or traced or agreed.stop:
                        self._finish(pending)
                        pending = None
                    if traced:
                        self._profiler.finish()
                    if agreed.stop or (due and not self._pause(agreed.save)):
                        break
                self._finish(pending)
                stopped = self._workers.stopped_by(stop.number, agreed)
                if not stopped and self._evaluator and self._evaluated != self._done:
                    self._evaluate()
                self._save()
            finally:
                self._profiler.close()
                self._progress.close()
                self._time.show()
        if stopped:
            print(
                f"Stopped by {signal.Signals(stopped).name} after step {self._done}; saved "
                f"{self._saved_path}. The same command continues from there."
            )
        return TrainResult(self._done, self._saved_path, self._evaluation, stopped)

    def _describe(self) -> None:
        source, target = self._batches.fill()
        left_out = {"training": self._batches.left_out}
        if self._evaluator:
            left_out["dev"] = self._evaluator.left_out
        print(
            f"{self._step.model.count_params():,} weights on {self._step.num_replicas} "
            f"replica(s), steps {self._first:,} to {self._last:,}, {self._pairs:,} training "
            f"pairs; a step holds on average {source:.1%} (source) and {target:.1%} (target) of "
            f"batch_tokens={self._hparams.batch_tokens:,}.",
            flush=True,
        )
        for split, count in left_out.items():
            if count:
                print(
                    f"{count:,} {split} pairs are left out: longer than "
                    f"max_length={self._hparams.max_length}.",
                    flush=True,
                )

    def _update(self, number: int, parts: list[list[TokenArrays]], measure: bool) -> dict:
        """Starts a step; out of memory, again with half as much at once, until it fits."""
        while True:
            try:
                with self._profiler.step(number + 1), self._time.spent_on(STEP):
                    return self._step.update(number, parts, measure)
            except OutOfMemoryError:
                before = self._microbatch.tokens
                self._microbatch.halve()
                self._progress.say(
                    f"Out of memory at step {number + 1} with microbatch_tokens={before:,}; it "
                    f"goes on with {self._microbatch.tokens:,}, with the same batch_tokens."
                )
                with self._time.spent_on(INPUT):
                    parts = self._arrays.at(number)

    def _finish(self, pending) -> None:
        """Reads the numbers of a step that was started, and stops the run where they are NaN."""
        if pending is None:
            return
        with self._time.spent_on(STEP):
            number, sums = pending[0], {name: float(value) for name, value in pending[1].items()}
        self._time.finished_a_step()
        if not np.isfinite(sums["loss"]):
            raise UserError(
                f"The loss is {sums['loss']} at step {number + 1}. The last good checkpoint is "
                f"{self._saved_path or 'none'}. Try a lower learning_rate, more warmup_steps or "
                f"clip_norm=1.0 in a new --output_dir."
            )
        self._workers.hear(number, sums)
        norm, learning_rate = sums.pop("gradient_norm"), sums.pop("learning_rate")
        self._totals.add(sums)
        self._cost.add_tokens(sums["tokens"])
        self._done = number + 1
        speed = self._totals.tokens_per_second()
        self._progress.step(sums["loss"] / max(sums["tokens"], 1), learning_rate, speed)
        if self._done % _LOG_STEPS == 0:
            scalars = self._totals.scalars()
            scalars |= {"learning_rate": learning_rate, "gradient_norm": norm}
            self._progress.write("train", self._done, {**scalars, "tokens_per_second": speed})
            self._totals.clear()

    def _save_is_due(self) -> bool:
        # By the clock that training_cost.json keeps, so that t2t-avg-all --seconds_apart=600 finds
        # checkpoints saved every 600 s so far apart, whatever time evaluations took between them.
        return self._cost.seconds - self._saved_at >= self._options.save_checkpoints_secs

    def _evaluation_is_due(self, done: int) -> bool:
        every = self._options.local_eval_frequency
        return self._evaluator is not None and every > 0 and done % every == 0

    def _pause(self, save: bool) -> bool:
        """Saves and evaluates what is due; returns whether training goes on."""
        patience = self._options.eval_early_stopping_steps
        if save:
            self._save()
        if self._evaluation_is_due(self._done):
            self._evaluate()
            best = self._evaluator.best_step()
            if patience and self._done - best >= patience:
                self._progress.say(
                    f"The dev loss has not fallen since step {best}: ending early "
                    f"(eval_early_stopping_steps={patience})."
                )
                return False
        return True

    def _evaluate(self) -> None:
        started = time.monotonic()
        with (
            self._time.spent_on(EVALUATION),
            self._cost.paused(),
            self._workers.busy("evaluating"),
        ):
            self._evaluation = self._evaluator.evaluate(self._done)
            if self._workers.is_chief and self._evaluator.best_step() == self._done:
                self._cost.write(self._done, self._output_dir / BEST)
        self._evaluated = self._done
        self._progress.write("eval", self._done, self._evaluation)
        seconds = time.monotonic() - started
        self._progress.say(self._evaluator.told(self._done, self._evaluation, seconds))
        self._totals.clear()

    def _save(self) -> None:
        if self._saved == self._done:
            return
        if not self._step.weights_are_finite():
            raise UserError(
                f"A weight is NaN or infinite after step {self._done}. The last good checkpoint "
                f"is {self._saved_path or 'none'}. Try a lower learning_rate or clip_norm=1.0 in "
                f"a new --output_dir."
            )
        with self._time.spent_on(CHECKPOINT), self._cost.paused(), self._workers.busy("saving"):
            if self._workers.is_chief:
                self._cost.write(self._done)
            self._saved_path = self._checkpoints.save(self._done)
        self._saved, self._saved_at = self._done, self._cost.seconds
