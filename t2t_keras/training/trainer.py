"""`train`: the loop around the optimizer steps: data, progress, evaluation, checkpoints, faults."""

import concurrent.futures
import dataclasses
import itertools
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from t2t_keras.data.batches import TokenArrays, TokenBatches, replica_arrays, split_batch
from t2t_keras.data.generated import Generated
from t2t_keras.errors import UserError
from t2t_keras.training import backend
from t2t_keras.training.evaluation import BEST, Evaluator
from t2t_keras.training.graceful_stop import GracefulStop
from t2t_keras.training.progress import Progress, Totals
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.training_cost import CostMeter, hardware_name
from t2t_keras.training.workers import Agreed, OneWorker, SeveralWorkers

SCHEDULES = ("train", "evaluate", "train_and_evaluate")
# Steps between two points of the curves.
_LOG_STEPS = 100
# Steps whose arrays are read and padded while earlier ones are computed.
_STEPS_AHEAD = 4


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """How a run is watched and kept; nothing here changes what a step computes.

    Attributes:
      save_checkpoints_secs: seconds between two checkpoints (section 6.1: 10 minutes).
      keep_checkpoint_max: checkpoints kept.
      local_eval_frequency: steps between two evaluations on the dev set.
      eval_steps: most batches of an evaluation; 0 = the whole dev set.
      eval_bleu: whether dev set BLEU is computed as well.
      eval_early_stopping_steps: the run ends when the dev loss has not fallen for so many steps;
        0 = never.
      schedule: one of `SCHEDULES`.
      warm_start_from: a run's directory, or a checkpoint, whose weights a new run starts from.
      xla: whether TensorFlow's forward and backward pass is compiled by XLA for a few fixed
        shapes; JAX's always is.
      worker_start_secs: seconds that several workers wait for each other at the beginning.
      worker_timeout_secs: seconds that one of them may be silent, or behind the others.
    """

    save_checkpoints_secs: float = 600
    keep_checkpoint_max: int = 20
    local_eval_frequency: int = 1000
    eval_steps: int = 0
    eval_bleu: bool = False
    eval_early_stopping_steps: int = 0
    schedule: str = "train_and_evaluate"
    warm_start_from: str = ""
    xla: bool = False
    worker_start_secs: float = 300
    worker_timeout_secs: float = 60


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """How a run ended.

    Attributes:
      step: optimizer steps done since the beginning of the run.
      checkpoint: the newest checkpoint's path prefix.
      evaluation: the last scalars of the dev set, {} where there was no evaluation.
      signal: number of the signal that ended the run early, or 0.
    """

    step: int
    checkpoint: str
    evaluation: dict[str, float]
    signal: int = 0


def train(
    record: RunRecord,
    generated: Generated,
    output_dir: str | Path,
    make_step: Callable[..., backend.Step] = backend.make_step,
    options: TrainOptions = TrainOptions(),
    workers: OneWorker | SeveralWorkers | None = None,
) -> TrainResult:
    """Trains a model, or goes on with a run as if it had never stopped.

    Args:
      record: what the run uses.
      generated: its data.
      output_dir: where checkpoints, logs and the record go, or are.
      make_step: returns the step, given the record and `xla` (see `backend.make_step`).
      options: how it is watched and kept.
      workers: this process and those that do every step with it; None = it trains alone.

    Returns:
      How it ended.

    Raises:
      UserError: `output_dir` holds a run that used something else, the loss is NaN, a checkpoint
        cannot be read or written.
    """
    if options.schedule not in SCHEDULES:
        raise UserError(f"--schedule is one of {', '.join(SCHEDULES)}; {options.schedule} came.")
    _check_record(record, output_dir)
    backend.check_backend(options.eval_bleu)
    workers = workers or OneWorker()
    workers.meet(record, generated, options)
    step = make_step(record, xla=options.xla)
    checkpoints = workers.open_checkpoints(output_dir, step.state(), options.keep_checkpoint_max)
    restored = checkpoints.restore_newest()
    if restored:
        print(f"Continuing from {restored}.")
    elif options.warm_start_from:
        _warm_start(step.model, record, options.warm_start_from)
    evaluator = None
    if options.schedule != "train":
        evaluator = Evaluator(
            step,
            record,
            generated,
            output_dir,
            options.eval_steps,
            options.eval_bleu,
            writes=workers.is_chief,
        )
    if options.schedule == "evaluate":
        if not restored:
            backend.checkpoints().newest_checkpoint(output_dir)
        scalars = evaluator.evaluate(step.steps_done())
        print(_evaluation_line(step.steps_done(), scalars))
        return TrainResult(step.steps_done(), restored, scalars)
    if workers.is_chief:
        record.save(output_dir)
    store, curves = generated.store("train"), workers.make_curves(output_dir)
    run = _Run(
        record, store, step, checkpoints, evaluator, curves, options, Path(output_dir), workers
    )
    return run.loop(restored or "")


class _Run:
    """The loop of one process of a run."""

    def __init__(
        self, record, store, step, checkpoints, evaluator, curves, options, output_dir, workers
    ):
        self._workers = workers
        self._hparams = record.hparams
        self._store = store
        self._step = step
        self._checkpoints = checkpoints
        self._evaluator = evaluator
        self._options = options
        self._batches = TokenBatches(
            store.lengths, self._hparams.batch_tokens, self._hparams.max_length, record.random_seed
        )
        self._first = step.steps_done()
        self._last = max(self._hparams.train_steps, self._first)
        self._progress = Progress(curves, self._first, self._last)
        self._totals = Totals()
        self._done = self._first
        self._saved = self._first if self._first else -1
        self._saved_path = ""
        self._saved_at = time.monotonic()
        self._evaluation: dict[str, float] = {}
        self._evaluated = -1
        self._output_dir = output_dir
        self._cost = CostMeter(output_dir, self._first, hardware_name(step.gpus(), workers.count))

    def loop(self, restored: str) -> TrainResult:
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
                for number, parts in self._steps_ahead():
                    self._workers.begins(number)
                    measure = (number + 1) % _LOG_STEPS == 0
                    sums = self._step.update(number, parts, measure)
                    # Looked at while the next step runs, so that a device never waits for it.
                    self._finish(pending)
                    pending = number, {**sums, "learning_rate": self._step.schedule(number)}
                    # Asked once: the clock must not make a pause due before the step is finished.
                    agreed = self._workers.agree(
                        self._step, number, stop.number, self._save_is_due()
                    )
                    due = agreed.save or self._evaluation_is_due(number + 1)
                    if measure or due or agreed.stop:
                        self._finish(pending)
                        pending = None
                    if agreed.stop or (due and not self._pause(agreed.save)):
                        break
                self._finish(pending)
                stopped = self._workers.stopped_by(stop.number, agreed)
                if not stopped and self._evaluator and self._evaluated != self._done:
                    self._evaluate()
                self._save()
            finally:
                self._progress.close()
        stopped = self._workers.stopped_by(stop.number, agreed)
        if stopped:
            name = signal.Signals(stopped).name
            print(
                f"Stopped by {name} after step {self._done}; saved {self._saved_path}. "
                f"The same command continues from there."
            )
        return TrainResult(self._done, self._saved_path, self._evaluation, stopped)

    def _describe(self) -> None:
        source, target = self._batches.fill()
        left_out = {"training": self._batches.left_out}
        if self._evaluator:
            left_out["dev"] = self._evaluator.left_out
        print(
            f"{self._step.model.count_params():,} weights on {self._step.num_replicas} "
            f"replica(s), steps {self._first:,} to {self._last:,}, {len(self._store):,} training "
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

    def _arrays(self, number: int) -> list[list[TokenArrays]]:
        fixed = self._hparams.microbatch_tokens if self._step.fixed_shapes else 0
        split = split_batch(
            self._store.lengths,
            self._batches.at(number),
            self._hparams.microbatch_tokens,
            self._step.num_replicas,
            fixed_shapes=self._step.fixed_shapes,
        )
        here = self._step.replicas_here
        return [replica_arrays(self._store, each, here, fixed) for each in split]

    def _steps_ahead(self) -> Iterator[tuple[int, list[list[TokenArrays]]]]:
        """Yields step numbers with their arrays, which a thread prepares ahead of time."""
        numbers = iter(range(self._first, self._last))
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            waiting = [
                (number, thread.submit(self._arrays, number))
                for number in itertools.islice(numbers, _STEPS_AHEAD)
            ]
            while waiting:
                number, arrays = waiting.pop(0)
                following = next(numbers, None)
                if following is not None:
                    waiting.append((following, thread.submit(self._arrays, following)))
                yield number, arrays.result()

    def _finish(self, pending) -> None:
        """Reads the numbers of a step that was started, and stops the run where they are NaN."""
        if pending is None:
            return
        number, sums = pending[0], {name: float(value) for name, value in pending[1].items()}
        if not np.isfinite(sums["loss"]):
            raise UserError(
                f"The loss is {sums['loss']} at step {number + 1}. The last good checkpoint is "
                f"{self._saved_path or 'none'}. Try a lower learning_rate, more warmup_steps or "
                f"clip_norm=1.0 in a new --output_dir."
            )
        self._workers.hear(pending[0], sums)
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
        return time.monotonic() - self._saved_at >= self._options.save_checkpoints_secs

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
        with self._cost.paused(), self._workers.busy("evaluating"):
            self._evaluation = self._evaluator.evaluate(self._done)
            if self._workers.is_chief and self._evaluator.best_step() == self._done:
                self._cost.write(self._done, self._output_dir / BEST)
        self._evaluated = self._done
        self._progress.write("eval", self._done, self._evaluation)
        seconds = time.monotonic() - started
        self._progress.say(f"{_evaluation_line(self._done, self._evaluation)} ({seconds:.0f} s)")
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
        with self._cost.paused(), self._workers.busy("saving"):
            if self._workers.is_chief:
                self._cost.write(self._done)
            self._saved_path = self._checkpoints.save(self._done)
        self._saved, self._saved_at = self._done, time.monotonic()


def _check_record(record: RunRecord, output_dir: str | Path) -> None:
    if not RunRecord.exists(output_dir):
        return
    differences = RunRecord.load(output_dir).differences(record)
    if differences:
        raise UserError(
            f"--output_dir={output_dir} holds a run that used something else:\n  "
            + "\n  ".join(differences)
            + f"\nGive what it used (or leave those flags out) to continue it; or give a new "
            f"--output_dir with --warm_start_from={output_dir} to start from its weights."
        )


def _warm_start(model, record: RunRecord, source: str) -> None:
    """Loads the weights of another run, whose ids must mean the same."""
    files = backend.checkpoints()
    path = files.newest_checkpoint(source) if Path(source).is_dir() else source
    if RunRecord.exists(Path(path).parent):
        theirs = RunRecord.load(Path(path).parent).tokenizer
        if theirs.checksum != record.tokenizer.checksum:
            raise UserError(
                f"--warm_start_from={source} was trained with another vocabulary "
                f"({theirs.checksum[:12]}, this data has {record.tokenizer.checksum[:12]}). Make "
                f"the data with --problem_config=vocab_file={Path(path).parent}/vocab.model."
            )
    files.load_weights(model, path)
    print(f"Starting from the weights of {path}.")


def _evaluation_line(step: int, scalars: dict[str, float]) -> str:
    values = ", ".join(f"{name} {value:.4g}" for name, value in scalars.items())
    return f"Dev set at step {step:,}: {values}"
