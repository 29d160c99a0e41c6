"""The tokens that a replica holds at once, what is remembered of them, and the dry run."""

import re
import types

import pytest
from refusals import refused

from t2t_keras.data.batches import TokenBatchSampler, split_batch
from t2t_keras.hyperparameters import HParams
from t2t_keras.training import microbatch
from t2t_keras.training.backends import base as backend
from t2t_keras.training.backends.base import Devices
from t2t_keras.training.backends.cluster import Cluster
from t2t_keras.training.distributed import Workers
from t2t_keras.training.microbatch import Microbatch, dry_run, microbatch_of_run
from t2t_keras.training.run_config import TrainOptions

AUTO = HParams(microbatch_tokens=0)
TWO = Cluster(("a:1", "b:1"), 0)


def test_what_was_found_is_remembered_for_its_circumstances(tmp_path):
    def tokens(hparams=AUTO, gpus=1, replicas=1, cluster=None):
        return Microbatch(tmp_path, hparams, ["GPU"] * gpus, replicas, cluster).tokens

    assert tokens() == 0
    Microbatch(tmp_path, AUTO, ["GPU"]).remember(5000)
    assert tokens() == 5000
    recomputed = HParams(microbatch_tokens=0, recompute=True)
    others = tokens(recomputed), tokens(gpus=4), tokens(replicas=2), tokens(cluster=TWO)
    assert others == (0, 0, 0, 0)
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

    def find(gpus=0, directory="run", replicas=2, cluster=None, others=(), tokens=0, trainable=()):
        step = types.SimpleNamespace(fixed_shapes=False, num_replicas=replicas)
        step.local_replicas, step.gpus = range(replicas), ["Some GPU"] * gpus
        workers, given = Workers(cluster), iter(others)
        workers.gather = lambda text: [text, next(given, text)]
        record = make_record(microbatch_tokens=tokens, batch_tokens=3000, trainable=trainable)
        step.model = types.SimpleNamespace(trainable_weights=[])
        return microbatch_of_run(step, record, generated, tmp_path / directory, workers).tokens

    return find


@pytest.fixture
def whole(generated):
    """The tokens a side that one of two replicas gets of the fullest step."""
    lengths = generated.store("train").lengths
    return TokenBatchSampler(lengths, 3000, 32, seed=0).max_padded_tokens(2, False)


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
    assert find(gpus=2, cluster=TWO, others=["0", "150"]) == 150
    assert find(gpus=2, cluster=TWO) == 150, "what is remembered"
    assert find(gpus=2) == whole, "alone"
    # If another does not know it, as when a file is seen late, all determine it again.
    assert find(gpus=2, cluster=TWO, others=["0", "140"]) == 140
    with refused("out_of_memory", "max_length=32"):
        find(gpus=2, cluster=TWO, others=["0", "0"])


def test_on_a_cpu_memory_is_estimated(find, whole, free):
    found = find()
    halves = [whole]
    while halves[-1] > 32:
        halves.append(max(halves[-1] // 2, 32))
    assert found in halves[1:-1]
    # Workers of one machine share its memory.
    assert find(directory="here", cluster=Cluster(("a:1", "a:2"), 1)) == max(found // 2, 32)
    assert find(directory="elsewhere", cluster=Cluster(("a:1", "b:2"), 1)) == found
    # One replica has all of the memory, and what fitted beside another is not taken for it.
    assert find(replicas=1) > found
    free[0] = 2 * free[0]
    assert find(directory="more") == halves[halves.index(found) - 1]
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
    found = find()
    for free[0] in (1_000_000, 8_000_000, None):
        assert find() == found
    assert find(tokens=512) == 512, "what is requested is not estimated"


@pytest.fixture
def estimate(make_record, tmp_path, monkeypatch):
    """estimate(microbatch_tokens, ...): pairs and tokens a side of a dry run, and MB by name."""

    def estimate(microbatch_tokens, replicas=1, xla=False):
        # As wide as shows in whole megabytes.
        size = dict(microbatch_tokens=microbatch_tokens, batch_tokens=3000, d_ff=8192)
        devices = Devices(["/cpu:0"] * replicas, [], replicas, xla)
        monkeypatch.setattr(backend, "plan_devices", lambda *_: devices)
        text = dry_run(make_record(**size), tmp_path, 0, TrainOptions()).replace(",", "")
        assert f"Each of {replicas} replica" in text
        pairs, length = re.search(r" (\d+) pairs of (\d+) tokens", text).groups()
        parts = re.findall(r"^(\w[\w ]+?) +(\d+) MB$", text, re.MULTILINE)
        return int(pairs), int(length), {name: int(size) for name, size in parts}

    return estimate


def test_a_dry_run_splits_as_requested_or_remembered_and_no_further(
    estimate, make_record, tmp_path
):
    pairs, length, megabytes = estimate(100)
    assert 100 <= pairs * length < 100 + length
    parts = "weights optimizer accumulators gradients activations logits".split()
    assert list(megabytes) == [*parts, "at most"]
    assert estimate(100_000)[:2] == estimate(0)[:2]
    # Fixed shapes are rounded up and filled.
    pairs, length, _ = estimate(100_000, xla=True)
    assert (length, pairs * length) == (16, 100_000)
    Microbatch(tmp_path, make_record(microbatch_tokens=0).hparams).remember(130)
    pairs, length, _ = estimate(0)
    assert 130 <= pairs * length < 130 + length


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
    lengths = generated.store("train").lengths
    steps = TokenBatchSampler(lengths, 3000, 32, seed=0).epoch(0)

    def is_split(tokens):
        return any(len(split_batch(lengths, batch, tokens, replicas, xla)) > 1 for batch in steps)

    least = next(tokens for tokens in range(9000 // replicas, 0, -1) if is_split(tokens)) + 1
    for tokens, megabytes in ((least - 1, 2), (least, 0), (0, 0)):
        assert estimate(tokens, replicas, xla)[2]["accumulators"] == megabytes
