"""What a run shows: averages, the progress line or plain lines, traces; and Keras callbacks."""

import contextlib
import csv
import functools
import io
import json
import os
import pty
import re
import signal
import termios
import time
import types
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
from refusals import refused
from tensorflow.tsl.profiler.protobuf import xplane_pb2
from training_runs import numbers_in

from t2t_keras.training.backends.cluster import Cluster
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoint_files import step_of
from t2t_keras.training.distributed import Actions, Workers
from t2t_keras.training.progress import (
    JsonCurves,
    Progress,
    RunCallbacks,
    StepProfiler,
    TensorBoardCurves,
    averages,
)
from t2t_keras.training.run_config import TrainOptions
from t2t_keras.training.trainer import train

SUMS = {"tokens": 4.0, "loss": 8.0, "negative_log_likelihood": 0.0, "correct": 3.0}
SCALARS = {"learning_rate": 0.0005, "gradient_norm": 1.5}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves: clock[0] is the second that it shows."""
    now = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_averages_are_per_token_and_finite():
    assert averages(SUMS) == {"loss": 2.0, "perplexity": 1.0, "accuracy": 0.75}
    assert averages({**SUMS, "negative_log_likelihood": 1e9})["perplexity"] > 1e300


@pytest.mark.parametrize("terminal", [True, False])
def test_a_plain_line_every_100_steps_where_no_progress_line_is_shown(
    monkeypatch, capsys, clock, terminal
):
    monkeypatch.setattr("sys.stderr", stderr := Terminal() if terminal else io.StringIO())
    progress = Progress(curves := mock.Mock(), 150, 1250)
    for number in range(150, 310):
        if number == 220:
            clock[0] += 1000
            progress.show_evaluation({"loss": 7.0}, "the report")
        clock[0] += 0.5
        # The last step before a line says little.
        loss = 42.0 if number == 299 else 8.0 if number < 210 else 10.0
        progress.show_step({**SUMS, "loss": loss}, SCALARS)
    progress.close()
    shown = (
        r"step 200/1250  loss 2.00  lr 5.0e-04  8.00 tok/s  eta 08:45\nthe report\n"
        r"step 300/1250  loss 2.53  lr .*\n"
    )
    assert re.fullmatch("the report\n" if terminal else shown, capsys.readouterr().out)
    assert bool(stderr.getvalue()) == terminal
    (kind, step, train), evaluation, (_, later, after) = (
        call.args for call in curves.write.call_args_list
    )
    assert (kind, step, later) == ("train", 200, 300)
    assert (train["loss"], train["gradient_norm"], train["learning_rate"]) == (2.0, 1.5, 0.0005)
    assert evaluation == ("eval", 220, {"loss": 7.0})
    assert train["tokens_per_second"] == after["tokens_per_second"] == 4.0 / 0.5
    curves.close.assert_called_once()


def test_slow_steps_get_a_plain_line_a_minute(monkeypatch, capsys, clock):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    progress = Progress(curves := mock.Mock(), 0, 1000)
    for _ in range(5):
        clock[0] += 25
        progress.show_step(SUMS, SCALARS)
    progress.close()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["3/1000"]
    assert lines[0].endswith("eta 6:55:25")  # 997 steps of 25 s
    curves.write.assert_not_called()


def test_the_progress_line_moves_while_the_system_s_time_is_set_back(monkeypatch, clock):
    monkeypatch.setattr("tqdm.std.time", lambda: 1e9 - 3600 * clock[0])
    monkeypatch.setattr("sys.stderr", stderr := Terminal())
    progress = Progress(None, 0, 1000)
    clock[0] += 10
    progress.show_step(SUMS, SCALARS)
    assert f"step 1/1000  loss 2.00  lr 5.0e-04  0.40 tok/s  eta {999 * 10 // 3600}:" in (
        stderr.getvalue()
    )


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize(("before", "last"), [(134, 4000), (134_999, 300_000)])
def test_the_progress_line_fits_a_terminal(monkeypatch, clock, columns, before, last):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    with os.fdopen(theirs, "w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        progress = Progress(None, before, last)
        clock[0] += 1
        sums = {**SUMS, "tokens": 7219.0, "loss": 7219 * 7.27}
        progress.show_step(sums, {**SCALARS, "learning_rate": 4.7e-5})
        progress.close()
    shown = b""
    # What was written arrives in pieces; an error is its end.
    with os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
        while some := terminal.read(4096):
            shown += some
    lines = shown.decode().rstrip().split("\r")
    assert {len(line) for line in lines[1:]} == {columns - 1}
    text = rf"step {before + 1}/{last}  loss 7.27  lr 4.7e-05  7.22k tok/s  eta [\d:]+  \|.+\|"
    assert re.fullmatch(text, lines[-1])


@pytest.mark.parametrize("kind", [TensorBoardCurves, JsonCurves])
def test_where_curves_cannot_be_written_the_reason_is_said(tmp_path, kind):
    (tmp_path / "train").touch()
    curves = kind(tmp_path)
    with refused("not_written", tmp_path / "train"):
        curves.write("train", 1, {"loss": 2.0})
    curves.close()


def steps_in(trace):
    """Returns the numbers of the steps in a trace: events named "train", with the number."""
    space = xplane_pb2.XSpace.FromString(trace.read_bytes())
    return sorted(
        stat.int64_value
        for plane in space.planes
        for line in plane.lines
        for event in line.events
        for stat in event.stats
        if plane.event_metadata[event.metadata_id].name == "train"
        and plane.stat_metadata[stat.metadata_id].name == "step_num"
    )


@pytest.mark.parametrize(("last", "traced"), [(6, [3, 4]), (3, [3]), (2, [])])
def test_the_trace_holds_its_steps_and_no_other(tmp_path, capsys, last, traced):
    profiler = StepProfiler(tmp_path, range(3, 5))
    assert profiler.last_step == 4
    for step in range(1, last + 1):
        with profiler.trace_step(step):
            tf.constant(1) + 1
        if step == profiler.last_step:
            profiler.close()
    profiler.close()
    traces = map(steps_in, tmp_path.glob("train/plugins/profile/*/*.xplane.pb"))
    assert list(traces) == ([traced] if traced else [])
    out = capsys.readouterr().out
    assert re.match(rf"Steps 3 \D+ {traced[-1] if traced else 4}\b", out)
    assert (str(tmp_path) in out) == bool(traced)


EVERY_3 = TrainOptions(local_eval_frequency=3, eval_secs=0)


@pytest.fixture
def run(make_record, compiled_step, generated, tmp_path):
    """run(*callbacks, options, workers, name, sums, **hparams): trains in a directory `name`.

    The sums of each step are added to the list `sums`.
    """

    def run(*callbacks, options=EVERY_3, workers=None, name="run", sums=None, **hparams):
        config = make_record(**hparams)
        step = compiled_step(config)

        def update(*arguments):
            actual = TensorFlowStep.update(step, *arguments)
            if sums is not None:
                sums.append({name: float(value) for name, value in actual.items()})
            return actual

        step.update = update
        directory = tmp_path / name
        return train(
            config, generated, directory, step, options, workers, callbacks=list(callbacks)
        )

    return run


def recorder(calls):
    """Adds its calls of all hooks but those of batches."""
    hooks = "train_begin train_end test_begin test_end epoch_begin epoch_end save".split()
    record = lambda *call: calls.append(call)  # noqa: E731
    return keras.callbacks.LambdaCallback(
        **{f"on_{hook}": functools.partial(record, hook) for hook in hooks}
    )


def test_hooks_are_called_as_by_fit_and_history_survives_a_restart(run, tmp_path):
    first, second, sums = [], [], []
    begun = run(recorder(first), train_steps=4, sums=sums)
    result = run(recorder(second), train_steps=6, sums=sums)
    names = ["train_begin", *["epoch_begin", "test_begin", "test_end", "epoch_end"] * 2]
    assert [call[0] for call in first] == [*names, "save", "train_end"]
    assert first[-2] == ("save", 4, {"checkpoint": begun.checkpoint})
    at = {call[0]: call[1] for call in second if len(call) == 3}
    assert at == {"epoch_begin": 2, "epoch_end": 2, "save": 6}
    lines = (tmp_path / "run" / "evaluations.json").read_text().splitlines()
    expected = {"step": [3, 4, 6]}
    # The mean over the tokens of the steps of each epoch.
    epochs = (sums[:3], sums[3:4], sums[4:])
    expected["loss"] = [
        pytest.approx(
            sum(totals["loss"] for totals in epoch) / sum(totals["tokens"] for totals in epoch)
        )
        for epoch in epochs
    ]
    for name in ("loss", "perplexity", "accuracy"):
        expected[f"val_{name}"] = [json.loads(line)[name] for line in lines]
    assert result.history == expected
    last = {name: values[-1] for name, values in result.history.items()}
    assert second[-4:-2] == [("test_end", result.evaluation), ("epoch_end", 2, last)]
    assert run(train_steps=6).history == expected, "nothing is left to train, only to evaluate"


def test_steps_are_waited_for_only_if_a_callback_has_hooks_of_batches():
    waits = lambda *callbacks: RunCallbacks(callbacks, types.SimpleNamespace(), []).has_step_hooks  # noqa: E731
    assert not waits(keras.callbacks.EarlyStopping(), recorder([]))
    assert waits(keras.callbacks.LambdaCallback(on_train_batch_end=print))
    assert waits(keras.callbacks.EarlyStopping(), keras.callbacks.TerminateOnNaN())


@pytest.mark.parametrize(
    "wrong",
    [
        *(keras.callbacks.ReduceLROnPlateau(), keras.callbacks.BackupAndRestore("x"), print),
        *(keras.callbacks.LearningRateScheduler(print), keras.callbacks.SwapEMAWeights()),
    ],
)
def test_what_is_no_callback_of_a_run_is_refused(wrong):
    with refused("bad_value", "callbacks", getattr(wrong, "__name__", type(wrong).__name__)):
        RunCallbacks([keras.callbacks.History(), wrong], types.SimpleNamespace(), [])


@pytest.mark.parametrize(("number", "steps"), [(0, [1]), (signal.SIGTERM, [])])
def test_a_signal_ends_no_epoch(number, steps):
    callbacks = RunCallbacks([], types.SimpleNamespace(), [])
    callbacks.on_train_begin()
    callbacks.step_begin(0)
    callbacks.train_end(1, number)
    assert callbacks.history().get("step", []) == steps


def test_an_epoch_that_has_ended_has_no_steps_left():
    for evaluated, expected in ((4, {}), (3, {"tokens": 2.0}), (5, {"tokens": 2.0})):
        callbacks = RunCallbacks([], types.SimpleNamespace(), [{"step": evaluated}])
        callbacks.continue_epoch(4, {"tokens": 2.0})
        assert callbacks.epoch_sums == expected


def test_history_of_earlier_starts_has_keras_s_names_and_no_gaps():
    evaluations = [
        {"step": 2, "loss": 3.0},
        {"step": 4, "loss": 2.0, "bleu": 5.0, "train_loss": 4.0, "score": ["BLEU"], "sample": []},
    ]
    history = RunCallbacks([], types.SimpleNamespace(), evaluations).history()
    nan = pytest.approx(np.nan, nan_ok=True)
    expected = {"step": [2, 4], "val_loss": [3.0, 2.0], "val_bleu": [nan, 5.0], "loss": [nan, 4.0]}
    assert history == expected


def test_without_evaluations_all_steps_are_an_epoch(run):
    calls = []
    result = run(recorder(calls), options=TrainOptions(schedule="train"), train_steps=4)
    names = ["train_begin", "epoch_begin", "save", "epoch_end", "train_end"]
    assert [call[0] for call in calls] == names
    assert (list(result.history), result.history["step"]) == (["step", "loss"], [4])


def test_keras_s_early_stopping_and_csv_logger(run, tmp_path, capsys):
    stop = keras.callbacks.EarlyStopping(patience=1)
    log = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    # Without a learning rate the dev loss never falls below that of the first evaluation.
    result = run(stop, log, learning_rate=0.0)
    assert (result.step, step_of(result.checkpoint), result.signal) == (6, 6, 0)
    assert result.checkpoint in capsys.readouterr().out
    ended = run(
        keras.callbacks.EarlyStopping(patience=1),
        learning_rate=0.0,
        name="at the end",
        train_steps=6,
    )
    assert ended.checkpoint not in capsys.readouterr().out, "there was nothing left"
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row.pop("epoch") for row in rows] == ["0", "1"]
    logged = {name: [float(row[name]) for row in rows] for name in rows[0]}
    assert logged == result.history


def test_a_callback_may_look_for_an_optimizer(run):
    class Looks(keras.callbacks.Callback):  # As TensorBoard's does.
        def on_test_end(self, logs=None):
            actual.append(self.model.optimizer and self.model.optimizer.iterations)

    actual = []
    run(Looks(), train_steps=4)
    assert actual == [None, None]


def test_a_stop_after_any_step_can_be_continued(run, capsys):
    batches, begun = [], []

    def end(batch, logs):
        batches.append((batch, logs["loss"]))
        stop.model.stop_training = len(batches) == 5

    stop = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: begun.append(batch), on_train_batch_end=end
    )
    whole, sums = run(name="whole"), []
    stopped = run(stop, sums=sums)
    assert [batch for batch, _ in batches] == begun == [0, 1, 2, 0, 1]
    expected = [totals["loss"] / totals["tokens"] for totals in sums]
    assert [loss for _, loss in batches] == pytest.approx(expected)
    assert (stopped.step, stopped.history["step"]) == (5, [3, 5])
    assert re.search(rf" step 5\b.* {stopped.checkpoint}", capsys.readouterr().out)
    continued = run()
    assert continued.history["step"] == [3, 5, 6, 8]
    np.testing.assert_array_equal(numbers_in(continued.checkpoint), numbers_in(whole.checkpoint))


def test_other_workers_hear_at_an_evaluation_that_the_chief_s_callback_stops(run):
    class Second(Workers):
        gather = lambda _, value: [value, value]  # noqa: E731
        stop_together = lambda *_: True  # noqa: E731
        restore_newest = lambda *_: None  # noqa: E731
        exchange_requests = lambda *_: Actions()  # noqa: E731

    calls = []
    result = run(recorder(calls), workers=Second(Cluster(("a:1", "b:2"), 1)))
    assert (result.step, calls) == (3, [])
