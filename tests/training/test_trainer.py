"""The loop: resuming, evaluating, stopping, and what it refuses."""

import dataclasses
import itertools
import json
import os
import re
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.errors import UserError
from t2t_keras.training import checkpoints, run_loop
from t2t_keras.training.averaging import average_run
from t2t_keras.training.evaluation import Evaluator
from t2t_keras.training.tensorflow_step import TensorFlowStep
from t2t_keras.training.train_options import TrainOptions
from t2t_keras.training.trainer import train
from t2t_keras.training.training_cost import hardware_name, read_costs

ITERATIONS = "optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"


@pytest.fixture
def compiled_run(make_record, make_strategy, generated, tmp_path):
    """Returns a function that trains in a directory of the test's own."""

    def run(name="run", options=None, replicas=1, **hparams):
        def make_step(record, **options):
            strategy = make_strategy(replicas)
            return TensorFlowStep(record.make_model, record.hparams, strategy, record.random_seed)

        return train(
            make_record(**hparams), generated, tmp_path / name, make_step, options or TrainOptions()
        )

    return run


@pytest.fixture
def run(compiled_run, eagerly):
    """The same with functions run as Python: for a few steps, building a graph takes longer."""
    return compiled_run


def test_resumed_is_never_stopped(compiled_run, everything_in, tmp_path):
    whole = compiled_run("whole", dropout=0.3)
    compiled_run("parts", train_steps=3, dropout=0.3)
    parts = compiled_run("parts", dropout=0.3)
    assert parts.step == whole.step == 8
    assert parts.checkpoint == tf.train.latest_checkpoint(str(tmp_path / "parts"))
    np.testing.assert_array_equal(everything_in(parts.checkpoint), everything_in(whole.checkpoint))


# Compiling takes most of the time: so one shape under XLA, and two things in one case.
@pytest.mark.parametrize(
    ("xla", "replicas", "changes"), [(True, 1, {"max_length": 8}), (False, 2, {"recompute": True})]
)
def test_resumed_is_never_stopped_however_a_step_is_computed(
    make_record, make_strategy, generated, everything_in, tmp_path, xla, replicas, changes
):
    record = make_record(dropout=0.3, **changes)
    # Compiled once for all: what a run leaves behind, the next one's checkpoint must replace.
    step = TensorFlowStep(record.make_model, record.hparams, make_strategy(replicas), 1, xla)

    def run(name, steps):
        record = make_record(dropout=0.3, train_steps=steps, **changes)
        options = TrainOptions(schedule="train", xla=xla)
        return train(record, generated, tmp_path / name, lambda *_, **__: step, options)

    for name in ("whole", "parts"):
        assert run(name, 0).step == 0
    whole = run("whole", 8)
    assert run("parts", 3).step == 3
    parts = run("parts", 8)
    assert parts.step == whole.step == 8
    np.testing.assert_array_equal(everything_in(parts.checkpoint), everything_in(whole.checkpoint))


def test_evaluation_and_the_best_weights(compiled_run, tmp_path, weights_in, capsys):
    result = compiled_run(
        options=TrainOptions(local_eval_frequency=4, eval_bleu=True), learning_rate=0.5
    )
    history = [
        json.loads(line)
        for line in (tmp_path / "run" / "evaluations.json").read_text().splitlines()
    ]
    assert [entry["step"] for entry in history] == [4, 8]
    printed = capsys.readouterr()
    for entry in history:
        lines = entry.pop("score")
        assert any(line.startswith("BLEU|nrefs:1|case:mixed|") for line in lines)
        assert "\n".join(lines) in printed.out + printed.err
    assert set(history[0]) == {"step", "loss", "perplexity", "accuracy", "bleu"}
    assert history[0]["perplexity"] == pytest.approx(np.exp(history[0]["loss"]))
    assert {"step": 8, **result.evaluation} == history[1]
    best = min(history, key=lambda entry: entry["loss"])["step"]
    kept = tf.train.latest_checkpoint(str(tmp_path / "run" / "best"))
    assert kept.endswith(f"-{best}")
    if best == 8:
        np.testing.assert_array_equal(weights_in(kept), weights_in(result.checkpoint))


def test_evaluate_only(run, capsys):
    trained = run(train_steps=2)
    capsys.readouterr()
    evaluated = run(options=TrainOptions(schedule="evaluate"), train_steps=2)
    assert re.search(r"^Of .* s: start .*, evaluation (?!0\.0%)", capsys.readouterr().out, re.M)
    assert evaluated.evaluation == pytest.approx(trained.evaluation)
    with pytest.raises(UserError, match="no checkpoint"):
        run("nothing there", options=TrainOptions(schedule="evaluate"))


def test_early_stopping(run, capsys):
    options = TrainOptions(local_eval_frequency=1, eval_early_stopping_steps=2)
    # Without a learning rate the dev loss never falls below that of the first evaluation.
    result = run(options=options, learning_rate=0.0, train_steps=8)
    assert result.step == 3
    assert "has not fallen since step 1" in capsys.readouterr().out


def test_a_contradicting_restart_names_each_difference(run, tmp_path):
    run(train_steps=1)
    with pytest.raises(UserError) as refused:
        run(train_steps=1, dropout=0.2, d_ff=64)
    text = str(refused.value)
    assert "dropout: 0.1 in the run, 0.2 asked for" in text
    assert "d_ff: 32 in the run, 64 asked for" in text
    assert "d_model" not in text
    assert "train_steps" not in text
    assert f"--warm_start_from={tmp_path / 'run'}" in text


def test_number_of_replicas_and_microbatch_may_change(compiled_run):
    compiled_run(train_steps=1, dropout=0.0)
    assert compiled_run(train_steps=2, dropout=0.0, replicas=2, microbatch_tokens=100).step == 2


def test_how_much_is_kept_may_change_as_well(make_record):
    assert make_record().differences(make_record(recompute=True)) == []


def test_warm_start(run, weights_in, capsys):
    first = run("first", train_steps=2)
    options = TrainOptions(warm_start_from=first.checkpoint, schedule="train")
    second = run("second", options=options, train_steps=1, learning_rate=0.0, dropout=0.2)
    np.testing.assert_array_equal(weights_in(second.checkpoint), weights_in(first.checkpoint))
    assert "Starting from the weights of" in capsys.readouterr().out


def test_warm_start_with_another_vocabulary_is_refused(run, make_record, tmp_path):
    run("first", train_steps=1)
    text = Tokenizer.train(["some words", "some other words"] * 9, 280)
    dataclasses.replace(make_record(), tokenizer=text).save(tmp_path / "first")
    with pytest.raises(UserError, match=r"another vocabulary.*vocab_file=.*first/vocab\.model"):
        run("second", options=TrainOptions(warm_start_from=str(tmp_path / "first")))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_save_and_leave(run, monkeypatch, capsys, number):
    original = run_loop.RunLoop._finish

    def finish_and_signal(self, pending):
        original(self, pending)
        if self._done == 3 and not sent:
            sent.append(True)
            os.kill(os.getpid(), number)

    sent = []
    monkeypatch.setattr(run_loop.RunLoop, "_finish", finish_and_signal)
    before = signal.getsignal(number)
    result = run()
    assert result.signal == number
    assert 3 <= result.step < 8
    assert result.checkpoint.endswith(f"-{result.step}")
    out = capsys.readouterr().out
    assert f"Stopped by {number.name} after step {result.step}" in out
    assert re.search(r"^Of .* s: start .*%, input .*%, step .*%, evaluation 0\.0%, ch", out, re.M)
    assert signal.getsignal(number) == before
    assert run().step == 8


def test_a_nan_loss_stops_with_the_step_and_keeps_the_last_good_checkpoint(
    run, monkeypatch, tmp_path, weights_in
):
    good = run(train_steps=2)
    weights = weights_in(good.checkpoint)
    original = TensorFlowStep.update

    def break_at_step_5(self, number, parts, measure_gradient=False):
        if number == 4:
            bias = self.model.trainable_variables[-1]
            bias.assign(tf.fill(bias.shape, np.nan))
        return original(self, number, parts, measure_gradient)

    monkeypatch.setattr(TensorFlowStep, "update", break_at_step_5)
    with pytest.raises(UserError, match=r"The loss is nan at step 5\..*model.ckpt-2"):
        run(options=TrainOptions(schedule="train", save_checkpoints_secs=1e9))
    newest = tf.train.latest_checkpoint(str(tmp_path / "run"))
    assert newest == good.checkpoint
    np.testing.assert_array_equal(weights_in(newest), weights)


def test_nan_weights_are_never_saved(run, monkeypatch, tmp_path):
    run(train_steps=2)
    original = TensorFlowStep.update

    def break_after_step_4(self, number, parts, measure_gradient=False):
        sums = original(self, number, parts, measure_gradient)
        if number == 3:
            bias = self.model.trainable_variables[-1]
            bias.assign(tf.fill(bias.shape, np.nan))
        return sums

    monkeypatch.setattr(TensorFlowStep, "update", break_after_step_4)
    with pytest.raises(UserError, match="A weight is NaN or infinite after step 4"):
        run(options=TrainOptions(schedule="train"), train_steps=4)
    assert tf.train.latest_checkpoint(str(tmp_path / "run")).endswith("-2")


def test_over_long_pairs_are_counted(run, capsys, generated):
    run(train_steps=1, max_length=8)
    out = capsys.readouterr().out
    longest = generated.store("train").lengths.max(axis=1)
    assert f"{(longest > 8).sum()} training pairs are left out" in out
    longest = generated.store("dev").lengths.max(axis=1)
    assert f"{(longest > 8).sum()} dev pairs are left out" in out


def test_a_checkpoint_holds_the_step_that_it_is_named_after(compiled_run, monkeypatch):
    # A second passes with each look at the clock, so that a save falls due at any of them.
    clock = itertools.count()
    monkeypatch.setattr(run_loop.time, "monotonic", lambda: float(next(clock)))
    saved = []
    original = checkpoints.Checkpoints.save

    def save(self, step):
        path = original(self, step)
        saved.append((step, int(tf.train.load_variable(path, ITERATIONS))))
        return path

    monkeypatch.setattr(checkpoints.Checkpoints, "save", save)
    compiled_run(options=TrainOptions(schedule="train", save_checkpoints_secs=5), train_steps=30)
    assert len(saved) > 3
    assert all(named == held for named, held in saved)


def test_evaluations_do_not_bring_checkpoints_nearer(run, tmp_path, monkeypatch):
    # A second passes with each look at the clock, and a minute with each evaluation.
    clock = [0.0]

    def monotonic():
        clock[0] += 1
        return clock[0]

    def evaluate(self, step):
        clock[0] += 60
        return {"loss": 1.0, "perplexity": 1.0, "accuracy": 0.0}

    monkeypatch.setattr(run_loop.time, "monotonic", monotonic)
    monkeypatch.setattr(Evaluator, "evaluate", evaluate)
    monkeypatch.setattr(Evaluator, "best_step", lambda self: 1)
    monkeypatch.setattr(Evaluator, "told", lambda self, *arguments: "")
    run(options=TrainOptions(save_checkpoints_secs=40, local_eval_frequency=2), train_steps=30)
    seconds = [cost.seconds for _, cost in sorted(read_costs(tmp_path / "run").items())]
    between = np.diff(seconds[:-1])
    assert len(between) > 2
    assert between.min() >= 40, "the last one alone was not saved because it was due"


def test_tensorboard_files_hold_the_curves(compiled_run, tmp_path, monkeypatch):
    monkeypatch.setattr(run_loop, "_LOG_STEPS", 2)
    compiled_run()
    found = {}
    for kind in ("train", "eval"):
        (file,) = (tmp_path / "run" / kind).glob("events*")
        for record in tf.data.TFRecordDataset(str(file)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                found.setdefault((kind, value.tag), []).append(
                    (event.step, float(tf.make_ndarray(value.tensor)))
                )
    names = "loss perplexity accuracy learning_rate gradient_norm tokens_per_second".split()
    assert {tag for kind, tag in found if kind == "train"} == set(names)
    assert {tag for kind, tag in found if kind == "eval"} == {"loss", "perplexity", "accuracy"}
    assert [step for step, _ in found["train", "loss"]] == [2, 4, 6, 8]
    assert all(value > 0 for _, value in found["train", "gradient_norm"])
    assert found["train", "learning_rate"][0][1] == pytest.approx(16**-0.5 * 2 * 10**-1.5)


@pytest.mark.usefixtures("eagerly")
def test_the_start_holds_what_is_done_before_the_loop(
    make_record, make_strategy, generated, tmp_path, capsys, monkeypatch
):
    late, monotonic = [0.0], time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + late[0])

    def make_step(record, **options):
        late[0] += 1e6
        return TensorFlowStep(record.make_model, record.hparams, make_strategy(), 1)

    options = TrainOptions(schedule="train")
    train(make_record(train_steps=1), generated, tmp_path, make_step, options)
    assert re.search(r"^Of 1,000,\d+\.\d s: start (100\.0|99\.9)%", capsys.readouterr().out, re.M)


def test_a_trace_of_some_steps(run, tmp_path, capsys):
    run("traced", TrainOptions(schedule="train", profile_steps="2,3"), train_steps=4)
    (line,) = re.findall("Steps 2 to 3 are traced in (.*)[.]", capsys.readouterr().out)
    assert line == str(tmp_path / "traced" / "train" / "plugins" / "profile")
    with pytest.raises(UserError, match="--profile_steps=3: give the first and the last step"):
        run(options=TrainOptions(profile_steps="3"))


def test_unknown_schedule(run):
    with pytest.raises(UserError, match="train_and_evaluate"):
        run(options=TrainOptions(schedule="sometimes"))


def test_checkpoints_and_averages_hold_every_weight(run, weights_in, tmp_path, monkeypatch):
    steps = []
    make = TensorFlowStep.__init__

    def remember(self, *args, **kwargs):
        make(self, *args, **kwargs)
        steps.append(self)

    monkeypatch.setattr(TensorFlowStep, "__init__", remember)
    checkpoint = run(train_steps=2).checkpoint
    trained = [np.ravel(weight.numpy()) for weight in steps[0].model.trainable_variables]
    trained = np.concatenate(trained)
    best = tf.train.latest_checkpoint(str(tmp_path / "run" / "best"))
    mean = average_run(tmp_path / "run", tmp_path / "mean", n=1)
    for path in (checkpoint, best, mean):
        np.testing.assert_array_equal(weights_in(path), trained)


def test_each_checkpoint_has_its_cost_over_a_restart(run, tmp_path, monkeypatch):
    tokens = []
    original = run_loop.RunLoop._finish

    def remember(self, pending):
        original(self, pending)
        if pending is not None:
            tokens.append(float(pending[1]["tokens"]))

    monkeypatch.setattr(run_loop.RunLoop, "_finish", remember)
    run(options=TrainOptions(schedule="train"), train_steps=3)
    run(train_steps=5)
    costs = read_costs(tmp_path / "run")
    assert len(tokens) == 5
    assert {step: cost.target_tokens for step, cost in costs.items()} == {
        3: sum(tokens[:3]),
        5: sum(tokens),
    }
    assert 0 < costs[3].seconds < costs[5].seconds
    assert costs[5].hardware == hardware_name()
    (best,) = read_costs(tmp_path / "run" / "best").items()
    assert best[0] == 5
    assert best[1].target_tokens == sum(tokens)
