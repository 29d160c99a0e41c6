"""`train`: the loop around the optimizer steps: data, progress, evaluation, checkpoints, faults."""

import concurrent.futures
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from t2t_keras.data.batches import TokenArrays, TokenBatches, split_batch, token_arrays
from t2t_keras.data.generated import Generated
from t2t_keras.errors import UserError
from t2t_keras.progress_bar import print_beside_bar
from t2t_keras.training import backend
from t2t_keras.training.evaluation import BEST, Evaluator
from t2t_keras.training.graceful_stop import GracefulStop
from t2t_keras.training.microbatch import Microbatch, find_microbatch, with_microbatch
from t2t_keras.training.out_of_memory import OutOfMemoryError
from t2t_keras.training.profiling import StepProfiler, profiled_steps
from t2t_keras.training.progress import Progress, Totals
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.time_report import CHECKPOINT, EVALUATION, INPUT, STEP, TimeReport
from t2t_keras.training.training_cost import CostMeter, hardware_name

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
      profile_steps: "first,last": the steps of the run of which a trace is written; "" = none.
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
    profile_steps: str = ""


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
) -> TrainResult:
    """Trains a model, or goes on with a run as if it had never stopped.

    Args:
      record: what the run uses.
      generated: its data.
      output_dir: where checkpoints, logs and the record go, or are.
      make_step: returns the step, given the record and `xla` (see `backend.make_step`).
      options: how it is watched and kept.

    Returns:
      How it ended.

    Raises:
      UserError: `output_dir` holds a run that used something else, the loss is NaN, a checkpoint
        cannot be read or written.
    """
    if options.schedule not in SCHEDULES:
        raise UserError(f"--schedule is one of {', '.join(SCHEDULES)}; {options.schedule} came.")
    profiled = profiled_steps(options.profile_steps)
    _check_record(record, output_dir)
    backend.check_backend(options.eval_bleu)
    step = make_step(record, xla=options.xla)
    checkpoints = backend.checkpoints().Checkpoints(
        output_dir, step.state(), options.keep_checkpoint_max
    )
    restored = checkpoints.restore_newest()
    if restored:
        print(f"Continuing from {restored}.")
    elif options.warm_start_from:
        _warm_start(step.model, record, options.warm_start_from)
    microbatch = find_microbatch(step, record, generated, output_dir)
    asked, record = record, with_microbatch(record, microbatch.tokens)
    evaluator = None
    if options.schedule != "train":
        evaluator = Evaluator(
            step, record, generated, output_dir, options.eval_steps, options.eval_bleu
        )
    if options.schedule == "evaluate":
        if not restored:
            backend.checkpoints().newest_checkpoint(output_dir)
        scalars = evaluator.evaluate(step.steps_done())
        print(_evaluation_line(step.steps_done(), scalars))
        return TrainResult(step.steps_done(), restored, scalars)
    asked.save(output_dir)
    store, curves = generated.store("train"), backend.make_curves(output_dir)
    profiler = StepProfiler(output_dir, profiled, print_beside_bar)
    run = _Run(
        *(record, store, step, microbatch, checkpoints, evaluator),
        *(curves, profiler, options, Path(output_dir)),
    )
    return run.loop(restored or "")


class _Run:
    """The loop of one process of a run."""

    def __init__(
        self,
        record: RunRecord,
        store,
        step: backend.Step,
        microbatch: Microbatch,
        checkpoints,
        evaluator: Evaluator | None,
        curves,
        profiler: StepProfiler,
        options: TrainOptions,
        output_dir: Path,
    ):
        self._hparams = record.hparams
        self._store = store
        self._step = step
        self._microbatch = microbatch
        self._profiler = profiler
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
        self._cost = CostMeter(output_dir, self._first, hardware_name(step.gpus()))

    def loop(self, restored: str) -> TrainResult:
        """Trains until the last step, an early stop or a signal.

        Args:
          restored: the checkpoint that the run continues from, "" where it begins.

        Returns:
          How it ended.
        """
        self._saved_path = restored
        self._describe()
        self._time = TimeReport()
        with GracefulStop() as stop:
            try:
                pending = None
                for number, parts in self._steps_ahead():
                    measure = (number + 1) % _LOG_STEPS == 0
                    sums = self._update(number, parts, measure)
                    # Looked at while the next step runs, so that a device never waits for it.
                    self._finish(pending)
                    pending = number, {**sums, "learning_rate": self._step.schedule(number)}
                    # Asked once: the clock must not make a pause due before the step is finished.
                    due = self._save_is_due() or self._evaluation_is_due(number + 1)
                    traced = self._profiler.ends_at(number + 1)
                    if measure or due or traced or stop.number:
                        self._finish(pending)
                        pending = None
                    if traced:
                        self._profiler.finish()
                    if stop.number or (due and not self._pause()):
                        break
                self._finish(pending)
                if not stop.number and self._evaluator and self._evaluated != self._done:
                    self._evaluate()
                self._save()
            finally:
                self._profiler.close()
                self._progress.close()
                self._time.show()
        if stop.number:
            print(
                f"Stopped by {stop.signal_name} after step {self._done}; saved {self._saved_path}. "
                f"The same command continues from there."
            )
        return TrainResult(self._done, self._saved_path, self._evaluation, stop.number)

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

    def _arrays(self, number: int, tokens: int) -> list[list[TokenArrays]]:
        fixed = tokens if self._step.fixed_shapes else 0
        split = split_batch(
            self._store.lengths,
            self._batches.at(number),
            tokens,
            self._step.num_replicas,
            fixed_shapes=self._step.fixed_shapes,
        )
        return [[token_arrays(self._store, part, fixed) for part in each] for each in split]

    def _steps_ahead(self) -> Iterator[tuple[int, list[list[TokenArrays]]]]:
        """Yields step numbers with their arrays, which a thread prepares ahead of time."""
        numbers = iter(range(self._first, self._last))
        with concurrent.futures.ThreadPoolExecutor(1) as thread:

            def prepare(number):
                tokens = self._microbatch.tokens
                return number, tokens, thread.submit(self._arrays, number, tokens)

            waiting = list(map(prepare, itertools.islice(numbers, _STEPS_AHEAD)))
            while waiting:
                number, tokens, arrays = waiting.pop(0)
                waiting += map(prepare, itertools.islice(numbers, 1))
                with self._time.spent_on(INPUT):
                    if tokens != self._microbatch.tokens:  # Halved since.
                        arrays = prepare(number)[-1]
                    parts = arrays.result()
                yield number, parts

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
                    parts = self._arrays(number, self._microbatch.tokens)

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

    def _pause(self) -> bool:
        """Saves and evaluates what is due; returns whether training goes on."""
        patience = self._options.eval_early_stopping_steps
        if self._save_is_due():
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
        with self._time.spent_on(EVALUATION), self._cost.paused():
            self._evaluation = self._evaluator.evaluate(self._done)
            if self._evaluator.best_step() == self._done:
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
        with self._time.spent_on(CHECKPOINT), self._cost.paused():
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
