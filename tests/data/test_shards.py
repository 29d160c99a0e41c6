import json

import numpy as np
import pytest

from t2t_keras.data.manifest import write_manifest
from t2t_keras.data.shards import ExampleStore, write_shard
from t2t_keras.errors import UserError

VOCAB_SIZE = 500


def random_examples(seed, count):
    """Lists of ids (never 0, ending in 1) of random lengths, some of them as short as can be."""
    generator = np.random.default_rng(seed)
    return [
        [*generator.integers(2, VOCAB_SIZE, generator.integers(0, 12)).tolist(), 1]
        for _ in range(count)
    ]


def write_set(directory, shards, vocab_size=VOCAB_SIZE):
    """Writes a complete set with one split of the given (sources, targets) shards."""
    files = {}
    for number, (sources, targets) in enumerate(shards):
        sides = [[np.array(ids, np.int32) for ids in side] for side in (sources, targets)]
        files |= write_shard(directory, f"train-{number:05d}", *sides, vocab_size)
    stems = [f"train-{number:05d}" for number in range(len(shards))]
    write_manifest(directory, {"files": files, "splits": {"train": {"shards": stems}}})


# Empty shards, of which every pair was left out, at the start, inside and at the end.
SIZES = [0, 7, 0, 0, 20, 1, 0]


@pytest.fixture
def examples():
    return random_examples(1, sum(SIZES)), random_examples(2, sum(SIZES))


@pytest.fixture
def store(tmp_path, examples):
    ends = np.cumsum(SIZES)
    slices = [slice(end - size, end) for size, end in zip(SIZES, ends, strict=True)]
    write_set(tmp_path, [tuple(side[part] for side in examples) for part in slices])
    return ExampleStore.open(tmp_path, "train")


def test_every_example_comes_back(store, examples):
    sources, targets = examples
    assert len(store) == sum(SIZES)
    assert store.lengths.dtype == np.int32
    assert store.lengths.tolist() == [
        [len(source), len(target)] for source, target in zip(sources, targets, strict=True)
    ]
    for index in range(len(store)):
        assert store.source(index).tolist() == sources[index]
        assert store.target(index).tolist() == targets[index]


@pytest.mark.parametrize("side", ["source", "target"])
def test_padded_rows_in_any_order(store, examples, side):
    expected = examples[side == "target"]
    generator = np.random.default_rng(3)
    for rows in (1, 2, 5, 28, 60):
        indices = generator.integers(0, len(store), rows)
        padded = store.padded(indices, side)
        longest = max(len(expected[index]) for index in indices)
        assert padded.dtype == np.int32
        assert padded.tolist() == [
            expected[index] + [0] * (longest - len(expected[index])) for index in indices
        ]


def test_padded_no_rows(store):
    assert store.padded(np.zeros(0, np.int64), "source").shape == (0, 0)


@pytest.mark.parametrize(
    ("vocab_size", "dtype"), [(65_536, np.uint16), (65_537, np.int32), (200_000, np.int32)]
)
def test_tokens_are_as_wide_as_the_vocabulary_needs(tmp_path, vocab_size, dtype):
    highest = vocab_size - 1
    write_set(tmp_path, [([[highest, 1]], [[2, highest, 1]])], vocab_size)
    assert np.load(tmp_path / "train-00000.tokens.npy").dtype == dtype
    store = ExampleStore.open(tmp_path, "train")
    assert store.padded([0], "target").tolist() == [[2, highest, 1]]
    assert store.source(0).tolist() == [highest, 1]


def test_tokens_are_mapped_not_read(store):
    tokens = store._tokens[1]
    assert isinstance(tokens.base, np.memmap)
    assert not tokens.flags.writeable


def test_an_unknown_split(tmp_path, store):
    with pytest.raises(UserError, match="no 'test' split; it has train"):
        ExampleStore.open(tmp_path, "test")


def test_no_data(tmp_path):
    with pytest.raises(UserError, match=r"no generated data in .*t2t-datagen --problem=some"):
        ExampleStore.open(tmp_path / "some", "train")


def test_interrupted_data(tmp_path, store):
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(UserError, match="incomplete: t2t-datagen was interrupted"):
        ExampleStore.open(tmp_path, "train")


def test_a_damaged_manifest(tmp_path, store):
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(UserError, match=r"manifest\.json cannot be read"):
        ExampleStore.open(tmp_path, "train")


@pytest.mark.parametrize("change", ["missing", "shorter"])
def test_a_shard_of_another_size(tmp_path, store, change):
    path = tmp_path / "train-00004.tokens.npy"
    content = path.read_bytes()
    path.unlink()
    if change == "shorter":
        path.write_bytes(content[:-2])
    with pytest.raises(UserError, match=r"train-00004\.tokens\.npy (is missing|has)"):
        ExampleStore.open(tmp_path, "train")


def test_the_manifest_is_readable_by_others(tmp_path, store):
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["splits"]["train"]["shards"][0] == "train-00000"
