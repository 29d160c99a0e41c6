"""A step that runs out of memory changes nothing, and is done again with half as much at once."""

import functools
import itertools
import json
import re
import time
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused
from training_runs import numbers_in

from t2t_keras.data.batches import make_batch
from t2t_keras.errors import OutOfMemoryError
from t2t_keras.models.transformer import Transformer
from t2t_keras.training import microbatch
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.evaluation import SplitLoss
from t2t_keras.training.run_config import RunConfig, TrainOptions
from t2t_keras.training.trainer import train

TRAIN_ONLY = TrainOptions(schedule="train")
EVERY_STEP = TrainOptions(local_eval_frequency=1, eval_secs=0)


@pytest.fixture(scope="module")
def uses():
    return {}


@pytest.fixture(autouse=True)
def missing(uses):
    """By "gradient" and "loss", whether memory is missing at the next uses; after these, never."""
    uses.update(gradient=iter(()), loss=iter(()))
    return uses


@pytest.fixture(scope="module")
def step_of(uses, make_strategy):
    """step_of(record, replicas): a step whose memory may be missing."""

    def use(kind):
        if next(uses[kind], False):
            # Late, so that what does not wait for this is done before. TensorFlow reports a
            # function's MemoryError as its own missing memory.
            time.sleep(0.1)
            raise MemoryError
        return np.float32(0)

    def taken(kind):
        return tf.reshape(tf.numpy_function(lambda: use(kind), [], tf.float32), [])

    @tf.custom_gradient
    def with_gradient(x):
        return tf.identity(x), lambda upstream: upstream + taken("gradient")

    class Model(Transformer):
        """Its encoder's gradients come after those of its decoder."""

        def encode(self, *args, **options):
            states, mask = super().encode(*args, **options)
            return with_gradient(states), mask

        def call(self, inputs, packed=False, training=None):
            logits = super().call(inputs, packed=packed, training=training)
            return logits if training else logits + taken("loss")

    def step_of(record, replicas=1):
        size = record.tokenizer.vocab_size
        make_model = functools.partial(Model.from_hparams, record.hparams, size)
        return TensorFlowStep(make_model, record.hparams, make_strategy(replicas), 1)

    return step_of


@pytest.fixture
def part(generated):
    return make_batch(generated.store("train"), np.arange(20))


def everything_of(step):
    """Weights, moments and the number of steps, as one array."""
    values = [*step.model.trainable_variables, *step.optimizer.variables]
    return np.concatenate([np.ravel(value.numpy()).astype(np.float64) for value in values])


def test_without_memory_for_one_gradient_nothing_changes(step_of, make_record, part, missing):
    step = step_of(make_record())
    missing["gradient"] = itertools.repeat(True)
    expected = everything_of(step)
    for parts in ([[part]], [[part], [part]]):
        with pytest.raises(OutOfMemoryError):
            step.update(0, parts)
        np.testing.assert_array_equal(everything_of(step), expected)


def test_sums_of_gradients_that_do_not_fit(step_of, make_record, part, monkeypatch):
    step, no_room = step_of(make_record()), tf.errors.ResourceExhaustedError(None, None, "no room")
    monkeypatch.setattr(tf, "Variable", mock.Mock(side_effect=no_room))
    with pytest.raises(OutOfMemoryError, match="no room"):
        step.update(0, [[part], [part]])


@pytest.fixture(scope="module")
def first(make_record, step_of, tmp_path_factory):
    """A step that is compiled once for all runs, and a checkpoint of its first weights."""
    step = step_of(make_record(dropout=0.3))
    checkpoints = Checkpoints(tmp_path_factory.mktemp("first"), step.state(), 1)
    return step, checkpoints, checkpoints.save(0)


@pytest.fixture
def run(make_record, first, generated, tmp_path):
    """run(name, microbatch_tokens, options): the checkpoint of two steps in a directory."""
    step, checkpoints, path = first

    def run(name, microbatch_tokens, options=TRAIN_ONLY):
        size = dict(batch_tokens=600, train_steps=2, microbatch_tokens=microbatch_tokens)
        checkpoints.restore(path)
        record = make_record(dropout=0.3, **size)
        return train(record, generated, tmp_path / name, step, options).checkpoint

    return run


def test_a_run_that_halves_ends_as_one_that_began_so(run, missing, capsys):
    expected = numbers_in(run("small", 100))
    # At the second part of the first step: the accumulators hold the first by then.
    missing["gradient"] = iter([False, True])
    halved = run("halved", 200)
    assert "microbatch_tokens=200" in capsys.readouterr().out
    np.testing.assert_array_equal(numbers_in(halved), expected)


def test_an_evaluation_that_runs_out_continues_with_half_as_much(run, missing, tmp_path, capsys):
    run("fits", 200, EVERY_STEP)
    assert " 200 " not in capsys.readouterr().out
    # In the first evaluation at its second part, then at the first of those half as large.
    missing["loss"] = iter([False, True, True])
    run("runs out", 200, EVERY_STEP)
    tried = re.findall(r" (\d+) tokens at once\D* (\d+)\.$", capsys.readouterr().out, re.MULTILINE)
    assert tried == [("200", "100"), ("100", "50")], "what did not fit is not tried again"
    ours, theirs = (
        [json.loads(line)["loss"] for line in file.read_text().splitlines()]
        for file in sorted(tmp_path.glob("*/evaluations.json"))
    )
    assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize(("kind", "options"), [("gradient", TRAIN_ONLY), ("loss", EVERY_STEP)])
def test_where_one_sentence_does_not_fit_the_run_ends(run, missing, kind, options):
    missing[kind] = itertools.repeat(True)
    with refused("out_of_memory", 32, "max_length"):
        run("too large", 100, options)


@pytest.mark.parametrize(
    ("tokens", "length", "most", "setting"),
    [
        *((100, 32, "100", "microbatch_tokens"), (32, 32, "32", "max_length")),
        *((0, 32, "4,096", "microbatch_tokens"), (0, 5000, "5,000", "max_length")),
    ],
)
def test_one_of_several_workers_does_not_halve(
    make_record, generated, tokens, length, most, setting
):
    step = mock.Mock(num_replicas=2, local_replicas=range(1), fixed_shapes=False)
    step.evaluate.side_effect = OutOfMemoryError
    # A number smaller than max_length would be refused.
    sizes = dict(microbatch_tokens=tokens, max_length=length, batch_tokens=5000)
    evaluator = SplitLoss(step, make_record(**sizes), generated, "dev")
    with refused("out_of_memory", f" {most} ", setting):
        evaluator.measure()


@pytest.mark.usefixtures("eagerly")
def test_a_run_with_auto_is_measured_in_less_memory(
    make_record, step_of, generated, tmp_path, monkeypatch
):
    auto, file = make_record(microbatch_tokens=0, train_steps=1), tmp_path / "microbatch.json"
    expected = train(auto, generated, tmp_path, step_of(auto)).evaluation
    assert RunConfig.load(tmp_path).hparams.microbatch_tokens == 0, "as it was requested"
    monkeypatch.setattr(microbatch, "free_memory", lambda: 1000)
    for content in (file.read_bytes(), None):
        found = train(auto, generated, tmp_path, step_of(auto), TrainOptions(schedule="evaluate"))
        assert found.evaluation == pytest.approx(expected, rel=1e-5)
        assert (file.read_bytes() if file.exists() else None) == content, "it is not changed"
        file.unlink(missing_ok=True)
