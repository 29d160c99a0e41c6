"""A step that runs out of memory changes nothing, and is done again with half as much at once."""

import json
import time

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.data.batches import token_arrays
from t2t_keras.errors import UserError
from t2t_keras.training.out_of_memory import OutOfMemoryError
from t2t_keras.training.split_evaluation import SplitEvaluator
from t2t_keras.training.tensorflow_step import TensorFlowStep
from t2t_keras.training.train_options import TrainOptions
from t2t_keras.training.trainer import train

TRAIN_ONLY = TrainOptions(schedule="train")
EVERY_STEP = TrainOptions(local_eval_frequency=1)


@pytest.fixture
def make_step(make_record, make_strategy):
    """Returns a function that makes a step over so many replicas."""

    def make(replicas=1, **hparams):
        record = make_record(**hparams)
        return TensorFlowStep(record.make_model, record.hparams, make_strategy(replicas), seed=1)

    return make


@pytest.fixture
def part(generated):
    return token_arrays(generated.store("train"), np.arange(20))


def everything_of(step):
    """Weights, moments and the number of steps, as one array."""
    values = [*step.model.trainable_variables, *step.optimizer.variables]
    return np.concatenate([np.ravel(value.numpy()).astype(np.float64) for value in values])


def no_memory(*_):
    # Late, so that whatever does not wait for this gradient is done before.
    time.sleep(0.2)
    raise MemoryError


def test_what_has_no_memory_for_one_gradient_changes_nothing(make_step, part, monkeypatch):
    original = TensorFlowStep._replica_gradients

    def one_is_missing(self, *inputs):
        gradients, sums = original(self, *inputs)
        # TensorFlow tells of a function's MemoryError as of its own missing memory.
        missing = tf.numpy_function(no_memory, [], tf.float32)
        return [gradients[0] + missing, *gradients[1:]], sums

    monkeypatch.setattr(TensorFlowStep, "_replica_gradients", one_is_missing)
    step = make_step()
    expected = everything_of(step)
    for parts in ([[part]], [[part], [part]]):
        with pytest.raises(OutOfMemoryError):
            step.update(0, parts)
        np.testing.assert_array_equal(everything_of(step), expected)
    assert not step.fits([part])
    np.testing.assert_array_equal(everything_of(step), expected)


def test_sums_of_gradients_that_do_not_fit_are_no_question_of_size(make_step, part, monkeypatch):
    step = make_step()

    def no_room(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "no room")

    monkeypatch.setattr(tf, "Variable", no_room)
    with pytest.raises(OutOfMemoryError, match="no room"):
        step.fits([part])


def test_what_fits_changes_nothing_on_any_replica(make_step, part):
    step = make_step(2)
    expected = everything_of(step)
    assert step.fits([part, part])
    np.testing.assert_array_equal(everything_of(step), expected)
    assert not any(np.any(each.values[1].numpy()) for each in step._accumulators)


def runs_out(monkeypatch, calls, of="_accumulate"):
    """Makes these calls, counted from 0, of the accumulation or of the evaluation fail."""
    made = TensorFlowStep.__init__
    called = []

    def make(self, *args, **kwargs):
        made(self, *args, **kwargs)
        function = getattr(self, of)

        def or_fail(*inputs):
            called.append(None)
            if len(called) - 1 in calls:
                raise tf.errors.ResourceExhaustedError(None, None, "injected")
            return function(*inputs)

        setattr(self, of, or_fail)

    monkeypatch.setattr(TensorFlowStep, "__init__", make)


@pytest.fixture
def run(make_record, make_strategy, generated, tmp_path):
    """Returns a function that trains two steps in a directory of the test's own."""

    def run(name, microbatch_tokens, options=TRAIN_ONLY, **hparams):
        def make_step(record, **options):
            return TensorFlowStep(
                record.make_model, record.hparams, make_strategy(), record.random_seed
            )

        hparams = dict(batch_tokens=600, train_steps=2, dropout=0.3) | hparams
        record = make_record(microbatch_tokens=microbatch_tokens, **hparams)
        return train(record, generated, tmp_path / name, make_step, options).checkpoint

    return run


def test_a_run_that_halves_ends_as_one_that_began_so(run, monkeypatch, capsys, everything_in):
    expected = everything_in(run("small", 100))
    # At the second part of the first step: the accumulators hold the first by then.
    runs_out(monkeypatch, calls=[1])
    halved = run("halved", 200)
    out = capsys.readouterr().out
    assert "Out of memory at step 1 with microbatch_tokens=200; it goes on with 100" in out
    np.testing.assert_array_equal(everything_in(halved), expected)


def test_where_one_sentence_does_not_fit_the_run_ends(run, monkeypatch):
    runs_out(monkeypatch, calls=range(99))
    with pytest.raises(UserError, match=r"Out of memory.*max_length=32 tokens, one at a time"):
        run("too large", 100)


def dev_losses(run_directory):
    lines = (run_directory / "evaluations.json").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


def test_an_evaluation_that_runs_out_goes_on_with_half_as_much(run, monkeypatch, tmp_path, capsys):
    run("fits", 200, EVERY_STEP)
    assert "Out of memory" not in capsys.readouterr().out
    # In the first evaluation at its second part, then at the first of those half as large.
    runs_out(monkeypatch, [1, 2], of="_evaluate")
    run("runs out", 200, EVERY_STEP)
    out = capsys.readouterr().out
    for before, after in ((200, 100), (100, 50)):
        assert (
            f"Out of memory in an evaluation of {before} tokens at once; it goes on with {after}"
            in out
        )
    assert out.count("Out of memory") == 2, "what did not fit is not tried again"
    assert dev_losses(tmp_path / "runs out") == pytest.approx(
        dev_losses(tmp_path / "fits"), rel=1e-5
    )


def test_a_run_that_halves_is_evaluated(run, monkeypatch, tmp_path, capsys):
    """A step runs out of memory first, then the evaluation of as much."""
    runs_out(monkeypatch, [1])
    runs_out(monkeypatch, [0], of="_evaluate")
    run("both", 200, EVERY_STEP)
    out = capsys.readouterr().out
    assert "Out of memory at step 1" in out
    assert "Out of memory in an evaluation of 200 tokens" in out
    assert len(dev_losses(tmp_path / "both")) == 2


def test_where_one_sentence_cannot_be_evaluated_the_run_ends(run, monkeypatch):
    runs_out(monkeypatch, range(99), of="_evaluate")
    with pytest.raises(UserError, match="Out of memory in an evaluation of 32 tokens at once"):
        run("too large", 100, EVERY_STEP)


def test_one_of_several_workers_does_not_halve(make_record, generated):
    class OneOfTwo:
        num_replicas, replicas_here, fixed_shapes = 2, range(1), False

        def evaluate(self, microbatch):
            raise OutOfMemoryError

    evaluator = SplitEvaluator(OneOfTwo(), make_record(microbatch_tokens=100), generated)
    with pytest.raises(UserError, match="Start all workers with a smaller microbatch_tokens"):
        evaluator.measure()
    # A number smaller than max_length would be refused.
    evaluator = SplitEvaluator(OneOfTwo(), make_record(microbatch_tokens=32), generated)
    with pytest.raises(UserError, match=r"evaluation of 32 tokens at once\. Lower max_length"):
        evaluator.measure()
