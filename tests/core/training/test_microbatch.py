"""Microbatches: chosen, remembered, and halved when memory runs out."""

import functools
import itertools
import json
import re
import time
import types
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused
from training_runs import numbers_in

from t2t_keras.data.batches import TokenBatchSampler, make_batch, replica_batches
from t2t_keras.errors import OutOfMemoryError
from t2t_keras.hyperparameters import HParams
from t2t_keras.models.transformer import Transformer
from t2t_keras.training import microbatch
from t2t_keras.training.backends import base as backend
from t2t_keras.training.backends.base import Devices
from t2t_keras.training.backends.cluster import Cluster
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.distributed import Workers
from t2t_keras.training.evaluation import SplitLoss
from t2t_keras.training.microbatch import Microbatch, dry_run, microbatch_of_run
from t2t_keras.training.run_config import RunConfig, TrainOptions
from t2t_keras.training.trainer import train

AUTO = HParams(microbatch_tokens=0)
TWO = Cluster(("a:1", "b:1"), 0)


def test_what_was_found_is_remembered_for_its_circumstances(tmp_path):
    def tokens(hparams=AUTO, gpus=1, replicas=1, cluster=None):
        return Microbatch(tmp_path, hparams, ["GPU"] * gpus, replicas, cluster).tokens

    assert tokens() == 0
    Microbatch(tmp_path, AUTO, ["GPU"]).remember(5000)
    assert tokens() == 5000
    recomputed = HParams(microbatch_tokens=0, recompute=True)
    other_cases = tokens(recomputed), tokens(gpus=4), tokens(replicas=2), tokens(cluster=TWO)
    assert other_cases == (0, 0, 0, 0)
    assert tokens(HParams()) == 4096
    Microbatch(tmp_path, AUTO, ["GPU"]).remember(100)
    assert tokens() == 256, "one sentence"


def test_half_is_remembered_and_a_sentence_is_the_least(tmp_path):
    hparams = HParams(microbatch_tokens=600)
    Microbatch(tmp_path, hparams).halve()
    halved = Microbatch(tmp_path, hparams)
    assert halved.tokens == 300
    halved.halve()
    assert halved.tokens == Microbatch(tmp_path, hparams).tokens == 256
    with refused("out_of_memory", "max_length=256", "recompute=true"):
        halved.halve()
    with refused("out_of_memory", "microbatch_tokens=600", 300) as error:
        Microbatch(tmp_path / "workers", hparams, (), 2, TWO).halve()
    assert error.value.exit_status == 75, "all start again, as docs/distributed.md says"


@pytest.mark.parametrize("content", ["{", "[]", '{"tokens": 5}', None])
def test_a_file_that_cannot_be_read_is_not_used(tmp_path, capsys, content):
    Microbatch(tmp_path, HParams()).remember(99)
    path = tmp_path / "microbatch.json"
    path.write_text(content or path.read_text().replace('"tokens": 99', '"tokens": null'))
    assert Microbatch(tmp_path, HParams()).tokens == 4096
    assert capsys.readouterr().out.count(str(path)) == 1


@pytest.fixture
def find(generated, make_record, tmp_path):
    """find(gpus, ...): the tokens of a run in `directory`, which begins there or continues.

    Workers of a `cluster` first give the numbers `others`, in turn; then, the same as this one.
    """

    def find(gpus=0, directory="run", replicas=2, cluster=None, numbers=(), tokens=0, trainable=()):
        step = types.SimpleNamespace(fixed_shapes=False, num_replicas=replicas, packs_rows=True)
        step.local_replicas, step.gpus = range(replicas), ["Some GPU"] * gpus
        workers, answers = Workers(cluster), iter(numbers)
        workers.gather = lambda number: [number, next(answers, number)]
        record = make_record(microbatch_tokens=tokens, batch_tokens=3000, trainable=trainable)
        step.model = types.SimpleNamespace(trainable_weights=[])
        return microbatch_of_run(step, record, generated, tmp_path / directory, workers).tokens

    return find


@pytest.fixture
def whole(generated):
    """The tokens a side that one of two replicas gets of the fullest step."""
    lengths = generated.open_examples("train").lengths
    return TokenBatchSampler(lengths, 3000, 32, seed=1).max_padded_tokens(2, False)


@pytest.fixture
def free(monkeypatch):
    """A list whose number is the bytes of memory that are free."""
    free = [4_000_000]
    monkeypatch.setattr(microbatch, "free_memory", lambda: free[0])
    return free


def test_on_a_gpu_a_whole_step_is_begun_with(find, whole, capsys):
    assert find(gpus=2) == whole
    assert "2 x Some GPU" in capsys.readouterr().out


def test_workers_take_the_least_of_one_of_them(find, whole):
    # Nothing is remembered; another worker has memory for 150.
    assert find(gpus=2, cluster=TWO, numbers=[0, 150]) == 150
    assert find(gpus=2, cluster=TWO) == 150, "what is remembered"
    assert find(gpus=2) == whole, "alone"
    # If another does not know it, as when a file is seen late, all determine it again.
    assert find(gpus=2, cluster=TWO, numbers=[0, 140]) == 140
    with refused("out_of_memory", "max_length=32"):
        find(gpus=2, cluster=TWO, numbers=[0, 0])


def test_on_a_cpu_memory_is_estimated(find, whole, free):
    tokens = find()
    halves = [whole]
    while halves[-1] > 32:
        halves.append(max(halves[-1] // 2, 32))
    assert tokens in halves[1:-1]
    # Workers of one machine share its memory.
    assert find(directory="here", cluster=Cluster(("a:1", "a:2"), 1)) == max(tokens // 2, 32)
    assert find(directory="elsewhere", cluster=Cluster(("a:1", "b:2"), 1)) == tokens
    # One replica has all of the memory, and what fitted beside another is not taken for it.
    assert find(replicas=1) > tokens
    free[0] = 2 * free[0]
    assert find(directory="more") == halves[halves.index(tokens) - 1]
    free[0] = 10**12
    assert find(directory="enough") == whole
    for free[0], code, named in (
        (None, "unknown_memory", "microbatch_tokens=auto"),
        (250_000, "out_of_memory", "max_length=32"),
    ):
        with refused(code, named):
            find(directory=f"{free[0]} bytes")
    assert find(directory="frozen", trainable=("a few",)), "without sums for all weights"


def test_a_run_that_continues_splits_its_steps_as_before(find, free):
    tokens = find()
    for free[0] in (1_000_000, 8_000_000, None):
        assert find() == tokens
    assert find(tokens=512) == 512, "what is requested is not estimated"


@pytest.fixture
def estimate(make_record, tmp_path, monkeypatch):
    """estimate(microbatch_tokens, ...): rows and tokens a side of a dry run, and MB by name."""

    def estimate(microbatch_tokens, replicas=1, xla=False):
        # As wide as shows in whole megabytes.
        size = dict(microbatch_tokens=microbatch_tokens, batch_tokens=3000, d_ff=8192)
        devices = Devices(["/cpu:0"] * replicas, [], replicas, xla)
        monkeypatch.setattr(backend, "plan_devices", lambda *_: devices)
        text = dry_run(make_record(**size), tmp_path, 0, TrainOptions()).replace(",", "")
        assert f"Each of {replicas} replica" in text
        rows, length = re.search(r" (\d+) rows of (\d+) tokens", text).groups()
        parts = re.findall(r"^(\w[\w ]+?) +(\d+) MB$", text, re.MULTILINE)
        return int(rows), int(length), {name: int(size) for name, size in parts}

    return estimate


def test_a_dry_run_splits_as_requested_or_remembered_and_no_further(
    estimate, make_record, tmp_path
):
    rows, length, megabytes = estimate(100)
    assert 100 <= rows * length < 100 + length
    parts = "weights optimizer accumulators gradients activations logits".split()
    assert list(megabytes) == [*parts, "at most"]
    assert estimate(100_000)[:2] == estimate(0)[:2]
    # Rows of several pairs: 2,310 tokens a side.
    rows, length, _ = estimate(100_000, xla=True)
    assert length == 32
    assert 2310 < rows * length < 2310 / 0.9
    assert estimate(500, xla=True)[:2] == (15, 32)
    Microbatch(tmp_path, make_record(microbatch_tokens=0).hparams).remember(130)
    rows, length, _ = estimate(0)
    assert 130 <= rows * length < 130 + length


def test_a_dry_run_counts_saved_weights_in_float32(make_record, tmp_path, monkeypatch):
    monkeypatch.setattr(backend, "plan_devices", lambda *_: Devices(["/cpu:0"], [], 1, False))
    record = make_record(d_ff=8192, compute_dtype="bfloat16")
    text = dry_run(record, tmp_path, 0, TrainOptions(keep_checkpoint_max=5))
    weights = 4e-6 * record.make_model().count_params()
    # With two moments; five, one that is written, and the best weights.
    sizes = re.search(r"a checkpoint of (\d+) MB; (\d+) MB with", text).groups()
    assert list(map(int, sizes)) == [round(3 * weights), round(6 * 3 * weights + weights)]


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("replicas", [1, 8])
def test_a_dry_run_counts_accumulators_if_a_step_is_split(estimate, generated, replicas, xla):
    store, batching = generated.open_examples("train"), "rows" if xla else "length"
    sampler = TokenBatchSampler(store.lengths, 3000, 32, seed=1, batching=batching)
    step = types.SimpleNamespace(num_replicas=replicas, local_replicas=range(0))
    step.fixed_shapes, step.packs_rows = xla, True

    def is_split(tokens):
        split = functools.partial(replica_batches, store, replicas=step, microbatch_tokens=tokens)
        rows = sampler.rows_for(step, tokens)
        return any(len(list(split(batch, rows=rows))) > 1 for batch in sampler.epoch(0))

    least = next(tokens for tokens in range(9000 // replicas, 0, -1) if is_split(tokens)) + 1
    for tokens, megabytes in ((least - 1, 2), (least, 0), (0, 0)):
        assert estimate(tokens, replicas, xla)[2]["accumulators"] == megabytes


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
    return make_batch(generated.open_examples("train"), np.arange(20))


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
        actual = train(auto, generated, tmp_path, step_of(auto), TrainOptions(schedule="evaluate"))
        assert actual.evaluation == pytest.approx(expected, rel=1e-5)
        assert (file.read_bytes() if file.exists() else None) == content, "it is not changed"
        file.unlink(missing_ok=True)
