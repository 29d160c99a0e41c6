"""The training loop of a run."""

import collections
import contextlib
import dataclasses
import functools
import itertools
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
from t2t_keras.data.problem import Score
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
    copy_cost,
    cost_in,
    hardware_name,
)
from t2t_keras.training.distributed import Actions, Workers
from t2t_keras.training.evaluation import Evaluator, Sample, SplitLoss, read_evaluations
from t2t_keras.training.microbatch import (
    Microbatch,
    microbatch_of_run,
    row_expansion,
    training_sampler,
)
from t2t_keras.training.progress import (
    LOG_STEPS,
    Progress,
    RunCallbacks,
    StepProfiler,
    make_curves,
)
from t2t_keras.training.run_config import RunConfig, TrainOptions, TrainResult
from t2t_keras.training.warm_start import warm_start

# The examples of a step, by microbatch and then by replica.
Microbatches = list[list[Batch | RemoteBatch]]
# Latest time of a new run's first evaluation, which shows whether the run learns anything.
_FIRST_EVALUATION_SECONDS = 60.0
# Schedules whose rate rises over warmup_steps; a user's own schedule may ignore them.
_WARMUP_SCHEDULES = ("transformer", "inverse_square_root", "cosine")
# Number of steps whose arrays are prepared ahead of the computed step.
_STEPS_AHEAD = 4


def train(
    config: RunConfig,
    generated: Generated,
    output_dir: str | Path,
    step: Step,
    options: TrainOptions | None = None,
    workers: Workers | None = None,
    score: Callable[[], tuple[Score, Sample]] | None = None,
    clock: RunClock | None = None,
    callbacks: keras.callbacks.Callback | Sequence[keras.callbacks.Callback] | None = None,
) -> TrainResult:
    """Trains a model, or continues a run as if it had never stopped.

    `step` computes the steps, and has random weights; at each evaluation `score` scores the model
    of `step` on the dev set, see `Evaluator` (None = measure only the loss); `clock` has run since
    the start of the process (None = a new clock). Without `workers` this process trains alone. For
    `callbacks` see `t2t_keras.train`.

    Raises:
      UserError: the loss is NaN, or a checkpoint cannot be read or written.
    """
    options, workers, clock = options or TrainOptions(), workers or Workers(), clock or RunClock()
    output_dir = Path(output_dir)
    checkpoints = Checkpoints(output_dir, step.state(), options.keep_checkpoint_max)
    restored_path = _restore(checkpoints, config, output_dir, step, options, workers)
    trains = options.schedule != "evaluate"
    microbatch = microbatch_of_run(step, config, generated, output_dir, workers, trains)
    # All workers use the chief's history, as the others may see the file late.
    history = workers.gather(read_evaluations(output_dir) if workers.is_chief else [])[0]
    evaluations = [entry for entry in history if entry["step"] <= step.steps_done()]
    evaluator = None
    if options.schedule != "train":
        hparams = dataclasses.replace(config.hparams, microbatch_tokens=microbatch.tokens)
        resolved_config = dataclasses.replace(config, hparams=hparams)
        loss = SplitLoss(step, resolved_config, generated, "dev", options.eval_steps)
        evaluator = Evaluator(
            loss, output_dir, score, workers.is_chief, evaluations, options.best_by
        )
    trainer = _Trainer(
        config=config,
        generated=generated,
        output_dir=output_dir,
        step=step,
        options=options,
        workers=workers,
        clock=clock,
        checkpoints=checkpoints,
        restored_path=restored_path,
        microbatch=microbatch,
        evaluator=evaluator,
        callbacks=RunCallbacks(callbacks if workers.is_chief else None, step.model, evaluations),
    )
    return trainer.run() if trains else trainer.evaluate_only()


def _restore(
    checkpoints: Checkpoints,
    config: RunConfig,
    output_dir: Path,
    step: Step,
    options: TrainOptions,
    workers: Workers,
) -> str:
    """Restores the run, or sets initial weights; returns the restored path, "" = new run."""
    if path := workers.restore_newest(checkpoints, output_dir):
        print(f"Continuing from {path}.")
        return path
    if options.schedule == "evaluate":
        newest_checkpoint(output_dir)  # Raises an error if there is none.
    elif options.warm_start_from:
        allowed = options.adapt_vocabulary, options.drop_layers
        warm_start(step.model, config, options.warm_start_from, *allowed)
    elif config.hparams.lora_rank:
        raise UserError(
            f"lora_rank={config.hparams.lora_rank} trains adapters for another run's weights. "
            f"Give that run: --warm_start_from=RUN.",
            code="conflicting_settings",
        )
    if config.hparams.ema_decay:
        step.begin_averages()
    return ""


class _Trainer:
    """Trains or evaluates a run in this process, with what `train` has prepared."""

    def __init__(
        self,
        *,
        config: RunConfig,
        generated: Generated,
        output_dir: Path,
        step: Step,
        options: TrainOptions,
        workers: Workers,
        clock: RunClock,
        checkpoints: Checkpoints,
        restored_path: str,
        microbatch: Microbatch,
        evaluator: Evaluator | None,
        callbacks: RunCallbacks,
    ):
        self._config, self._generated, self._output_dir = config, generated, output_dir
        self._step, self._options, self._workers, self._clock = step, options, workers, clock
        self._checkpoints, self._saved_path = checkpoints, restored_path
        self._microbatch, self._evaluator, self._callbacks = microbatch, evaluator, callbacks
        self._start_step = self._done = step.steps_done()
        self._last_step = max(config.hparams.train_steps, self._start_step)
        self._saved_step, self._saved_seconds = self._start_step or -1, 0.0
        self._evaluated_step, self._evaluation = -1, dict[str, float]()
        self._eval_secs = self._next_evaluation = options.eval_secs or math.inf
        if options.eval_secs and evaluator and not evaluator.history:
            self._next_evaluation = min(options.eval_secs, _FIRST_EVALUATION_SECONDS)

    def evaluate_only(self) -> TrainResult:
        """Measures the newest checkpoint."""
        print_beside_bar(self._measure(copy_cost(self._checkpoints.head)))
        self._clock.show()
        return self._result()

    def run(self) -> TrainResult:
        """Trains until the last step, an early stop or a signal."""
        config, generated = self._config, self._generated
        is_chief, store = self._workers.is_chief, generated.open_examples("train")
        sampler = training_sampler(store.lengths, config, generated.corpora)
        augmentation = config.augmentation(generated)
        augmented = (
            AugmentedSteps(store, sampler, augmentation, config.random_seed)
            if augmentation
            else None
        )
        expansion = row_expansion(augmentation, store)
        self._prefetcher = Prefetcher(
            store, sampler, self._step, self._microbatch, augmented, expansion
        )
        if is_chief:
            config.save(self._output_dir)
        self._data_check = BackgroundCheck(generated) if is_chief else None
        cost = cost_in(self._checkpoints.head) if self._start_step else TrainingCost()
        if not cost:
            print(f"{self._saved_path} does not record the run's training time: it stays unknown.")
        elif self._start_step:
            self._callbacks.continue_epoch(self._start_step, cost.epoch_sums)
        hardware = hardware_name(self._step.gpus, self._workers.count)
        self._cost = CostMeter(cost, hardware, self._clock)
        self._profiler = None
        if self._options.profile_steps:
            self._profiler = StepProfiler(self._output_dir, self._options.profiled_steps())
        self._describe(sampler, len(store))
        curves = make_curves(self._output_dir) if is_chief else None
        self._progress = Progress(curves, self._start_step, self._last_step)
        self._callbacks.on_train_begin()
        self._clock.begin_training()
        with caught_signals() as last_signal:
            try:
                self._run_missed_evaluation()
                # Repeating the command does not continue a run that has stopped early.
                signal_number = 0 if self._has_converged() else self._do_steps(last_signal)
                self._require_sound_data(wait=not signal_number)
                if not signal_number and self._evaluator and self._evaluated_step != self._done:
                    self._evaluate(is_last=True)
                self._save()
            except Exception:
                # Damaged data may be the cause, such as an id beyond the vocabulary.
                self._require_sound_data(wait=True)
                raise
            finally:
                if self._profiler:
                    self._profiler.close()
                self._progress.close()
                self._clock.show()
        if signal_number:
            print(
                f"Stopped by {signal.Signals(signal_number).name} after step {self._done}; saved "
                f"{self._saved_path}. The same command continues from there."
            )
        elif self._step.model.stop_training and self._done < self._last_step:
            print(f"Stopped by a callback after step {self._done}; saved {self._saved_path}.")
        self._callbacks.train_end(self._done, signal_number)
        return self._result(signal_number)

    def _result(self, signal_number: int = 0) -> TrainResult:
        path, history, model = self._saved_path, self._callbacks.history(), self._step.model
        return TrainResult(self._done, path, self._evaluation, signal_number, history, model)

    def _describe(self, sampler: TokenBatchSampler, num_pairs: int) -> None:
        """Prints a summary of the training, and warns about a likely misconfiguration."""
        hparams, model = self._config.hparams, self._step.model
        steps_left = self._last_step - self._start_step
        warms_up = hparams.schedule in _WARMUP_SCHEDULES
        if steps_left and warms_up and hparams.warmup_steps >= self._last_step:
            # A cosine schedule must keep its last step.
            is_fixed = hparams.schedule == "cosine"
            advice = "Start" if is_fixed else "Give more --train_steps, or start"
            print(
                f"The learning rate will still be rising at the last step: warmup_steps="
                f"{hparams.warmup_steps:,}. {advice} a new run with about "
                f"--hparams=warmup_steps={max(self._last_step // 10, 1)}.",
                flush=True,
            )
        if self._start_step and not steps_left:
            print(
                f"Nothing to train: the run has done {self._start_step:,} steps, and --train_steps="
                f"{hparams.train_steps}. Give more --train_steps to train it further.",
                flush=True,
            )
            return
        model_size = f"{model.count_params():,} weights"
        if model.non_trainable_weights:
            trained = sum(math.prod(weight.shape) for weight in model.trainable_weights)
            model_size += f", {trained:,} trained,"
        source_fill, target_fill = sampler.fill_ratio()
        print(
            f"{model_size} on {self._step.num_replicas} replica(s), steps {self._start_step:,} to "
            f"{self._last_step:,}, {num_pairs:,} training pairs. A step fills on average "
            f"{source_fill:.1%} (source) and {target_fill:.1%} (target) of "
            f"batch_tokens={hparams.batch_tokens:,}.{self._prefetcher.describe()}",
            flush=True,
        )
        left_out = {"training": sampler.left_out}
        left_out["dev"] = self._evaluator.left_out if self._evaluator else 0
        limit = f"max_length={hparams.max_length}"
        for split, count in left_out.items():
            if count:
                print(f"{count:,} {split} pairs are left out: longer than {limit}.", flush=True)

    def _do_steps(self, last_signal: list[int]) -> int:
        """Runs steps until the last one or a stop; returns the number of the signal, or 0."""
        pending, actions = None, Actions()
        numbers = range(self._start_step, self._last_step)
        for number, batches in self._prefetcher.steps(numbers, lambda: self._clock.spent_on(INPUT)):
            is_logged = (number + 1) % LOG_STEPS == 0
            self._callbacks.step_begin(number)
            sums = self._update(number, batches, measure_gradient=is_logged)
            # Read the previous step's numbers while this step runs, so that no device waits.
            self._finish(pending)
            pending = number, {**sums, "learning_rate": self._step.schedule(number)}
            # Read the clock only once, so that no further action becomes due within this step.
            actions = self._due_actions(last_signal[-1])
            if self._workers.count > 1:
                actions = self._workers.exchange_requests(self._step, number, actions)
            evaluate = actions.evaluate or self._evaluation_is_due(number + 1)
            pause = actions.save or evaluate
            ends_trace = self._profiler and number + 1 == self._profiler.last_step
            if is_logged or pause or ends_trace or actions.stop or self._callbacks.has_step_hooks:
                self._finish(pending)
                pending = None
            if self._profiler and ends_trace:
                self._profiler.close()
            if actions.save:
                self._save()
            if actions.stop:
                break
            if evaluate:
                self._evaluate()
                if self._has_converged():
                    break
            stop = self._step.model.stop_training
            if self._workers.count > 1:
                # A callback's stop reaches the other workers only when all pause.
                stop = pause and self._workers.stop_together(stop)
            if stop:
                break
        self._finish(pending)
        return actions.stop

    def _update(
        self, number: int, microbatches: Microbatches, measure_gradient: bool
    ) -> dict[str, Any]:
        """Starts a step; whenever memory runs out, starts it again with half the microbatch."""
        while True:
            try:
                profiler = self._profiler
                trace = profiler.trace_step(number + 1) if profiler else contextlib.nullcontext()
                with trace, self._clock.spent_on(STEP):
                    return self._step.update(number, microbatches, measure_gradient)
            except OutOfMemoryError:
                old_tokens = self._microbatch.tokens
                self._microbatch.halve()
                print_beside_bar(
                    f"Out of memory at step {number + 1} with microbatch_tokens={old_tokens:,}: "
                    f"continuing with {self._microbatch.tokens:,} and the same batch_tokens."
                )
                with self._clock.spent_on(INPUT):
                    microbatches = self._prefetcher.at(number)

    def _finish(self, pending: tuple[int, dict[str, Any]] | None) -> None:
        """Reads and reports a started step's sums; raises `UserError` if its loss is not finite."""
        if pending is None:
            return
        with self._clock.spent_on(STEP):
            number, sums = pending[0], {name: float(value) for name, value in pending[1].items()}
        self._clock.end_start()
        if not math.isfinite(sums["loss"]):
            raise self._divergence_error(f"The loss is {sums['loss']} at step {number + 1}.")
        self._require_sound_data()
        if self._workers.count > 1:
            self._workers.receive_requests(number, sums)
        scalars = {name: sums.pop(name) for name in ("learning_rate", "gradient_norm")}
        self._cost.tokens += int(sums["tokens"])
        self._done = number + 1
        self._progress.show_step(sums, scalars | self._cost.scalars())
        self._callbacks.step_end(number, sums)

    def _require_sound_data(self, wait: bool = False) -> None:
        """Raises an error if the data is damaged, so that nothing learned from it is saved."""
        if self._data_check:
            self._data_check.raise_if_damaged(wait)

    def _due_actions(self, signal_number: int) -> Actions:
        """Returns the actions that are due by this worker's clock or by a signal."""
        # The clock of the recorded cost, by which t2t-avg-all --seconds_apart selects checkpoints.
        now = self._clock.training_seconds()
        save = now - self._saved_seconds >= self._options.save_checkpoints_secs
        evaluate = self._evaluator is not None and now >= self._next_evaluation
        return Actions(signal_number, save, evaluate)

    def _evaluation_is_due(self, done: int) -> bool:
        frequency = self._options.local_eval_frequency
        return self._evaluator is not None and frequency > 0 and done % frequency == 0

    def _run_missed_evaluation(self) -> None:
        """Evaluates a warm start, or a checkpoint whose evaluation was prevented by a stop."""
        if not self._evaluator:
            return
        is_due = self._evaluation_is_due(self._start_step)
        if not self._start_step:  # Training may make a warm start worse; `best/` then keeps it.
            is_due = bool(self._options.warm_start_from)
        if is_due and all(past["step"] != self._start_step for past in self._evaluator.history):
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
        self._evaluated_step = self._done
        return True

    def _evaluate(self, is_last: bool = False) -> None:
        """Evaluates the model between two steps, or after the last one."""
        self._next_evaluation = self._clock.training_seconds() + self._eval_secs
        report = self._measure(self._cost.head(), is_last or self._done == self._last_step)
        self._evaluated_step = self._done
        self._progress.show_evaluation(self._evaluation | self._cost.scalars(), report)

    def _measure(self, cost: Mapping[str, Any], is_last: bool = True) -> str:
        """Measures the model and records the result; returns lines to print.

        `cost` is recorded in the head of the best weights.
        """
        assert self._evaluator
        head = {**cost, NEWEST_SAVED: self._saved_step}
        has_averages = self._config.hparams.ema_decay > 0
        with self._clock.spent_on(EVALUATION):
            self._callbacks.on_test_begin()
            train_loss = self._callbacks.train_loss()
            try:
                with self._step.using_averages() if has_averages else contextlib.nullcontext():
                    self._evaluation, report = self._evaluator.evaluate(
                        self._done, train_loss, is_last, head
                    )
            except FloatingPointError as error:
                raise self._divergence_error(str(error)) from error
            evaluation, criterion = self._evaluator.history[-1], self._options.best_by
            if criterion != "loss":  # Only the chief translates.
                evaluation[criterion] = self._workers.gather(evaluation.get(criterion))[0]
            self._callbacks.on_test_end(dict(self._evaluation))
            self._callbacks.end_epoch(evaluation)
        return report

    def _save(self) -> None:
        """Saves a checkpoint, unless the newest step is saved already."""
        if self._saved_step == self._done:
            return
        if not self._step.weights_are_finite():
            raise self._divergence_error(f"A weight is NaN or infinite after step {self._done}.")
        saved_at, head = self._clock.training_seconds(), self._cost.head(self._callbacks.epoch_sums)
        with self._clock.spent_on(CHECKPOINT):
            self._saved_path = path_at(self._output_dir, self._done)
            if self._workers.is_chief:
                self._checkpoints.save(self._done, head)
        self._saved_step, self._saved_seconds = self._done, saved_at
        self._callbacks.on_save(self._done, {"checkpoint": self._saved_path})

    def _divergence_error(self, problem: str) -> UserError:
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
        expansion: float = 1.0,
    ):
        self._store, self._sampler, self._step = store, sampler, step
        self._microbatch, self._augmented = microbatch, augmented
        # The shape of the microbatches depends on their limit alone.
        self._rows_for = functools.cache(lambda tokens: sampler.rows_for(step, tokens, expansion))
        # A single thread: the sampler holds only one epoch, the augmentation one group of steps.
        self._thread = ThreadPoolExecutor(1)

    def describe(self) -> str:
        """Returns what a step computes: the share of tokens, and the shape of all microbatches."""
        rows, replicas = self._rows_for(self._microbatch.tokens), self._step.num_replicas
        if rows is None:
            return ""
        shape = f"{rows.count:,} rows of {rows.length:,} tokens a side"
        text = f" All microbatches have one shape, {shape}"
        if self._augmented:
            return f"{text}."
        share = self._sampler.token_share(rows, replicas)
        return f"{text}; {share:.1%} of the computed positions are tokens."

    def at(self, number: int) -> Microbatches:
        """Returns the arrays of a step."""
        return self._thread.submit(self._read, number).result()[1]

    def steps(
        self, numbers: range, wait_context: Callable[[], AbstractContextManager[None]]
    ) -> Iterator[tuple[int, Microbatches]]:
        """Yields steps with their arrays, which a thread prepares while earlier steps run.

        Waits for the arrays within the context that `wait_context` returns.
        """
        remaining = iter(numbers)
        futures: collections.deque[Future[tuple[int, Microbatches]]] = collections.deque()
        with self._thread:
            for number in numbers:
                for later_number in itertools.islice(remaining, _STEPS_AHEAD + 1 - len(futures)):
                    futures.append(self._thread.submit(self._read, later_number))
                with wait_context():
                    tokens, microbatches = futures.popleft().result()
                    if tokens != self._microbatch.tokens:  # Halved in the meantime.
                        microbatches = self.at(number)
                yield number, microbatches

    def _read(self, number: int) -> tuple[int, Microbatches]:
        tokens = self._microbatch.tokens
        if self._augmented:
            store, examples = self._augmented.at(number)
        else:
            store, examples = self._store, self._sampler.at(number)
        rows = self._rows_for(tokens)
        return tokens, list(replica_batches(store, examples, tokens, self._step, rows))
