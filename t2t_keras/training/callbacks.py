"""Keras's callbacks in a run, and the history of its epochs."""

import collections
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
from keras.callbacks import (
    BackupAndRestore,
    Callback,
    CallbackList,
    LearningRateScheduler,
    ReduceLROnPlateau,
    SwapEMAWeights,
)

from t2t_keras.errors import UserError
from t2t_keras.training.progress import averages

# What Keras calls around each step, if a callback has its own.
_STEP_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")

# They would change the optimizer, which is not the model's here, or the weights of a step.
_REFUSED = (BackupAndRestore, LearningRateScheduler, ReduceLROnPlateau, SwapEMAWeights)


class RunCallbacks:
    """Calls the callbacks of a run, and keeps its history; see `t2t_keras.train`.

    Args:
      callbacks: Keras's.
      model: what they get as their `model`.
      evaluations: the lines of the run's evaluations.json up to where it continues.

    Attributes:
      each_step: whether a callback is called around each step, which is then waited for.

    Raises:
      UserError: one is no callback, or it changes the optimizer.
    """

    def __init__(
        self,
        callbacks: Callback | Sequence[Callback] | None,
        model: keras.Model,
        evaluations: Iterable[Mapping[str, Any]],
    ):
        self._callbacks = keras.tree.flatten(callbacks or ())
        for each in self._callbacks:
            if not isinstance(each, Callback) or isinstance(each, _REFUSED):
                raise UserError(
                    f"callbacks: expected Keras's callbacks that change neither optimizer nor "
                    f"weights, got {each!r}. The learning rate is a hyperparameter, and a run "
                    f"continues by itself.",
                    code="bad_value",
                )
        # How long an epoch is, and how many there are, shows only when they end.
        unknown = dict(epochs=None, steps=None)
        self._list = CallbackList(self._callbacks, model=model, verbose=0, **unknown)
        self.each_step = any(
            # An inherited hook does nothing.
            getattr(getattr(each, hook), "__func__", None) is not getattr(Callback, hook)
            for each in self._callbacks
            for hook in _STEP_HOOKS
        )
        self._epochs = list(map(_logs, evaluations))
        # The first step of the epoch; None = none has begun.
        self._first: int | None = None
        self._sums: collections.Counter[str] = collections.Counter()
        # Keras's callbacks look for them; the optimizer is not the model's.
        model.stop_training, model.optimizer = False, None

    def train_begin(self) -> None:
        """Is called before the first step."""
        self._list.on_train_begin()

    def continue_epoch(self, step: int, sums: Mapping[str, float]) -> None:
        """Takes the sums of the steps since the last evaluation, if none is of `step` itself."""
        if not any(epoch["step"] == step for epoch in self._epochs):
            self._sums.update(sums)

    def epoch_sums(self) -> dict[str, float]:
        """Returns the sums of `token_sums` since the last evaluation."""
        return dict(self._sums)

    def step_begin(self, number: int) -> None:
        """Is called before a step, counted from 0."""
        if self._first is None:
            self._first = number
            self._list.on_epoch_begin(len(self._epochs))
        if self.each_step:
            self._list.on_train_batch_begin(number - self._first)

    def step_end(self, number: int, sums: Mapping[str, float]) -> None:
        """Takes the sums of `token_sums` of a step."""
        self._sums.update(sums)
        if self.each_step:
            self._list.on_train_batch_end(number - self._first, averages(sums))

    def saved(self, step: int, checkpoint: str) -> None:
        """Is called after a checkpoint is written."""
        for callback in self._callbacks:
            if hasattr(callback, "on_save"):
                callback.on_save(step, {"checkpoint": checkpoint})

    def test_begin(self) -> dict[str, float]:
        """Is called before an evaluation; returns {"train_loss": mean of the epoch, if any}."""
        self._list.on_test_begin()
        return self._train_loss()

    def test_end(self, scalars: Mapping[str, float], evaluation: Mapping[str, Any]) -> None:
        """Takes what an evaluation has found, and its line of evaluations.json; ends the epoch."""
        self._list.on_test_end(dict(scalars))
        self._end_epoch(_logs(evaluation))

    def train_end(self, step: int, signal: int) -> None:
        """Is called after the last step; one after which a signal came ends no epoch."""
        if self._first is not None and not signal:
            self._end_epoch(_logs({"step": step, **self._train_loss()}))
        self._list.on_train_end(self._epochs[-1] if self._epochs else None)

    def history(self) -> dict[str, list[float]]:
        """Returns the numbers of all epochs by name; NaN where one lacks a number."""
        names = dict.fromkeys(name for epoch in self._epochs for name in epoch)
        return {name: [epoch.get(name, math.nan) for epoch in self._epochs] for name in names}

    def _train_loss(self) -> dict[str, float]:
        return {"train_loss": averages(self._sums)["loss"]} if self._sums else {}

    def _end_epoch(self, logs: dict[str, float]) -> None:
        """Adds to the history; a completed run that is evaluated again has no new epoch."""
        self._epochs = [*(each for each in self._epochs if each["step"] < logs["step"]), logs]
        self._sums.clear()
        if self._first is not None:
            self._first = None
            self._list.on_epoch_end(len(self._epochs) - 1, logs)


def _logs(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """Returns a line of evaluations.json under Keras's names."""
    found = dict(evaluation)
    for text in ("score", "sample"):
        found.pop(text, None)
    first = {"step": found.pop("step")}
    if "train_loss" in found:
        first["loss"] = found.pop("train_loss")
    return first | {f"val_{name}": value for name, value in found.items()}
