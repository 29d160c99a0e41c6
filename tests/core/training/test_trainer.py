"""The loop: resuming, evaluating, stopping, and what it refuses."""

import dataclasses
import itertools
import json
import os
import random
import re
import shutil
import signal
import time
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused
from step_checks import weights_of
from training_runs import numbers_in, weights_in

from t2t_keras.data.batches import TokenBatchSampler
from t2t_keras.text.tokenizer import SentencePieceTokenizer
from t2t_keras.training.averaging import average_run
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoint_files import checkpoint_paths, newest_checkpoint, path_at, read
from t2t_keras.training.cost import hardware_name, read_costs
from t2t_keras.training.evaluation import Evaluator, read_evaluations, selection_metric
from t2t_keras.training.run_config import TrainOptions, train_options
from t2t_keras.training.trainer import train

TRAIN = TrainOptions(schedule="train")


@pytest.fixture
def run(make_record, compiled_step, generated, tmp_path):
    """run(name, options, after, score, **hparams): trains in a directory of the test's.

    `after(step, number, sums)` is called after each update.
    """

    def run(
        name="run", options=TRAIN, replicas=1, score=None, after=None, data=generated, **hparams
    ):
        config = make_record(**hparams)
        step = compiled_step(config, replicas, options.xla)

        def update(number, *arguments):
            sums = TensorFlowStep.update(step, number, *arguments)
            if after:
                after(step, number, sums)
            return sums

        step.update = update
        return train(config, data, tmp_path / name, step, options, score=score)

    return run


@pytest.mark.parametrize(
    ("replicas", "xla", "changes"),
    [
        (1, False, {"recompute": True}),
        (1, True, {"max_length": 8}),
        (2, False, {"ema_decay": 0.9}),
    ],
)
def test_resumed_is_never_stopped(run, tmp_path, replicas, xla, changes):
    options = TrainOptions(schedule="train", xla=xla)
    settings = dict(options=options, replicas=replicas, dropout=0.3, **changes)
    whole = run("whole", **settings)
    assert run("parts", train_steps=3, **settings).step == 3
    parts = run("parts", **settings)
    assert parts.step == whole.step == 8
    assert parts.checkpoint == newest_checkpoint(tmp_path / "parts")
    np.testing.assert_array_equal(numbers_in(parts.checkpoint), numbers_in(whole.checkpoint))
    costs, expected = (read_costs(tmp_path / name) for name in ("parts", "whole"))
    assert 0 < costs[3].target_tokens < costs[8].target_tokens == expected[8].target_tokens
    assert 0 < costs[3].seconds < costs[8].seconds
    assert costs[8].hardware == hardware_name()


@pytest.mark.usefixtures("eagerly")
def test_evaluation_and_the_best_weights(run, tmp_path, capsys):
    class Score:
        main = "bleu", 12.5
        __str__ = lambda self: "BLEU|signature = 12.5\nchrF2 = 30"  # noqa: E731

    def count(step, number, sums):
        tokens.append(float(sums["tokens"]))

    tokens, options = [], TrainOptions(local_eval_frequency=4, save_checkpoints_secs=0, eval_secs=0)
    sample = [("ein\x1b", "one", "eins")]
    result = run(options=options, score=lambda: (Score(), sample), learning_rate=0.5, after=count)
    lines = (tmp_path / "run" / "evaluations.json").read_text().splitlines()
    history = [json.loads(line) for line in lines]
    assert [entry["step"] for entry in history] == [4, 8]
    printed = capsys.readouterr().out
    for entry in history:
        assert entry.pop("score") == str(Score()).splitlines()
        assert entry.pop("sample") == [["ein\x1b", "one", "eins"]]
        assert f" step {entry['step']}: loss {entry['loss']:.4g}" in printed
    assert f"{Score()}\n  source       ein\\x1b\n  translation  one\n" in printed
    assert history[0]["perplexity"] == pytest.approx(np.exp(history[0]["loss"]))
    assert {"step": 8, **result.evaluation, "train_loss": result.history["loss"][1]} == history[1]
    assert set(result.evaluation) == {"loss", "perplexity", "accuracy", "bleu"}
    best = min(history, key=lambda entry: entry["loss"])["step"]
    actual, expected = (
        weights_in(tmp_path / "run" / at / f"model.ckpt-{best}") for at in ("best", "")
    )
    np.testing.assert_array_equal(actual, expected)
    (cost,) = read_costs(tmp_path / "run" / "best").values()
    assert cost.target_tokens == sum(tokens[:best])


@pytest.mark.usefixtures("eagerly")
def test_what_is_measured_and_best_is_the_moving_average(run, tmp_path):
    def keep(step, number, sums):
        weights.append(weights_of(step))

    weights, options = (
        [],
        TrainOptions(local_eval_frequency=1, save_checkpoints_secs=0, eval_secs=0),
    )
    settings = dict(train_steps=3, learning_rate=0.5)
    result = run(options=options, after=keep, ema_decay=0.5, **settings)
    expected = 0.25 * weights[0] + 0.25 * weights[1] + 0.5 * weights[2]
    mean = average_run(tmp_path / "run", tmp_path / "mean", ema=True)
    for path in (mean, tmp_path / "run" / "best" / "model.ckpt-3"):
        np.testing.assert_allclose(weights_in(path), expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(weights_in(result.checkpoint), weights[2])
    warm = dataclasses.replace(options, warm_start_from=mean)
    assert run("warm", warm, train_steps=0).evaluation == pytest.approx(result.evaluation)
    for averaged in ("mean", "run/best"):
        with refused("weights_only", f"{averaged}/model.ckpt-3", "--model_dir"):
            average_run(tmp_path / averaged, tmp_path / "none", ema=True)
    with refused("no_moving_average", tmp_path / "warm", "ema_decay=0"):
        average_run(tmp_path / "warm", tmp_path / "none", ema=True)


@pytest.mark.usefixtures("eagerly")
def test_the_best_weights_and_the_end_by_a_score(run, tmp_path, capsys):
    def score():
        return types.SimpleNamespace(main=("bleu", 1.0), chrf=next(values)), []

    values = iter([30.0, 50.0, 50.0, 45.0, 60.0])
    options = TrainOptions(
        local_eval_frequency=1,
        eval_secs=0,
        eval_bleu=True,
        best_by="chrf",
        eval_early_stopping_steps=2,
    )
    result = run(options=options, score=score)
    assert (result.step, result.evaluation["chrf"]) == (4, 45.0)
    out = capsys.readouterr().out
    assert re.search(r" chrf \D+ step 2\b.*eval_early_stopping_steps=2", out)
    assert (tmp_path / "run" / "best" / "model.ckpt-2.safetensors").exists()
    with refused("bad_value", "--best_by=ter", "loss", "bleu"):
        run("other", dataclasses.replace(options, best_by="ter"), score=score)
    with refused("conflicting_settings", "--best_by=bleu", "--eval_bleu"):
        TrainOptions(best_by="bleu")


@pytest.mark.usefixtures("eagerly")
def test_best_by_another_measure_than_before(run, tmp_path):
    def score():
        value = next(values)
        return types.SimpleNamespace(main=("bleu", value), bleu=value, chrf=value), []

    def best():
        (step,) = read_costs(tmp_path / "run" / "best")
        assert (tmp_path / "run" / "best" / f"model.ckpt-{step}.safetensors").exists()
        return step

    values = iter([40.0, 50.0, 45.0, 44.0, 30.0])
    # Without a learning rate the first loss stays the best.
    settings = dict(score=score, learning_rate=0.0)
    options = TrainOptions(local_eval_frequency=1, eval_secs=0, eval_bleu=True)
    run(options=options, train_steps=2, **settings)
    assert best() == 1
    options = dataclasses.replace(options, best_by="bleu", eval_early_stopping_steps=2)
    assert run(options=options, **settings).step == 4
    assert best() == 3, "better than step 1, whose weights were kept"
    options = dataclasses.replace(options, best_by="chrf")
    assert run(options=options, train_steps=5, **settings).step == 5
    assert best() == 5, "of the steps before, nothing is known"


@pytest.mark.usefixtures("eagerly")
def test_evaluate_only(run):
    trained = run(options=TrainOptions(), train_steps=2)
    evaluated = run(options=TrainOptions(schedule="evaluate"), train_steps=2)
    assert evaluated.evaluation == pytest.approx(trained.evaluation)
    with refused("no_checkpoint", "nothing there"):
        run("nothing there", options=TrainOptions(schedule="evaluate"))


@pytest.mark.usefixtures("eagerly")
def test_early_stopping(run, capsys):
    options = TrainOptions(local_eval_frequency=1, eval_early_stopping_steps=2)
    # Without a learning rate the dev loss never falls below that of the first evaluation.
    for _ in range(2):  # The same command again trains no further.
        assert run(options=options, learning_rate=0.0).step == 3
        out = capsys.readouterr().out
        assert re.search(r" loss \D+ step 1\b.*eval_early_stopping_steps=2", out)
    for steps in (1, 3):
        assert run(train_steps=steps).step == 3
        assert re.search(rf" 3 steps\D+--train_steps={steps}\b", capsys.readouterr().out)


@pytest.mark.usefixtures("eagerly")
def test_patience_counts_to_the_newest_evaluation_in_a_resumed_run_too(run):
    def stop(step, number, sums):
        if number == 4:
            os.kill(os.getpid(), signal.SIGTERM)

    patient = TrainOptions(local_eval_frequency=2, eval_early_stopping_steps=3, eval_secs=0)
    settings = dict(options=patient, learning_rate=0.0)
    assert run(after=stop, **settings).step == 5, "of three steps of patience two are over"
    assert run(**settings).step == 6


def test_an_evaluation_that_a_stop_has_prevented_is_made_up_for(run, tmp_path):
    def stop(step, number, sums):
        # Where an evaluation is due, and between two.
        if number in (1, 2):
            os.kill(os.getpid(), signal.SIGTERM)

    options = TrainOptions(local_eval_frequency=2, eval_secs=0)
    run("whole", options=options, train_steps=6)
    for step in (2, 3, 6):
        assert run("parts", options=options, train_steps=6, after=stop).step == step
    whole, parts = (tmp_path / name / "evaluations.json" for name in ("whole", "parts"))
    names = ("step", "loss", "accuracy", "train_loss")
    steps = [
        [{name: json.loads(line)[name] for name in names} for line in path.read_text().splitlines()]
        for path in (whole, parts)
    ]
    assert [evaluation["step"] for evaluation in steps[0]] == [2, 4, 6]
    assert steps[0] == steps[1]


@pytest.mark.usefixtures("eagerly")
def test_what_is_evaluated_does_not_depend_on_the_microbatch(run):
    options = TrainOptions(eval_steps=1)
    evaluations = [
        run(str(tokens), options, train_steps=0, microbatch_tokens=tokens).evaluation
        for tokens in (64, 512)
    ]
    assert evaluations[0] == pytest.approx(evaluations[1], rel=1e-5)


def test_an_evaluation_that_is_not_finite_is_not_recorded(run, tmp_path):
    def damage(step, number, sums):
        step.model.trainable_variables[0].assign(step.model.trainable_variables[0] * np.nan)

    with refused("not_finite", "nan", "step 1", "none"):
        run(options=TrainOptions(local_eval_frequency=1), after=damage)
    assert not (tmp_path / "run" / "best").exists()
    (tmp_path / "run" / "evaluations.json").write_text('{"step": 1, "loss": 2}\n{"step"')
    with refused("damaged_file", "evaluations.json:2"):
        run(options=TrainOptions())


@pytest.mark.usefixtures("eagerly")
def test_number_of_replicas_and_microbatch_may_change(run):
    run(train_steps=1, recompute=True)
    assert run(train_steps=2, replicas=2, microbatch_tokens=100).step == 2


@pytest.mark.usefixtures("eagerly")
def test_warm_start(run, tmp_path):
    first = run("first", train_steps=2)
    options = TrainOptions(warm_start_from=first.checkpoint, schedule="train")
    second = run("second", options=options, train_steps=1, learning_rate=0.0)
    np.testing.assert_array_equal(weights_in(second.checkpoint), weights_in(first.checkpoint))
    with refused("other_model", "num_heads=4", "--hparams=num_heads=2"):
        run("third", options=options, num_heads=4)
    # A training that makes the weights worse: `best/` has those that it started from.
    options = TrainOptions(warm_start_from=first.checkpoint, local_eval_frequency=1)
    run("worse", options=options, train_steps=1, learning_rate=50.0)
    start, end = read_evaluations(tmp_path / "worse")
    assert (start["step"], end["step"], start["loss"] < end["loss"]) == (0, 1, True)
    best = tmp_path / "worse" / "best" / "model.ckpt-0"
    np.testing.assert_array_equal(weights_in(best), weights_in(first.checkpoint))
    with refused("other_model", "source_end=False", "--hparams=source_end=True"):
        run("fourth", options=options, source_end=False)


def test_warm_start_with_another_vocabulary_is_refused(run, make_record, tmp_path):
    run("first", train_steps=1)
    text = SentencePieceTokenizer.train(["some words", "some other words"] * 9, 280)
    dataclasses.replace(make_record(), tokenizer=text).save(tmp_path / "first")
    options = TrainOptions(warm_start_from=str(tmp_path / "first"))
    vocabulary = tmp_path / "first" / "vocab.model"
    with refused("other_vocabulary", f"vocab_file={vocabulary}", "--adapt_vocabulary"):
        run("second", options=options)
    with refused("not_text", "--adapt_vocabulary", "algorithmic_reverse_"):
        run("second", options=dataclasses.replace(options, adapt_vocabulary=True))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_save_and_leave(run, capsys, number):
    def send(step, at, sums):
        if at == 3:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    result = run(after=send)
    assert result.signal == number
    assert 3 <= result.step < 8
    assert result.checkpoint.endswith(f"-{result.step}.safetensors")
    out = capsys.readouterr().out
    assert re.search(rf" {number.name} \D+ {result.step}\b.*{result.checkpoint}", out)
    assert re.search(r" s: start .*%, input .*%, step .*%, evaluation 0\.0%, ch", out, re.M)
    assert signal.getsignal(number) == before
    assert run().step == 8


@pytest.mark.parametrize(("number", "names"), [(3, ["nan", "step 5"]), (7, ["NaN", "step 8"])])
def test_what_is_not_finite_stops_the_run_and_is_never_saved(run, tmp_path, number, names):
    def break_a_weight(step, at, sums):
        if at == number:
            bias = step.model.trainable_variables[-1]
            bias.assign(tf.fill(bias.shape, np.nan))

    good = run(train_steps=2)
    with refused("not_finite", "model.ckpt-2", *names):
        run(after=break_a_weight)
    assert newest_checkpoint(tmp_path / "run") == good.checkpoint


@pytest.mark.usefixtures("eagerly")
# Another id, and one beyond the vocabulary.
@pytest.mark.parametrize("byte", [-4, -3])
def test_what_damaged_data_has_taught_is_not_saved(run, generated, tmp_path, byte):
    shutil.copytree(generated.directory, tmp_path / "data")
    (tokens,) = (tmp_path / "data").glob("train-*.tokens.npy")
    content = bytearray(tokens.read_bytes())
    content[byte] ^= 1
    tokens.write_bytes(content)
    data = dataclasses.replace(generated, directory=tmp_path / "data")
    with refused("data_damaged", tokens.name):
        run(data=data, train_steps=1)
    assert not list((tmp_path / "run").glob("model.ckpt-*"))


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("schedule", "steps", "advised"),
    [
        ("transformer", 1, ["--train_steps", "--hparams=warmup_steps=1"]),
        ("transformer", 2, []),
        ("inverse_square_root", 1, ["--train_steps", "--hparams=warmup_steps=1"]),
        ("cosine", 1, ["--hparams=warmup_steps=1"]),
    ],
)
def test_a_warm_up_beyond_the_last_step_is_said(run, capsys, schedule, steps, advised):
    run(train_steps=steps, warmup_steps=1, schedule=schedule, learning_rate=0.5)
    flags = re.findall(r"--train_steps|--hparams=warmup_steps=\d+", capsys.readouterr().out)
    assert flags == advised


def test_over_long_pairs_are_counted(run, capsys, generated, monkeypatch):
    monkeypatch.setattr(TokenBatchSampler, "fill_ratio", lambda _: (0.25, 0.5))
    run(options=TrainOptions(), train_steps=1, max_length=8)
    out = capsys.readouterr().out
    assert re.search(r" 25\.0% \(source\)\D+ 50\.0% \(target\)\D+ batch_tokens=300\b", out)
    for split, name in (("train", "training"), ("dev", "dev")):
        longest = generated.open_examples(split).lengths.max(axis=1)
        assert re.search(rf"^{(longest > 8).sum()} {name} ", out, re.MULTILINE)


def test_checkpoints_hold_their_steps_and_evaluations_bring_none_nearer(run, tmp_path, monkeypatch):
    # A second passes with each look at the clock, so that a save falls due at any of them.
    seconds, scores = itertools.count(), []
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)) + 60 * len(scores))

    def score():
        scores.append(types.SimpleNamespace(main=("bleu", 0.0)))
        return scores[-1], []

    options = TrainOptions(save_checkpoints_secs=40, local_eval_frequency=2, keep_checkpoint_max=99)
    run(options=options, score=score, train_steps=30)
    for step in (costs := read_costs(tmp_path / "run")):
        arrays, _ = read(path_at(tmp_path / "run", step))
        assert arrays["optimizer/iterations"] == step
    between = np.diff([costs[step].seconds for step in sorted(costs)][:-1])
    assert len(between) > 2
    assert 40 <= between.min() <= between.max() < 60, "the last alone was not saved as due"


def test_evaluations_by_time(run, tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def spend(seconds):
        now[0] += seconds

    def score():
        spend(1000)
        return types.SimpleNamespace(main=("bleu", 0.0)), []

    def evaluated(name, steps, seconds=70, **options):
        """The steps of all evaluations of a run where each step takes so long."""
        options = TrainOptions(local_eval_frequency=7, **options)
        run(name, options, score=score, after=lambda *_: spend(seconds), train_steps=steps)
        lines = (tmp_path / name / "evaluations.json").read_text().splitlines()
        return [json.loads(line)["step"] for line in lines]

    # The first one is due after a minute, others 200 seconds after the one before; a run also
    # evaluates where it ends.
    assert evaluated("both", 3, eval_secs=200) == [1, 3]
    assert evaluated("both", 12, eval_secs=200) == [1, 3, 6, 7, 10, 12]
    assert evaluated("often", 3, eval_secs=70) == [1, 2, 3]
    assert evaluated("oftener", 3, seconds=20, eval_secs=20) == [1, 2, 3]
    assert evaluated("by steps", 8, eval_secs=0) == [7, 8]


def test_a_system_clock_that_jumps_changes_nothing(run, tmp_path, monkeypatch):
    now, jumps = time.time, random.Random(1)
    monkeypatch.setattr(time, "time", lambda: now() + jumps.uniform(-1e6, 1e6))
    assert run(options=TrainOptions(local_eval_frequency=4, save_checkpoints_secs=3600)).step == 8
    assert checkpoint_paths(tmp_path / "run") == [path_at(tmp_path / "run", 8)]
    assert 0 < read_costs(tmp_path / "run")[8].seconds < 3600


def test_tensorboard_files_hold_the_curves(run, tmp_path):
    run(options=TrainOptions(), train_steps=100)
    actual = {"train": {}, "eval": {}}
    for kind, values in actual.items():
        (file,) = (tmp_path / "run" / kind).glob("events*")
        for record in tf.data.TFRecordDataset(str(file)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                assert event.step == 100
                values[value.tag] = float(tf.make_ndarray(value.tensor))
    assert set(actual["eval"]) == {"loss", "perplexity", "accuracy", "training_seconds"}
    more = {"learning_rate", "gradient_norm", "tokens_per_second"}
    assert set(actual["train"]) == set(actual["eval"]) | more
    assert actual["train"]["gradient_norm"] > 0
    assert actual["train"]["learning_rate"] == pytest.approx((16 * 100) ** -0.5)


def test_defaults_of_the_documents():
    # Section 6.1 of the paper, docs/distributed.md, and what t2t-trainer --help says.
    options = TrainOptions()
    assert (options.save_checkpoints_secs, options.keep_checkpoint_max) == (600, 20)
    assert (options.local_eval_frequency, options.eval_secs) == (1000, 600)
    assert (options.worker_start_secs, options.worker_timeout_secs) == (300, 60)


def test_options_say_which_steps_and_weights():
    assert TrainOptions(profile_steps=(3, 5)).profiled_steps() == range(3, 6)
    options = TrainOptions(warm_start_from="run", drop_layers=True)
    assert options.first_weights() == {
        "warm_start_from": str(Path("run").resolve()),
        "adapt_vocabulary": False,
        "drop_layers": True,
    }
    assert TrainOptions().first_weights() == {}


@pytest.mark.parametrize("steps", ["100", "05", "54", "03", "123", "ab", [1, -2], "1²", " "])
def test_options_without_such_a_value_are_refused(steps):
    with refused("bad_value", "profile_steps"):
        train_options({"profile_steps": list(steps)})
    with refused("bad_value", "'schedule'"):
        train_options({"schedule": str(steps)})


@pytest.mark.parametrize(
    ("accuracy", "is_last", "scored"),
    [(0.19, False, False), (0.2, False, True), (0.19, True, True)],
)
def test_a_score_is_computed_once_it_can_be_above_0(tmp_path, accuracy, is_last, scored):
    loss = types.SimpleNamespace(measure=lambda: {"loss": 7.0, "accuracy": accuracy}, left_out=0)
    score = types.SimpleNamespace(main=("bleu", 1.5))
    evaluator = Evaluator(loss, tmp_path, lambda: (score, []), writes_files=False, history=[])
    scalars, _ = evaluator.evaluate(80, is_last=is_last)
    assert scalars.get("bleu") == (1.5 if scored else None)
    assert ("score" in evaluator.history[-1]) == scored


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_no_evaluation(tmp_path, value):
    loss = types.SimpleNamespace(measure=lambda: {"loss": value, "accuracy": 0.5}, left_out=0)
    evaluator = Evaluator(loss, tmp_path, None, writes_files=True, history=[])
    with pytest.raises(FloatingPointError, match="step 4"):
        evaluator.evaluate(4)
    assert (evaluator.history, list(tmp_path.iterdir())) == ([], [])


def test_the_best_is_told_by_the_loss_or_a_number_of_the_score():
    score = types.SimpleNamespace(main=("bleu", 1.0), chrf=2.0, metrics={"mine": 3.0}, lines=4)
    for name, expected in (("loss", {}), ("chrf", {"chrf": 2.0}), ("mine", {"mine": 3.0})):
        assert selection_metric(score, name) == expected
    for name in ("main", "lines", "nothing"):
        with refused("bad_value", f"--best_by={name}", "bleu"):
            selection_metric(score, name)


def test_a_run_that_goes_back_evaluates_later_steps_again(tmp_path):
    loss = types.SimpleNamespace(measure=lambda: {"loss": 2.0, "accuracy": 0.5}, left_out=0)
    history = [{"step": step, "loss": 1.0, "train_loss": 3.0} for step in (2, 4, 6)]
    evaluator = Evaluator(loss, tmp_path, None, writes_files=False, history=history)
    evaluator.evaluate(4)
    assert evaluator.history == [history[0], history[1] | {"loss": 2.0, "accuracy": 0.5}]
    assert evaluator.best_step() == 2


def test_best_weights_without_a_record_stay_until_the_loss_is_the_lowest_of_all(tmp_path):
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "model.ckpt-3.safetensors").touch()
    loss = types.SimpleNamespace(measure=lambda: {"loss": 2.0, "accuracy": 0.5}, left_out=0)
    history = [{"step": 2, "loss": 1.0}]
    evaluator = Evaluator(loss, tmp_path, None, writes_files=True, history=history)
    assert evaluator.best_saved_step == 3
    evaluator.evaluate(4)
    assert evaluator.best_saved_step == 3
    assert read_evaluations(tmp_path) == [*history, {"step": 4, "loss": 2.0, "accuracy": 0.5}]
