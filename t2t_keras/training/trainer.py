"""Training: from a step with fresh weights to the end of a run, with all that happens between."""

import collections
import dataclasses
import itertools
import json
import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import keras
import numpy as np

from t2t_keras.data.augmentation import AugmentedSteps
from t2t_keras.data.batches import Batch, TokenBatchSampler, replica_batches
from t2t_keras.data.dataset import BackgroundCheck, ExampleStore, Generated
from t2t_keras.errors import OutOfMemoryError, UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.io.terminal import caught_signals, print_beside_bar
from t2t_keras.training.backends import base as backend
from t2t_keras.training.backends.base import Step
from t2t_keras.training.checkpoint_files import newest_checkpoint, path_at
from t2t_keras.training.checkpoints import NEWEST_SAVED, Checkpoints
from t2t_keras.training.cost import CostMeter, TrainingCost, cost_in, hardware_name, same_cost
from t2t_keras.training.curves import make_curves
from t2t_keras.training.distributed import Actions, Workers
from t2t_keras.training.evaluation import Evaluator, Sample, SplitLoss, read_evaluations
from t2t_keras.training.microbatch import Microbatch, microbatch_of_run
from t2t_keras.training.progress import (
    CHECKPOINT,
    EVALUATION,
    INPUT,
    LOG_STEPS,
    STEP,
    Progress,
    RunCallbacks,
    RunClock,
    StepProfiler,
)
from t2t_keras.training.run_config import RunConfig, TrainOptions, TrainResult
from t2t_keras.training.warm_start import load_first_weights

# Steps whose arrays are read and padded while earlier ones are computed.
_STEPS_AHEAD = 4


class Prefetcher:
    """Reads, splits and pads the examples of each step for the replicas of this process."""

    def __init__(
        self,
        store: ExampleStore,
        sampler: TokenBatchSampler,
        step: Step,
        microbatch: Microbatch,
        varied: AugmentedSteps | None = None,
    ):
        self._store, self._sampler, self._step = store, sampler, step
        self._microbatch, self._varied = microbatch, varied
        # A single one: the plan of one epoch is kept, and what is drawn for the next steps.
        self._thread = ThreadPoolExecutor(1)

    def at(self, number: int) -> list[list[Batch]]:
        """Returns, for each microbatch of a step, for each replica, its examples."""
        return self._thread.submit(self._read, number).result()[1]

    def ahead(
        self, numbers: range, waiting: Callable[[], AbstractContextManager]
    ) -> Iterator[tuple[int, list[list[Batch]]]]:
        """Yields steps with their arrays, which a thread prepares while earlier ones are computed.

        It waits for them within the contexts that `waiting` returns.
        """
        left = iter(numbers)
        with self._thread:
            prepared = collections.deque()
            for number in numbers:
                for following in itertools.islice(left, _STEPS_AHEAD + 1 - len(prepared)):
                    prepared.append(self._thread.submit(self._read, following))
                with waiting():
                    tokens, parts = prepared.popleft().result()
                    if tokens != self._microbatch.tokens:  # Halved since.
                        parts = self.at(number)
                yield number, parts

    def _read(self, number: int) -> tuple[int, list[list[Batch]]]:
        tokens = self._microbatch.tokens
        if self._varied:
            store, examples = self._varied.at(number)
        else:
            store, examples = self._store, self._sampler.at(number)
        return tokens, list(replica_batches(store, examples, tokens, self._step))


# By when a new run shows whether it learns anything.
_FIRST_EVALUATION_SECONDS = 60.0
# Schedules whose rate rises over warmup_steps; of a user's own nothing is known.
_WARMING_UP = ("transformer", "inverse_square_root", "cosine")


def train(
    config: RunConfig,
    generated: Generated,
    output_dir: str | Path,
    step: backend.Step,
    options: TrainOptions | None = None,
    workers: Workers | None = None,
    score: Callable[[], tuple[Any, Sample]] | None = None,
    clock: RunClock | None = None,
    callbacks: keras.callbacks.Callback | Sequence[keras.callbacks.Callback] | None = None,
) -> TrainResult:
    """Trains a model, or continues a run as if it had never stopped.

    `step` computes the steps, with fresh weights; `score` scores its model on the dev set at each
    evaluation, see `Evaluator` (None = only the loss is measured); `clock` has run since the
    beginning (None = it begins now). Without `workers` this process trains alone. For `callbacks`
    see `t2t_keras.train`.

    Raises:
      UserError: the loss is NaN, or a checkpoint cannot be read or written.
    """
    options, workers, clock = options or TrainOptions(), workers or Workers(), clock or RunClock()
    output_dir = Path(output_dir)
    checkpoints = Checkpoints(output_dir, step.state(), options.keep_checkpoint_max)
    path = _first_state(checkpoints, config, output_dir, step, options, workers)
    find = options.schedule != "evaluate"
    microbatch = microbatch_of_run(step, config, generated, output_dir, workers, find)
    # Of several workers one writes them, and the others may see them late.
    found = read_evaluations(output_dir) if workers.is_chief else []
    found = json.loads(workers.gather(json.dumps(found))[0])
    evaluations = [entry for entry in found if entry["step"] <= step.steps_done()]
    evaluator = None
    if options.schedule != "train":
        held = dataclasses.replace(config.hparams, microbatch_tokens=microbatch.tokens)
        held_config = dataclasses.replace(config, hparams=held)
        loss = SplitLoss(step, held_config, generated, "dev", options.eval_steps)
        writes, by = workers.is_chief, options.best_by
        evaluator = Evaluator(loss, output_dir, score, writes, evaluations, by)
    trainer = _Trainer(
        config=config,
        generated=generated,
        output_dir=output_dir,
        step=step,
        options=options,
        workers=workers,
        clock=clock,
        checkpoints=checkpoints,
        microbatch=microbatch,
        evaluator=evaluator,
        callbacks=RunCallbacks(callbacks if workers.is_chief else None, step.model, evaluations),
        saved_path=path,
    )
    return trainer.evaluate_only() if options.schedule == "evaluate" else trainer.run()


def _first_state(
    checkpoints: Checkpoints,
    config: RunConfig,
    output_dir: Path,
    step: backend.Step,
    options: TrainOptions,
    workers: Workers,
) -> str:
    """Gives a step what it begins with; returns the path of its checkpoint, "" without one."""
    path = workers.restore_newest(checkpoints, output_dir) or ""
    if path:
        print(f"Continuing from {path}.")
        return path
    if options.schedule == "evaluate":
        newest_checkpoint(output_dir)  # Says that there is none.
    elif options.warm_start_from:
        changes = options.adapt_vocabulary, options.drop_layers
        load_first_weights(step.model, config, options.warm_start_from, *changes)
    elif config.hparams.lora_rank:
        raise UserError(
            f"lora_rank={config.hparams.lora_rank} trains what is added to the weights of another "
            f"run. Name it: --warm_start_from=RUN.",
            code="conflicting_settings",
        )
    step.begin()
    return ""


class _Trainer:
    """One process of a run, from what `train` has prepared."""

    def __init__(
        self,
        *,
        config: RunConfig,
        generated: Generated,
        output_dir: Path,
        step: backend.Step,
        options: TrainOptions,
        workers: Workers,
        clock: RunClock,
        checkpoints: Checkpoints,
        microbatch: Microbatch,
        evaluator: Evaluator | None,
        callbacks: RunCallbacks,
        saved_path: str,
    ):
        self._config, self._output_dir, self._step = config, output_dir, step
        self._options, self._workers, self._clock = options, workers, clock
        self._checkpoints, self._microbatch = checkpoints, microbatch
        self._evaluator, self._callbacks, self._saved_path = evaluator, callbacks, saved_path
        self._augmentation = config.augmentation(generated)
        self._generated, self._store = generated, generated.store("train")
        self._first = self._done = step.steps_done()
        self._last = max(config.hparams.train_steps, self._first)
        self._saved, self._saved_at = self._first or -1, 0.0
        self._evaluated, self._evaluation = -1, {}
        self._eval_secs = self._evaluate_at = options.eval_secs or np.inf
        if options.eval_secs and not (evaluator and evaluator.history):
            self._evaluate_at = min(options.eval_secs, _FIRST_EVALUATION_SECONDS)

    def evaluate_only(self) -> TrainResult:
        """Measures the newest checkpoint."""
        report = self._measured(same_cost(self._checkpoints.head))
        print_beside_bar(report)
        self._clock.show()
        return self._result()

    def run(self) -> TrainResult:
        """Trains until the last step, an early stop or a signal."""
        config, is_chief = self._config, self._workers.is_chief
        if is_chief:
            config.save(self._output_dir)
        store, seed, augmentation = self._store, config.random_seed, self._augmentation
        limits = config.hparams.batch_tokens, config.hparams.max_length
        mixed = config.problem.mix, config.problem.mix_until, self._generated.corpora
        sampler = TokenBatchSampler(store.lengths, *limits, seed, *mixed)
        varied = AugmentedSteps(store, sampler, augmentation, seed) if augmentation else None
        self._arrays = Prefetcher(store, sampler, self._step, self._microbatch, varied)
        self._data_check = BackgroundCheck(self._generated) if is_chief else None
        hardware = hardware_name(self._step.gpus, self._workers.count)
        before = cost_in(self._checkpoints.head) if self._first else TrainingCost()
        if before is None:
            print(f"{self._saved_path} does not say what the run has cost: no cost is recorded.")
        self._cost = CostMeter(before, hardware)
        self._callbacks.continue_epoch(self._first, self._cost.epoch_sums)
        self._profiler = StepProfiler(self._output_dir, self._options.profiled_steps())
        self._describe(sampler)
        curves = make_curves(self._output_dir) if is_chief else None
        self._progress = Progress(curves, self._first, self._last)
        self._callbacks.train_begin()
        self._clock.begin_training()
        with caught_signals() as caught:
            try:
                self._run_missed_evaluation()
                # The same command again does not train on what has ended early.
                stopped = 0 if self._has_converged() else self._do_steps(caught)
                self._require_sound_data(wait=not stopped)
                if not stopped and self._evaluator and self._evaluated != self._done:
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
        if stopped:
            print(
                f"Stopped by {signal.Signals(stopped).name} after step {self._done}; saved "
                f"{self._saved_path}. The same command continues from there."
            )
        elif self._step.model.stop_training and self._done < self._last:
            print(f"Stopped by a callback after step {self._done}; saved {self._saved_path}.")
        self._callbacks.train_end(self._done, stopped)
        return self._result(stopped)

    def _result(self, stopped: int = 0) -> TrainResult:
        path, history, model = self._saved_path, self._callbacks.history(), self._step.model
        return TrainResult(self._done, path, self._evaluation, stopped, history, model)

    def _describe(self, sampler: TokenBatchSampler) -> None:
        source, target = sampler.fill_ratio()
        hparams = self._config.hparams
        self._warn(hparams)
        weights = f"{self._step.model.count_params():,} weights"
        if self._step.model.non_trainable_weights:
            trained = sum(math.prod(each.shape) for each in self._step.model.trainable_weights)
            weights += f", of which {trained:,} are trained,"
        if self._first and self._first == self._last:
            print(
                f"Nothing to train: the run has done {self._first:,} steps, and --train_steps="
                f"{hparams.train_steps}. Give more --train_steps to train it further.",
                flush=True,
            )
            return
        print(
            f"{weights} on {self._step.num_replicas} "
            f"replica(s), steps {self._first:,} to {self._last:,}, {len(self._store):,} training "
            f"pairs; a step holds on average {source:.1%} (source) and {target:.1%} (target) of "
            f"batch_tokens={hparams.batch_tokens:,}.",
            flush=True,
        )
        left_out = {"training": sampler.left_out}
        left_out["dev"] = self._evaluator.left_out if self._evaluator else 0
        limit = f"max_length={hparams.max_length}"
        for split, count in left_out.items():
            if count:
                print(f"{count:,} {split} pairs are left out: longer than {limit}.", flush=True)

    def _warn(self, hparams: HParams) -> None:
        """Says what makes it likely that a training will disappoint."""
        left = self._last - self._first
        if left and hparams.schedule in _WARMING_UP and hparams.warmup_steps >= self._last:
            # A cosine must keep its last step.
            is_fixed = hparams.schedule == "cosine"
            advice = "Start" if is_fixed else "Give more --train_steps, or start"
            print(
                f"The learning rate would still be rising at the last step: warmup_steps="
                f"{hparams.warmup_steps:,}. {advice} a new run with "
                f"--hparams=warmup_steps={max(self._last // 10, 1)} or so.",
                flush=True,
            )

    def _do_steps(self, caught: list[int]) -> int:
        """Does all steps until the last one or an end before it; returns the signal, or 0."""
        pending, agreed = None, Actions()
        numbers = range(self._first, self._last)
        for number, parts in self._arrays.ahead(numbers, lambda: self._clock.spent_on(INPUT)):
            measure = (number + 1) % LOG_STEPS == 0
            self._callbacks.step_begin(number)
            sums = self._update(number, parts, measure)
            # Looked at while the next step runs, so that a device never waits for it.
            self._finish(pending)
            pending = number, {**sums, "learning_rate": self._step.schedule(number)}
            # Asked once: the clock must not make a pause due before the step is finished.
            agreed = self._workers.agree(self._step, number, self._due_by_time(caught[-1]))
            evaluate = agreed.evaluate or self._evaluation_is_due(number + 1)
            traced = self._profiler.ends_at(number + 1)
            pause = agreed.save or evaluate
            if measure or pause or traced or agreed.stop or self._callbacks.each_step:
                self._finish(pending)
                pending = None
            if traced:
                self._profiler.close()
            if agreed.save:
                self._save()
            ends = agreed.stop or (evaluate and not self._evaluate_and_go_on())
            if ends or self._stop_requested(pause):
                break
        self._finish(pending)
        return agreed.stop

    def _update(self, number: int, parts: list[list[Batch]], measure: bool) -> dict[str, Any]:
        """Starts a step; on OOM again with half as much at once, until it fits."""
        while True:
            try:
                with self._profiler.step(number + 1), self._clock.spent_on(STEP):
                    return self._step.update(number, parts, measure)
            except OutOfMemoryError:
                before = self._microbatch.tokens
                self._microbatch.halve()
                print_beside_bar(
                    f"Out of memory at step {number + 1} with microbatch_tokens={before:,}: "
                    f"continuing with {self._microbatch.tokens:,} and the same batch_tokens."
                )
                with self._clock.spent_on(INPUT):
                    parts = self._arrays.at(number)

    def _finish(self, pending: tuple[int, dict[str, Any]] | None) -> None:
        """Reads the numbers of a step that was started, and stops the run where they are NaN."""
        if pending is None:
            return
        with self._clock.spent_on(STEP):
            number, sums = pending[0], {name: float(value) for name, value in pending[1].items()}
        self._clock.end_start()
        if not np.isfinite(sums["loss"]):
            raise self._diverged(f"The loss is {sums['loss']} at step {number + 1}.")
        self._require_sound_data()
        self._workers.hear(number, sums)
        scalars = {name: sums.pop(name) for name in ("learning_rate", "gradient_norm")}
        scalars |= self._trained_scalars()
        self._cost.add_tokens(sums["tokens"])
        self._done = number + 1
        self._progress.step(sums, scalars)
        self._callbacks.step_end(number, sums)

    def _require_sound_data(self, wait: bool = False) -> None:
        """Stops the run before it saves what it has learned from damaged data."""
        if self._data_check:
            self._data_check.require(wait)

    def _stop_requested(self, due: bool) -> bool:
        """Returns whether a callback ends the run; several workers hear it where all pause."""
        if self._workers.count > 1 and not due:
            return False
        return self._workers.stop_together(self._step.model.stop_training)

    def _trained_scalars(self) -> dict[str, float]:
        """Returns the seconds of training at a point of the curves, if they are known."""
        seconds = self._cost.seconds(self._clock.training_seconds())
        return {} if seconds is None else {"training_seconds": seconds}

    def _due_by_time(self, stop: int) -> Actions:
        """Returns what is due by this worker's clock, with the signal that came."""
        # By the clock of the recorded cost, by which t2t-avg-all --seconds_apart selects.
        now = self._clock.training_seconds()
        save = now - self._saved_at >= self._options.save_checkpoints_secs
        return Actions(stop, save, self._evaluator is not None and now >= self._evaluate_at)

    def _evaluation_is_due(self, done: int) -> bool:
        every = self._options.local_eval_frequency
        return self._evaluator is not None and every > 0 and done % every == 0

    def _evaluate_and_go_on(self) -> bool:
        """Evaluates; returns whether training goes on."""
        self._evaluate()
        return not self._has_converged()

    def _run_missed_evaluation(self) -> None:
        """Evaluates a warm start, or a checkpoint whose evaluation a stop has prevented."""
        is_due = self._evaluation_is_due(self._first)
        if not self._first:  # Training may make a warm start worse; `best/` then keeps it.
            is_due = bool(self._evaluator and self._options.warm_start_from)
        if is_due and self._first not in (entry["step"] for entry in self._evaluator.history):
            self._evaluate()

    def _has_converged(self) -> bool:
        patience = self._options.eval_early_stopping_steps
        if not (patience and self._evaluator and self._evaluator.history):
            return False
        best, newest = self._evaluator.best_step(), self._evaluator.history[-1]["step"]
        if best < 0 or newest - best < patience:
            return False
        print_beside_bar(
            f"The dev {self._options.best_by} has not improved since step {best}: ending early "
            f"(eval_early_stopping_steps={patience})."
        )
        self._evaluated = self._done
        return True

    def _evaluate(self, is_last: bool = False) -> None:
        trained = self._clock.training_seconds()
        report = self._measured(self._cost.head(trained), is_last or self._done == self._last)
        self._evaluated, self._evaluate_at = self._done, trained + self._eval_secs
        self._progress.evaluated(self._evaluation | self._trained_scalars(), report)

    def _measured(self, cost: Mapping[str, Any], is_last: bool = True) -> str:
        """Measures and records the model; returns lines to print.

        `cost` is what the head of the best weights says of it.
        """
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
            newest, by = self._evaluator.history[-1], self._options.best_by
            if by != "loss":  # Only the chief translates.
                newest[by] = json.loads(self._workers.gather(json.dumps(newest.get(by)))[0])
            self._callbacks.test_end(self._evaluation, newest)
        return report

    def _save(self) -> None:
        if self._saved == self._done:
            return
        if not self._step.weights_are_finite():
            raise self._diverged(f"A weight is NaN or infinite after step {self._done}.")
        trained = self._clock.training_seconds()
        with self._clock.spent_on(CHECKPOINT):
            self._saved_path = path_at(self._output_dir, self._done)
            if self._workers.is_chief:
                head = self._cost.head(trained, self._callbacks.epoch_sums())
                self._checkpoints.save(self._done, head)
        self._saved, self._saved_at = self._done, trained
        self._callbacks.saved(self._done, self._saved_path)

    def _diverged(self, what: str) -> UserError:
        return UserError(
            f"{what} The last good checkpoint is {self._saved_path or 'none'}. Try a lower "
            f"learning_rate, more warmup_steps or clip_norm=1.0 in a new --output_dir.",
            code="not_finite",
        )
