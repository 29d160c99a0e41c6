import numpy as np
import pytest

from t2t_keras.data.dataset import Generated, read_manifest
from t2t_keras.data.problem import Problem
from t2t_keras.data.shards import write_shard
from t2t_keras.errors import UserError
from t2t_keras.io.state import write_json

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
    write_json(
        directory / "manifest.json", {"files": files, "splits": {"train": {"shards": stems}}}
    )


def open_store(directory, split="train"):
    return Generated(Problem(), directory, read_manifest(directory)).store(split)


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
    return open_store(tmp_path)


@pytest.mark.parametrize("side", ["source", "target"])
def test_padded_rows_in_any_order(store, examples, side):
    expected = examples[side == "target"]
    generator = np.random.default_rng(3)
    assert len(store) == sum(SIZES)
    for rows in (0, 1, 2, 5, 28, 60):
        indices = generator.integers(0, len(store), rows)
        padded = store.padded(indices, side)
        longest = max((len(expected[index]) for index in indices), default=0)
        assert (padded.dtype, padded.shape) == (np.int32, (rows, longest))
        assert store.lengths[indices, int(side == "target")].tolist() == [
            len(expected[index]) for index in indices
        ]
        assert padded.tolist() == [
            expected[index] + [0] * (longest - len(expected[index])) for index in indices
        ]


@pytest.mark.parametrize(
    ("vocab_size", "dtype"), [(65_536, np.uint16), (65_537, np.int32), (200_000, np.int32)]
)
def test_tokens_are_as_wide_as_the_vocabulary_needs(tmp_path, vocab_size, dtype):
    highest = vocab_size - 1
    write_set(tmp_path, [([[highest, 1]], [[2, highest, 1]])], vocab_size)
    assert np.load(tmp_path / "train-00000.tokens.npy").dtype == dtype
    store = open_store(tmp_path)
    assert store.padded([0], "target").tolist() == [[2, highest, 1]]
    assert store.padded([0], "source").tolist() == [[highest, 1]]


def test_tokens_are_mapped_not_read(tmp_path, store):
    """What changes in the file changes in the store."""
    path = tmp_path / "train-00004.tokens.npy"
    last = store.padded([26], "target")[0].tolist()
    with path.open("r+b") as file:
        file.seek(-2, 2)
        file.write(b"\x07\x00")
    assert store.padded([26], "target")[0].tolist() == [*last[:-1], 7]


@pytest.mark.parametrize(
    ("split", "change", "message"),
    [
        ("test", None, "split of train, got 'test'"),
        ("train", lambda path: path.write_text("{"), r"manifest\.json"),
        ("train", lambda path: path.unlink(), "incomplete"),
        (
            "train",
            lambda path: [other.unlink() for other in path.parent.iterdir()],
            "no generated data in .*t2t-datagen --problem=",
        ),
    ],
)
def test_what_cannot_be_opened(tmp_path, store, split, change, message):
    if change:
        change(tmp_path / "manifest.json")
    with pytest.raises(UserError, match=message):
        open_store(tmp_path, split)


@pytest.mark.parametrize(
    "damage", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-2])]
)
def test_a_shard_of_another_size(tmp_path, store, damage):
    damage(tmp_path / "train-00004.tokens.npy")
    with pytest.raises(UserError, match=r"train-00004\.tokens\.npy: expected"):
        open_store(tmp_path)
