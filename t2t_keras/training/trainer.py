"""The training loop of a run."""

import collections
import dataclasses
import itertools
import json
import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import keras

from t2t_keras.data.augmentation import AugmentedSteps
from t2t_keras.data.batches import Batch, RemoteBatch, TokenBatchSampler, replica_batches
from t2t_keras.data.dataset import BackgroundCheck, ExampleStore, Generated
from t2t_keras.errors import OutOfMemoryError, UserError
from t2t_keras.io.terminal import caught_signals, print_beside_bar
from t2t_keras.training.backends.base import Step
from t2t_keras.training.checkpoint_files import newest_checkpoint, path_at
from t2t_keras.training.checkpoints import NEWEST_SAVED, Checkpoints
from t2t_keras.training.cost import (
    CHECKPOINT,
    EVALUATION,
    INPUT,
    STEP,
    CostMeter,
    RunClock,
    TrainingCost,
    cost_in,
    hardware_name,
    same_cost,
)
from t2t_keras.training.curves import make_curves
from t2t_keras.training.distributed import Actions, Workers
from t2t_keras.training.evaluation import Evaluator, Sample, SplitLoss, read_evaluations
from t2t_keras.training.microbatch import Microbatch, microbatch_of_run
from t2t_keras.training.progress import (
    LOG_STEPS,
    Progress,
    RunCallbacks,
    StepProfiler,
)
from t2t_keras.training.run_config import RunConfig, TrainOptions, TrainResult
from t2t_keras.training.warm_start import warm_start

# The examples of a step, by microbatch and then by replica.
Microbatches = list[list[Batch | RemoteBatch]]
# Latest time of a new run's first evaluation, which shows whether the run learns anything.
_FIRST_EVALUATION_SECONDS = 60.0
# Schedules whose rate rises over warmup_steps; a user's own schedule may ignore them.
_WARMING_UP = ("transformer", "inverse_square_root", "cosine")
# Number of steps whose arrays are prepared ahead of the computed step.
_STEPS_AHEAD = 4


def train(
    config: RunConfig,
    generated: Generated,
    output_dir: str | Path,
    step: Step,
    options: TrainOptions | None = None,
    workers: Workers | None = None,
    score: Callable[[], tuple[Any, Sample]] | None = None,
    clock: RunClock | None = None,
    callbacks: keras.callbacks.Callback | Sequence[keras.callbacks.Callback] | None = None,
) -> TrainResult:
    """Trains a model, or continues a run as if it had never stopped.

    `step` computes the steps, and has random weights; `score` scores its model on the dev set at
    each evaluation, see `Evaluator` (None = measure only the loss); `clock` has run since the start
    of the process (None = a new clock). Without `workers` this process trains alone. For
    `callbacks` see `t2t_keras.train`.

    Raises:
      UserError: the loss is NaN, or a checkpoint cannot be read or written.
    """
    options, workers, clock = options or TrainOptions(), workers or Workers(), clock or RunClock()
    output_dir = Path(output_dir)
    trainer = _Trainer(
        config, generated, output_dir, step, options, workers, score, clock, callbacks
    )
    return trainer.evaluate_only() if options.schedule == "evaluate" else trainer.run()


class _Trainer:
    """One process of a run; for the arguments see `train`."""

    def __init__(
        self,
        config: RunConfig,
        generated: Generated,
        output_dir: Path,
        step: Step,
        options: TrainOptions,
        workers: Workers,
        score: Callable[[], tuple[Any, Sample]] | None,
        clock: RunClock,
        callbacks: keras.callbacks.Callback | Sequence[keras.callbacks.Callback] | None,
    ):
        self._config, self._generated, self._output_dir = config, generated, output_dir
        self._step, self._options, self._workers, self._clock = step, options, workers, clock
        self._checkpoints = Checkpoints(output_dir, step.state(), options.keep_checkpoint_max)
        self._saved_path = self._restore()
        self._first = self._done = step.steps_done()
        self._last = max(config.hparams.train_steps, self._first)
        self._saved, self._saved_at = self._first or -1, 0.0
        find = options.schedule != "evaluate"
        self._microbatch = microbatch_of_run(step, config, generated, output_dir, workers, find)
        # All workers use the chief's history, as others may see the file late.
        recorded = json.dumps(read_evaluations(output_dir) if workers.is_chief else [])
        evaluations = [
            evaluation
            for evaluation in json.loads(workers.gather(recorded)[0])
            if evaluation["step"] <= self._first
        ]
        self._evaluator = None
        if options.schedule != "train":
            hparams = dataclasses.replace(config.hparams, microbatch_tokens=self._microbatch.tokens)
            resolved = dataclasses.replace(config, hparams=hparams)
            loss = SplitLoss(step, resolved, generated, "dev", options.eval_steps)
            self._evaluator = Evaluator(
                loss, output_dir, score, workers.is_chief, evaluations, options.best_by
            )
        chief_callbacks = callbacks if workers.is_chief else None
        self._callbacks = RunCallbacks(chief_callbacks, step.model, evaluations)
        self._evaluated, self._evaluation = -1, dict[str, float]()
        self._eval_secs = self._evaluate_at = options.eval_secs or math.inf
        if options.eval_secs and self._evaluator and not evaluations:
            self._evaluate_at = min(options.eval_secs, _FIRST_EVALUATION_SECONDS)

    def _restore(self) -> str:
        """Sets the first weights; returns the path of the run's own checkpoint, "" = new run."""
        config, options = self._config, self._options
        if path := self._workers.restore_newest(self._checkpoints, self._output_dir):
            print(f"Continuing from {path}.")
            return path
        if options.schedule == "evaluate":
            newest_checkpoint(self._output_dir)  # Raises the error for a missing one.
        elif options.warm_start_from:
            changes = options.adapt_vocabulary, options.drop_layers
            warm_start(self._step.model, config, options.warm_start_from, *changes)
        elif config.hparams.lora_rank:
            raise UserError(
                f"lora_rank={config.hparams.lora_rank} trains adapters for another run's weights. "
                f"Give that run: --warm_start_from=RUN.",
                code="conflicting_settings",
            )
        self._step.begin()
        return ""

    def evaluate_only(self) -> TrainResult:
        """Measures the newest checkpoint."""
        print_beside_bar(self._measure(same_cost(self._checkpoints.head)))
        self._clock.show()
        return self._result()

    def run(self) -> TrainResult:
        """Trains until the last step, an early stop or a signal."""
        config, generated = self._config, self._generated
        problem, hparams, seed = config.problem, config.hparams, config.random_seed
        is_chief, store = self._workers.is_chief, generated.open_examples("train")
        sampler = TokenBatchSampler(
            store.lengths,
            hparams.batch_tokens,
            hparams.max_length,
            seed,
            problem.mix,
            problem.mix_until,
            generated.corpora,
        )
        augmentation = config.augmentation(generated)
        augmented = AugmentedSteps(store, sampler, augmentation, seed) if augmentation else None
        self._arrays = Prefetcher(store, sampler, self._step, self._microbatch, augmented)
        if is_chief:
            config.save(self._output_dir)
        self._data_check = BackgroundCheck(generated) if is_chief else None
        cost = cost_in(self._checkpoints.head) if self._first else TrainingCost()
        if cost:
            self._callbacks.continue_epoch(self._first, cost.epoch_sums)
        else:
            print(f"{self._saved_path} does not record the run's training time: it stays unknown.")
        hardware = hardware_name(self._step.gpus, self._workers.count)
        self._cost = CostMeter(cost, hardware, self._clock)
        self._profiler = StepProfiler(self._output_dir, self._options.profiled_steps())
        self._describe(sampler)
        curves = make_curves(self._output_dir) if is_chief else None
        self._progress = Progress(curves, self._first, self._last)
        self._callbacks.train_begin()
        self._clock.begin_training()
        with caught_signals() as last_signal:
            try:
                self._run_missed_evaluation()
                # Repeating the command does not continue a run that has stopped early.
                signal_number = 0 if self._has_converged() else self._do_steps(last_signal)
                self._require_sound_data(wait=not signal_number)
                if not signal_number and self._evaluator and self._evaluated != self._done:
                    self._evaluate(is_last=True)
                self._save()
            except Exception:
                # Damaged data may be the cause, such as an id beyond the vocabulary.
                self._require_sound_data(wait=True)
                raise
            finally:
                self._profiler.close()
                self._progress.close()
                self._clock.show()
        if signal_number:
            print(
                f"Stopped by {signal.Signals(signal_number).name} after step {self._done}; saved "
                f"{self._saved_path}. The same command continues from there."
            )
        elif self._step.model.stop_training and self._done < self._last:
            print(f"Stopped by a callback after step {self._done}; saved {self._saved_path}.")
        self._callbacks.train_end(self._done, signal_number)
        return self._result(signal_number)

    def _result(self, signal_number: int = 0) -> TrainResult:
        path, history, model = self._saved_path, self._callbacks.history(), self._step.model
        return TrainResult(self._done, path, self._evaluation, signal_number, history, model)

    def _describe(self, sampler: TokenBatchSampler) -> None:
        """Prints a summary of the training, and warns about a likely misconfiguration."""
        hparams, model = self._config.hparams, self._step.model
        steps_left = self._last - self._first
        if steps_left and hparams.schedule in _WARMING_UP and hparams.warmup_steps >= self._last:
            # A cosine schedule must keep its last step.
            is_fixed = hparams.schedule == "cosine"
            advice = "Start" if is_fixed else "Give more --train_steps, or start"
            print(
                f"The learning rate will still be rising at the last step: warmup_steps="
                f"{hparams.warmup_steps:,}. {advice} a new run with about "
                f"--hparams=warmup_steps={max(self._last // 10, 1)}.",
                flush=True,
            )
        if self._first and not steps_left:
            print(
                f"Nothing to train: the run has done {self._first:,} steps, and --train_steps="
                f"{hparams.train_steps}. Give more --train_steps to train it further.",
                flush=True,
            )
            return
        weights = f"{model.count_params():,} weights"
        if model.non_trainable_weights:
            trained = sum(math.prod(weight.shape) for weight in model.trainable_weights)
            weights += f", {trained:,} trained,"
        source, target = sampler.fill_ratio()
        print(
            f"{weights} on {self._step.num_replicas} replica(s), steps {self._first:,} to "
            f"{self._last:,}, {len(self._generated.open_examples('train')):,} training pairs. A "
            f"step fills on average {source:.1%} (source) and {target:.1%} (target) of "
            f"batch_tokens={hparams.batch_tokens:,}.",
            flush=True,
        )
        left_out = {"training": sampler.left_out}
        left_out["dev"] = self._evaluator.left_out if self._evaluator else 0
        limit = f"max_length={hparams.max_length}"
        for split, count in left_out.items():
            if count:
                print(f"{count:,} {split} pairs are left out: longer than {limit}.", flush=True)

    def _do_steps(self, last_signal: list[int]) -> int:
        """Does the steps until the last one or an early stop; returns the signal, or 0."""
        pending, actions = None, Actions()
        numbers = range(self._first, self._last)
        for number, parts in self._arrays.ahead(numbers, lambda: self._clock.spent_on(INPUT)):
            is_logged = (number + 1) % LOG_STEPS == 0
            self._callbacks.step_begin(number)
            sums = self._update(number, parts, measure_gradient=is_logged)
            # Read the previous step's numbers while this step runs, so that no device waits.
            self._finish(pending)
            pending = number, {**sums, "learning_rate": self._step.schedule(number)}
            # Read the clock only once, so that no further action becomes due within this step.
            due = self._due_by_time(last_signal[-1])
            actions = self._workers.exchange_requests(self._step, number, due)
            evaluates = actions.evaluate or self._evaluation_is_due(number + 1)
            is_traced = number + 1 == self._profiler.last_step
            pauses = actions.save or evaluates
            if is_logged or pauses or is_traced or actions.stop or self._callbacks.has_step_hooks:
                self._finish(pending)
                pending = None
            if is_traced:
                self._profiler.close()
            if actions.save:
                self._save()
            if actions.stop:
                break
            if evaluates:
                self._evaluate()
                if self._has_converged():
                    break
            # A callback's stop reaches the other workers only when all pause.
            can_stop = pauses or self._workers.count == 1
            if can_stop and self._workers.stop_together(self._step.model.stop_training):
                break
        self._finish(pending)
        return actions.stop

    def _update(
        self, number: int, microbatches: Microbatches, measure_gradient: bool
    ) -> dict[str, Any]:
        """Starts a step; when memory runs out, again with half the microbatch, until it fits."""
        while True:
            try:
                with self._profiler.step(number + 1), self._clock.spent_on(STEP):
                    return self._step.update(number, microbatches, measure_gradient)
            except OutOfMemoryError:
                old_tokens = self._microbatch.tokens
                self._microbatch.halve()
                print_beside_bar(
                    f"Out of memory at step {number + 1} with microbatch_tokens={old_tokens:,}: "
                    f"continuing with {self._microbatch.tokens:,} and the same batch_tokens."
                )
                with self._clock.spent_on(INPUT):
                    microbatches = self._arrays.at(number)

    def _finish(self, pending: tuple[int, dict[str, Any]] | None) -> None:
        """Reads the numbers of a started step; stops the run if they are NaN."""
        if pending is None:
            return
        with self._clock.spent_on(STEP):
            number, sums = pending[0], {name: float(value) for name, value in pending[1].items()}
        self._clock.end_start()
        if not math.isfinite(sums["loss"]):
            raise self._diverged(f"The loss is {sums['loss']} at step {number + 1}.")
        self._require_sound_data()
        self._workers.receive_requests(number, sums)
        scalars = {name: sums.pop(name) for name in ("learning_rate", "gradient_norm")}
        self._cost.add_tokens(sums["tokens"])
        self._done = number + 1
        self._progress.step(sums, scalars | self._cost.scalars())
        self._callbacks.step_end(number, sums)

    def _require_sound_data(self, wait: bool = False) -> None:
        """Raises the error of damaged data, so that the run does not save what it has learned."""
        if self._data_check:
            self._data_check.require(wait)

    def _due_by_time(self, stop: int) -> Actions:
        """Returns the actions that are due by this worker's clock or by the signal `stop`."""
        # The same clock as the recorded cost, by which t2t-avg-all --seconds_apart selects.
        now = self._clock.training_seconds()
        save = now - self._saved_at >= self._options.save_checkpoints_secs
        return Actions(stop, save, self._evaluator is not None and now >= self._evaluate_at)

    def _evaluation_is_due(self, done: int) -> bool:
        frequency = self._options.local_eval_frequency
        return self._evaluator is not None and frequency > 0 and done % frequency == 0

    def _run_missed_evaluation(self) -> None:
        """Evaluates a warm start, or a checkpoint whose evaluation a stop has prevented."""
        is_due = self._evaluation_is_due(self._first)
        if not self._first:  # Training may make a warm start worse; `best/` then keeps it.
            is_due = bool(self._options.warm_start_from)
        history = self._evaluator.history if self._evaluator else []
        if (
            self._evaluator
            and is_due
            and all(evaluation["step"] != self._first for evaluation in history)
        ):
            self._evaluate()

    def _has_converged(self) -> bool:
        patience = self._options.eval_early_stopping_steps
        if not (patience and self._evaluator and self._evaluator.history):
            return False
        best, newest = self._evaluator.best_step(), self._evaluator.history[-1]["step"]
        if best < 0 or newest - best < patience:
            return False
        print_beside_bar(
            f"The dev {self._options.best_by} has not improved since step {best}: stopping early "
            f"(eval_early_stopping_steps={patience})."
        )
        self._evaluated = self._done
        return True

    def _evaluate(self, is_last: bool = False) -> None:
        """Evaluates the model between two steps, or after the last one."""
        self._evaluate_at = self._clock.training_seconds() + self._eval_secs
        report = self._measure(self._cost.head(), is_last or self._done == self._last)
        self._evaluated = self._done
        self._progress.evaluated(self._evaluation | self._cost.scalars(), report)

    def _measure(self, cost: Mapping[str, Any], is_last: bool = True) -> str:
        """Measures and records the model; returns lines to print.

        `cost` is recorded in the head of the best weights.
        """
        assert self._evaluator
        head = {**cost, NEWEST_SAVED: self._saved}
        with self._clock.spent_on(EVALUATION):
            training = self._callbacks.test_begin()
            try:
                with self._step.averaged():
                    self._evaluation, report = self._evaluator.evaluate(
                        self._done, training, is_last, head
                    )
            except FloatingPointError as error:
                raise self._diverged(str(error)) from error
            newest, criterion = self._evaluator.history[-1], self._options.best_by
            if criterion != "loss":  # Only the chief translates.
                newest[criterion] = json.loads(
                    self._workers.gather(json.dumps(newest.get(criterion)))[0]
                )
            self._callbacks.test_end(self._evaluation, newest)
        return report

    def _save(self) -> None:
        """Saves a checkpoint, unless the newest step is saved already."""
        if self._saved == self._done:
            return
        if not self._step.weights_are_finite():
            raise self._diverged(f"A weight is NaN or infinite after step {self._done}.")
        saved_at, head = self._clock.training_seconds(), self._cost.head(self._callbacks.epoch_sums)
        with self._clock.spent_on(CHECKPOINT):
            self._saved_path = path_at(self._output_dir, self._done)
            if self._workers.is_chief:
                self._checkpoints.save(self._done, head)
        self._saved, self._saved_at = self._done, saved_at
        self._callbacks.saved(self._done, self._saved_path)

    def _diverged(self, problem: str) -> UserError:
        return UserError(
            f"{problem} Last good checkpoint: {self._saved_path or 'none'}. Try a lower "
            f"learning_rate, more warmup_steps or clip_norm=1.0 in a new --output_dir.",
            code="not_finite",
        )


class Prefetcher:
    """Reads, splits and pads the examples of each step for the replicas of this process."""

    def __init__(
        self,
        store: ExampleStore,
        sampler: TokenBatchSampler,
        step: Step,
        microbatch: Microbatch,
        augmented: AugmentedSteps | None = None,
    ):
        self._store, self._sampler, self._step = store, sampler, step
        self._microbatch, self._augmented = microbatch, augmented
        # A single thread, as sampler and augmentation keep the state of one epoch and group.
        self._thread = ThreadPoolExecutor(1)

    def at(self, number: int) -> Microbatches:
        """Returns the arrays of a step."""
        return self._thread.submit(self._read, number).result()[1]

    def ahead(
        self, numbers: range, waiting: Callable[[], AbstractContextManager[None]]
    ) -> Iterator[tuple[int, Microbatches]]:
        """Yields steps with their arrays, which a thread prepares while earlier steps run.

        Waits for the arrays within the context that `waiting` returns.
        """
        unprepared = iter(numbers)
        prepared: collections.deque[Future[tuple[int, Microbatches]]] = collections.deque()
        with self._thread:
            for number in numbers:
                for later_number in itertools.islice(unprepared, _STEPS_AHEAD + 1 - len(prepared)):
                    prepared.append(self._thread.submit(self._read, later_number))
                with waiting():
                    tokens, parts = prepared.popleft().result()
                    if tokens != self._microbatch.tokens:  # Halved since.
                        parts = self.at(number)
                yield number, parts

    def _read(self, number: int) -> tuple[int, Microbatches]:
        tokens = self._microbatch.tokens
        if self._augmented:
            store, examples = self._augmented.at(number)
        else:
            store, examples = self._store, self._sampler.at(number)
        return tokens, list(replica_batches(store, examples, tokens, self._step))
