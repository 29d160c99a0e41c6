"""Observers of training: a progress line, curves, a trace of steps, and callbacks."""

import collections
import contextlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras.callbacks import (
    BackupAndRestore,
    Callback,
    CallbackList,
    LearningRateScheduler,
    ReduceLROnPlateau,
    SwapEMAWeights,
)

from t2t_keras.errors import UserError, translated_errors
from t2t_keras.io.files import CURVES_FILE
from t2t_keras.io.terminal import ProgressBar, print_beside_bar

# Steps between two points of the curves, and between two lines of a log.
LOG_STEPS = 100
# Longest time between two lines of a log, however slow the steps are.
_MAX_LINE_SECONDS = 60.0
_FULL_DISK_ADVICE = "Make room; the same command continues."


def averages(sums: Mapping[str, float]) -> dict[str, float]:
    """Returns {"loss", "perplexity" (unsmoothed, per word piece), "accuracy"} from `token_sums`."""
    tokens = max(sums["tokens"], 1.0)
    return {
        "loss": sums["loss"] / tokens,
        "perplexity": math.exp(min(sums["negative_log_likelihood"] / tokens, 700.0)),
        "accuracy": sums["correct"] / tokens,
    }


def make_curves(output_dir: str | Path) -> "TensorBoardCurves | JsonCurves":
    """Returns the writer of a run's curves for Keras's backend."""
    is_tensorflow = keras.backend.backend() == "tensorflow"
    return (TensorBoardCurves if is_tensorflow else JsonCurves)(output_dir)


class TensorBoardCurves:
    """Writes event files for TensorBoard, in a folder of the run for each kind of curve."""

    def __init__(self, output_dir: str | Path):
        import tensorflow as tf

        # Unlike `tf.summary.scalar`, this does not need the tensorboard package.
        self._metadata = tf.compat.v1.SummaryMetadata(
            plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"),
            data_class=1,  # DATA_CLASS_SCALAR
        )
        self._tensorflow, self._output_dir = tf, Path(output_dir)
        self._writers: dict[str, Any] = {}

    def write(self, kind: str, step: int, scalars: dict[str, float]) -> None:
        """Adds a point to each curve of a kind, such as "train" and "eval"."""
        folder, summary = str(self._output_dir / kind), self._tensorflow.summary
        error = self._tensorflow.errors.OpError
        with translated_errors(
            error, f"Cannot write {folder}", _FULL_DISK_ADVICE, code="not_written"
        ):
            if kind not in self._writers:
                self._writers[kind] = summary.create_file_writer(folder)
            with self._writers[kind].as_default(step=step):
                for name, value in scalars.items():
                    summary.write(name, np.float32(value), metadata=self._metadata)
            self._writers[kind].flush()

    def close(self) -> None:
        """Closes the files."""
        for writer in self._writers.values():
            writer.close()


class JsonCurves:
    """Writes `<kind>/scalars.jsonl` in the run: a line of JSON for each logged step.

    A continued run appends, so a step can occur twice, as in TensorBoard's files.
    """

    def __init__(self, output_dir: str | Path):
        self._output_dir = Path(output_dir)

    def write(self, kind: str, step: int, scalars: dict[str, float]) -> None:
        """Adds a point to each curve of a kind; see `TensorBoardCurves`."""
        path = self._output_dir / kind / CURVES_FILE
        with translated_errors(
            OSError, f"Cannot write {path}", _FULL_DISK_ADVICE, code="not_written"
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, **scalars}) + "\n")

    def close(self) -> None:
        """Does nothing: no file stays open."""


class Progress:
    """Shows steps `first` to `last` in a progress line on standard error, and in `curves` if any.

    If standard error is not a terminal, as in a job's log, prints a line every 100 steps instead,
    and at least every minute.
    """

    def __init__(self, curves: TensorBoardCurves | JsonCurves | None, first: int, last: int):
        self._curves = curves
        self._steps_done, self._last_step = first, last
        # The bar gets the columns that the text leaves free.
        bar_format = "step {n_fmt}/{total_fmt}  {desc}eta {remaining}  |{bar}|"
        self._bar = ProgressBar(total=last, initial=first, smoothing=0.05, bar_format=bar_format)
        # Sums since the last point of the curves.
        self._sums: collections.Counter[str] = collections.Counter()
        self._restart_clock()

    def _restart_clock(self) -> None:
        """Restarts the measurement of speed, as after an evaluation, whose time must not count."""
        self._tokens = 0.0
        self._restarted_at = self._printed_at = time.monotonic()
        self._base_step = self._steps_done

    def show_step(self, sums: Mapping[str, float], scalars: Mapping[str, float]) -> None:
        """Counts a finished step, and shows the mean loss since the last point of the curves.

        `sums` are the step's `token_sums`; `scalars` are its "learning_rate" and
        further values for the curves.
        """
        self._steps_done += 1
        self._sums.update(sums)
        self._tokens += sums["tokens"]
        now = time.monotonic()
        seconds = max(now - self._restarted_at, 1e-9)
        speed = self._tokens / seconds
        loss, rate = averages(self._sums)["loss"], scalars["learning_rate"]
        text = f"loss {loss:.2f}  lr {rate:.1e}  {self._bar.format_sizeof(speed)} tok/s  "
        self._bar.set_description_str(text, refresh=False)
        self._bar.update(1)
        is_logged = self._steps_done % LOG_STEPS == 0
        if self._bar.disable and (is_logged or now - self._printed_at >= _MAX_LINE_SECONDS):
            seconds_per_step = seconds / (self._steps_done - self._base_step)
            steps_left = self._last_step - self._steps_done
            eta = self._bar.format_interval(steps_left * seconds_per_step)
            print_beside_bar(f"step {self._steps_done}/{self._last_step}  {text}eta {eta}")
            self._printed_at = now
        if not is_logged:
            return
        if self._curves:
            points = {**scalars, **averages(self._sums), "tokens_per_second": speed}
            self._curves.write("train", self._steps_done, points)
        self._sums.clear()
        self._restart_clock()

    def show_evaluation(self, scalars: Mapping[str, float], report: str) -> None:
        """Shows the evaluation after the newest step."""
        if self._curves:
            self._curves.write("eval", self._steps_done, dict(scalars))
        print_beside_bar(report)
        # Exclude the time of the evaluation from the estimate.
        self._bar.unpause()
        self._restart_clock()

    def close(self) -> None:
        """Ends the progress line and the curves."""
        self._bar.close()
        if self._curves:
            self._curves.close()


class StepProfiler:
    """Writes a trace of steps, counted from 1, into a run's folder, where TensorBoard finds it.

    Attributes:
      last_step: the last step to trace; -1 = none.
    """

    def __init__(self, output_dir: str | Path, steps: range):
        self._directory, self._steps = str(Path(output_dir) / "train"), steps
        self.last_step = steps[-1] if steps else -1
        self._traced_steps: list[int] = []

    def trace_step(self, step: int) -> AbstractContextManager[Any]:
        """Returns the context to start a step in; the first traced step starts the trace."""
        if step not in self._steps:
            return contextlib.nullcontext()
        start, _, step_context = _profiler()
        if not self._traced_steps:
            start(self._directory)
        self._traced_steps.append(step)
        return step_context(step)

    def close(self) -> None:
        """Writes the trace, after its last step or as the run ends; later calls do nothing."""
        traced_steps, steps = self._traced_steps, self._traced_steps or self._steps
        self._traced_steps, self._steps = [], range(0)
        if not steps:
            return
        if traced_steps:
            _, stop, _ = _profiler()
            stop()
            outcome = f"are traced in {self._directory}/plugins/profile"
        else:
            outcome = "are not traced: this command has not trained them"
        print_beside_bar(f"Steps {steps[0]:,} to {steps[-1]:,} {outcome}.")


def _profiler() -> tuple[
    Callable[[str], None], Callable[[], None], Callable[[int], AbstractContextManager[Any]]
]:
    """Returns the backend's functions that start a trace, stop it, and make a step's context."""
    # Imported here, so that no backend needs the packages of another.
    if keras.backend.backend() == "tensorflow":
        from tensorflow.profiler.experimental import Trace, start, stop

        return start, stop, lambda step: Trace("train", step_num=step, _r=1)
    from jax.profiler import StepTraceAnnotation, start_trace, stop_trace

    return start_trace, stop_trace, lambda step: StepTraceAnnotation("train", step_num=step)


# Hooks that Keras calls around each step, if a callback overrides them.
_STEP_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")

# Callbacks that change weights during a step, or the model's optimizer, which is None here.
_REFUSED_CALLBACKS = (BackupAndRestore, LearningRateScheduler, ReduceLROnPlateau, SwapEMAWeights)


class RunCallbacks(CallbackList):
    """The callbacks of a run, and its history by epochs; see `t2t_keras.train`.

    Args:
      callbacks: Keras callbacks.
      model: the model that the callbacks get.
      evaluations: the lines of the run's evaluations.json up to the step where it continues.

    Attributes:
      has_step_hooks: whether a callback has hooks around steps; then the run waits for each step.
      epoch_sums: sums of `token_sums` since the last evaluation.

    Raises:
      UserError: an item is not a callback, or it changes the optimizer.
    """

    def __init__(
        self,
        callbacks: Callback | Sequence[Callback] | None,
        model: keras.Model,
        evaluations: Iterable[Mapping[str, Any]],
    ):
        callbacks = keras.tree.flatten(callbacks or ())
        for callback in callbacks:
            if not isinstance(callback, Callback) or isinstance(callback, _REFUSED_CALLBACKS):
                raise UserError(
                    f"callbacks: expected Keras callbacks that change neither optimizer nor "
                    f"weights, got {callback!r}. Leave it out: the learning rate is a "
                    f"hyperparameter, and runs save and continue by themselves.",
                    code="bad_value",
                )
        # The number and length of epochs are unknown before they end.
        super().__init__(callbacks, model=model, verbose=0, epochs=None, steps=None)
        self.has_step_hooks = any(
            # An inherited hook does nothing.
            getattr(getattr(callback, hook), "__func__", None) is not getattr(Callback, hook)
            for callback in callbacks
            for hook in _STEP_HOOKS
        )
        self._epochs = list(map(_keras_logs, evaluations))
        # The first step of the epoch; None = no epoch has begun.
        self._epoch_start: int | None = None
        self.epoch_sums: collections.Counter[str] = collections.Counter()
        # Keras's callbacks read these attributes.
        model.stop_training, model.optimizer = False, None

    def continue_epoch(self, step: int, sums: Mapping[str, float]) -> None:
        """Adds the sums since the last evaluation, unless that evaluation was at `step` itself."""
        if not any(epoch["step"] == step for epoch in self._epochs):
            self.epoch_sums.update(sums)

    def step_begin(self, number: int) -> None:
        """Must be called before a step, counted from 0."""
        if self._epoch_start is None:
            self._epoch_start = number
            self.on_epoch_begin(len(self._epochs))
        if self.has_step_hooks:
            self.on_train_batch_begin(number - self._epoch_start)

    def step_end(self, number: int, sums: Mapping[str, float]) -> None:
        """Must be called after a step, with its `token_sums`."""
        self.epoch_sums.update(sums)
        if self.has_step_hooks and self._epoch_start is not None:
            self.on_train_batch_end(number - self._epoch_start, averages(sums))

    def on_save(self, step: int, logs: dict[str, str]) -> None:
        """Calls the method `on_save` of the callbacks that have one, after a checkpoint."""
        for callback in self.callbacks:
            if hasattr(callback, "on_save"):
                callback.on_save(step, logs)

    def train_end(self, step: int, signal: int) -> None:
        """Must be called after the last step; ends the epoch unless a signal ended the run."""
        if self._epoch_start is not None and not signal:
            self.end_epoch({"step": step, **self.train_loss()})
        self.on_train_end(self._epochs[-1] if self._epochs else None)

    def history(self) -> dict[str, list[float]]:
        """Returns the numbers of all epochs by name; NaN if an epoch lacks a number."""
        names = dict.fromkeys(name for epoch in self._epochs for name in epoch)
        return {name: [epoch.get(name, math.nan) for epoch in self._epochs] for name in names}

    def train_loss(self) -> dict[str, float]:
        """Returns {"train_loss": mean loss of the epoch so far}; {} = it has no steps."""
        return {"train_loss": averages(self.epoch_sums)["loss"]} if self.epoch_sums else {}

    def end_epoch(self, evaluation: Mapping[str, Any]) -> None:
        """Ends an epoch with its line of evaluations.json, and adds it to the history.

        Evaluating a completed run again replaces its last epoch.
        """
        logs = _keras_logs(evaluation)
        self._epochs = [*(epoch for epoch in self._epochs if epoch["step"] < logs["step"]), logs]
        self.epoch_sums.clear()
        if self._epoch_start is not None:
            self._epoch_start = None
            self.on_epoch_end(len(self._epochs) - 1, logs)


def _keras_logs(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers in a line of evaluations.json, under Keras's names."""
    numbers = {name: value for name, value in evaluation.items() if name not in ("score", "sample")}
    logs = {"step": numbers.pop("step")}
    if "train_loss" in numbers:
        logs["loss"] = numbers.pop("train_loss")
    return logs | {f"val_{name}": value for name, value in numbers.items()}
