"""The search for the most tokens that fit, what is remembered of it, and the dry run."""

import dataclasses
import re

import numpy as np
import pytest

from t2t_keras.data.batches import TokenBatchSampler, split_batch
from t2t_keras.errors import OutOfMemoryError, UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.training.backends import base as backend
from t2t_keras.training.backends.base import Devices
from t2t_keras.training.distributed.cluster import Cluster
from t2t_keras.training.distributed.sync import Workers
from t2t_keras.training.memory import microbatch
from t2t_keras.training.memory.microbatch import (
    Microbatch,
    dry_run,
    microbatch_of_run,
    most_that_fit,
)
from t2t_keras.training.options import TrainOptions

AUTO = HParams(microbatch_tokens=0)
TWO = Cluster(("a:1", "b:1"), 0)


@pytest.mark.parametrize("limit", [255, 256, 257, 4095, 24_999, 25_000])
def test_the_search_ends_just_below_what_does_not_fit(limit):
    tried = []

    def fits(tokens):
        tried.append(tokens)
        return tokens <= limit

    found = most_that_fit(fits, 256, 25_000)
    if limit < 256:
        assert found == 0
        return
    assert limit / 1.1 - 1 <= found <= limit
    assert found in tried
    assert len(tried) <= (1 if limit == 25_000 else 9)


def test_what_was_found_is_remembered_for_its_circumstances(tmp_path):
    run = tmp_path / "run"
    assert Microbatch(run, AUTO, ["GPU"]).tokens == 0
    Microbatch(run, AUTO, ["GPU"]).remember(5000)
    assert Microbatch(run, AUTO, ["GPU"]).tokens == 5000
    for other in (
        Microbatch(run, AUTO, ["GPU"] * 4),
        Microbatch(run, AUTO, ["GPU"], replicas=2),
        Microbatch(run, AUTO, ["GPU"], 1, TWO),
        Microbatch(run, dataclasses.replace(AUTO, recompute=True), ["GPU"]),
    ):
        assert other.tokens == 0
    assert Microbatch(run, HParams(), ["GPU"]).tokens == 4096


def test_half_is_remembered_and_a_sentence_is_the_least(tmp_path):
    hparams = HParams(microbatch_tokens=600)
    Microbatch(tmp_path, hparams).halve()
    halved = Microbatch(tmp_path, hparams)
    assert halved.tokens == 300
    halved.halve()
    assert halved.tokens == Microbatch(tmp_path, hparams).tokens == 256
    with pytest.raises(UserError, match=r"max_length=256.*recompute=true"):
        halved.halve()


def test_several_workers_start_again_with_half(tmp_path):
    hparams = HParams(microbatch_tokens=600)
    with pytest.raises(UserError, match="continue with 300") as error:
        Microbatch(tmp_path, hparams, (), 2, TWO).halve()
    assert error.value.exit_status == 75, "as docs/distributed.md says"
    assert Microbatch(tmp_path, hparams, (), 2, TWO).tokens == 300


@pytest.mark.parametrize("content", ["{", "[]", '{"tokens": 5}', '{"tokens": null, "of": 1}'])
def test_a_file_that_cannot_be_read_is_not_used(tmp_path, content):
    (tmp_path / "microbatch.json").write_text(content)
    assert Microbatch(tmp_path, HParams()).tokens == 4096


class FakeStep:
    """A step whose GPUs hold so many tokens; on a CPU, nothing may be tried."""

    fixed_shapes = False

    def __init__(self, held=0, replicas=2):
        self._held, self.num_replicas, self.local_replicas = held, replicas, range(replicas)
        self.gpus = ["Some GPU"] * 2 if held else []

    def fits(self, parts):
        assert len(parts) == 2
        if self._held < 32:
            raise OutOfMemoryError("the sums of gradients do not fit")
        return parts[0].source.size <= self._held


class OneOf(Workers):
    """A worker whose others give certain numbers, in turn; then, the same as this one."""

    def __init__(self, cluster, *others):
        super().__init__(cluster)
        self._others = list(others)

    def gather(self, text):
        return [text, self._others.pop(0) if self._others else text]


@pytest.fixture
def find(generated, make_record, tmp_path):
    """Returns a function that returns the tokens of a run that begins or continues."""

    def find(step, directory="run", workers=None, record=None):
        record = record or make_record(microbatch_tokens=0, batch_tokens=3000)
        path = tmp_path / directory
        return microbatch_of_run(step, record, generated, path, workers or Workers()).tokens

    return find


@pytest.fixture
def free(monkeypatch):
    """A list whose number is the bytes of memory that are free."""
    free = [4_000_000]
    monkeypatch.setattr(microbatch, "free_memory", lambda: free[0])
    return free


def test_on_a_gpu_sizes_are_tried(find, generated, capsys):
    longest = int(generated.store("train").lengths.max())
    assert 200 / 1.1 - longest <= find(FakeStep(200)) <= 200
    assert "2 x Some GPU" in capsys.readouterr().out
    with pytest.raises(UserError, match="max_length=32"):
        find(FakeStep(1), "without room for the sums of gradients")


def test_workers_take_the_least_that_one_of_them_finds(find):
    # Nothing is remembered; another worker finds that 150 fit.
    assert find(FakeStep(400), workers=OneOf(TWO, "0", "150")) == 150
    assert find(FakeStep(160), workers=OneOf(TWO)) == 150, "what is remembered"
    assert find(FakeStep(400)) > 300, "alone, all fits that can"
    # If another does not know it, as when a file is seen late, all determine it again.
    assert find(FakeStep(400), workers=OneOf(TWO, "0", "140")) == 140
    with pytest.raises(UserError, match="max_length=32"):
        find(FakeStep(400), workers=OneOf(TWO, "0", "0"))


def test_on_a_cpu_memory_is_estimated(find, free):
    found = find(FakeStep())
    assert 13 < found < 3000 / 2
    # Workers of one machine share its memory.
    here, elsewhere = Cluster(("a:1", "a:2"), 1), Cluster(("a:1", "b:2"), 1)
    assert find(FakeStep(), "here", OneOf(here)) < 0.6 * found
    assert find(FakeStep(), "elsewhere", OneOf(elsewhere)) == found
    # One replica has all of the memory, and what fitted beside another is not taken for it.
    assert find(FakeStep(replicas=1)) > 1.5 * found
    free[0] = 2 * free[0]
    assert find(FakeStep(), "more") > 1.5 * found
    for free[0], reason in ((0, "does not tell"), (1000, "max_length=32")):
        with pytest.raises(UserError, match=reason):
            find(FakeStep(), f"{free[0]} bytes")


def test_what_was_found_is_kept_until_less_memory_is_free(find, free, make_record):
    found = find(FakeStep())
    # A run that continues splits its steps as before.
    for free[0] in (3_700_000, 8_000_000, 0):
        assert find(FakeStep()) == found
    free[0] = 2_000_000
    less = find(FakeStep())
    assert less < found / 1.5
    free[0] = 8_000_000
    assert find(FakeStep()) == less, "and that is remembered"
    free[0] = 1000
    given = make_record(microbatch_tokens=512)
    assert find(FakeStep(), record=given) == 512, "what is requested is not estimated"


def test_what_no_longer_fits_another_worker_is_determined_again(find, free):
    found = find(FakeStep(), workers=OneOf(TWO))
    free[0] = 8_000_000
    assert find(FakeStep(), workers=OneOf(TWO)) == found
    assert find(FakeStep(), workers=OneOf(TWO, str(found), "0")) > found


@pytest.fixture
def estimate(make_record, tmp_path, monkeypatch):
    """Returns a function that returns pairs and tokens a side of a dry run, and MB by name."""

    def estimate(microbatch_tokens, replicas=1, xla=False):
        # As wide as shows in whole megabytes.
        size = dict(microbatch_tokens=microbatch_tokens, batch_tokens=3000, d_ff=8192)
        devices = Devices(["/cpu:0"] * replicas, [], replicas, xla)
        monkeypatch.setattr(backend, "plan_devices", lambda *_: devices)
        text = dry_run(make_record(**size), tmp_path, 0, TrainOptions())
        assert f"Each of {replicas} replica" in text
        shape = re.search(r" ([\d,]+) pairs of (\d+) tokens", text)
        parts = re.findall(r"^(\w[\w ]+?) +([\d,]+) MB$", text, re.MULTILINE)
        numbers = [int(each.replace(",", "")) for each in shape.groups()]
        return *numbers, {name: int(size.replace(",", "")) for name, size in parts}

    return estimate


def test_a_dry_run_splits_as_requested_and_no_further(estimate):
    assert np.prod(estimate(100)[:2]) == pytest.approx(100, abs=13)
    assert estimate(100_000)[:2] == estimate(0)[:2]
    parts = "weights optimizer accumulators gradients activations logits".split()
    assert list(estimate(0)[2]) == [*parts, "at most"]
    # Fixed shapes are rounded up and filled.
    pairs, length, _ = estimate(100_000, xla=True)
    assert (length, pairs * length) == (16, 100_000)


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("replicas", [1, 8])
def test_a_dry_run_counts_accumulators_if_a_step_is_split(estimate, generated, replicas, xla):
    lengths = generated.store("train").lengths
    steps = TokenBatchSampler(lengths, 3000, 32, seed=0).epoch(0)

    def is_split(tokens):
        return any(len(split_batch(lengths, batch, tokens, replicas, xla)) > 1 for batch in steps)

    least = next(tokens for tokens in range(9000 // replicas, 0, -1) if is_split(tokens)) + 1
    for tokens, megabytes in ((least - 1, 2), (least, 0), (0, 0)):
        assert estimate(tokens, replicas, xla)[2]["accumulators"] == megabytes


def test_a_dry_run_takes_what_the_run_remembers(estimate, make_record, tmp_path):
    Microbatch(tmp_path, make_record(microbatch_tokens=0).hparams).remember(130)
    pairs, length, _ = estimate(0)
    assert 130 <= pairs * length < 130 + length
