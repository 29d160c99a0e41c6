import itertools
import os
import shutil

import numpy as np
import pytest
from refusals import refused

from t2t_keras.data import dataset
from t2t_keras.data.dataset import BackgroundCheck, Generated, read_manifest, write_shard
from t2t_keras.data.problem import Problem, make_problem
from t2t_keras.io.files import sha256_of, write_json


def write_set(directory, shards, vocab_size=500):
    """Writes a complete set with one split of the given (sources, targets) shards."""
    files, stems = {}, [f"train-{number:05d}" for number in range(len(shards))]
    for stem, sides in zip(stems, shards, strict=True):
        arrays = [[np.array(ids, np.int32) for ids in side] for side in sides]
        files |= write_shard(directory, stem, *arrays, vocab_size)
    manifest = dict.fromkeys(("problem", "config", "vocabulary"))
    manifest |= {"files": files, "splits": {"train": {"shards": stems, "examples": 28}}}
    write_json(directory / "manifest.json", manifest)


def opened(directory):
    return Generated(Problem(), directory, read_manifest(directory))


def open_store(directory, split="train"):
    return opened(directory).open_examples(split)


def flip(at, bit=4):
    """Returns a function that flips a bit of a byte of a file."""

    def damage(path):
        content = bytearray(path.read_bytes())
        content[at] ^= bit
        path.write_bytes(content)

    return damage


# Empty shards, of which every pair was left out, at the start, inside and at the end.
SIZES = [0, 7, 0, 0, 20, 1, 0]


@pytest.fixture
def examples():
    """Sources and targets of random lengths, the shortest without a token but EOS."""
    generator = np.random.default_rng(1)
    lengths = generator.integers(0, 12, (2, sum(SIZES)))
    return [[[*generator.integers(2, 500, n).tolist(), 1] for n in side] for side in lengths]


@pytest.fixture
def store(tmp_path, examples):
    parts = itertools.starmap(slice, itertools.pairwise([0, *np.cumsum(SIZES)]))
    write_set(tmp_path, [[side[part] for side in examples] for part in parts])
    return open_store(tmp_path)


@pytest.mark.parametrize("side", ["source", "target"])
def test_padded_rows_in_any_order(store, examples, side):
    expected = examples[side == "target"]
    generator = np.random.default_rng(3)
    assert len(store) == sum(SIZES)
    for rows in (0, 1, 2, 5, 28, 60):
        indices = generator.integers(0, len(store), rows)
        padded = store.padded(indices, side)
        chosen = [expected[index] for index in indices]
        lengths = list(map(len, chosen))
        assert store.lengths[indices, int(side == "target")].tolist() == lengths
        assert (padded.dtype, padded.shape) == (np.int32, (rows, max(lengths, default=0)))
        assert padded.tolist() == [ids + [0] * (max(lengths) - len(ids)) for ids in chosen]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_536, np.uint16), (65_537, np.int32)])
def test_tokens_are_as_wide_as_the_vocabulary_needs(tmp_path, vocab_size, dtype):
    target = [2, vocab_size - 1, 1]
    write_set(tmp_path, [([[3, 1]], [target])], vocab_size)
    assert np.load(tmp_path / "train-00000.tokens.npy").dtype == dtype
    assert open_store(tmp_path).padded([0], "target").tolist() == [target]


def test_tokens_are_mapped_not_read(tmp_path, store):
    # What changes in the file changes in the store.
    np.load(tmp_path / "train-00004.tokens.npy", mmap_mode="r+")[-1] = 7
    assert store.padded([26], "target")[0, -1] == 7


@pytest.mark.parametrize(
    ("name", "damage", "code", "names"),
    [
        ("manifest.json", lambda path: path.write_text("{"), "damaged_file", ["manifest.json"]),
        (
            "manifest.json",
            lambda path: path.write_text('{"splits": 0, "files": 0}'),
            "damaged_file",
            ["'config'"],
        ),
        ("manifest.json", lambda path: path.unlink(), "incomplete_data", ["t2t-datagen"]),
        ("", shutil.rmtree, "no_data", ["t2t-datagen"]),
        (
            "train-00004.tokens.npy",
            lambda path: path.unlink(),
            "data_damaged",
            ["00004.tokens.npy"],
        ),
        (
            "train-00004.tokens.npy",
            lambda path: os.truncate(path, 10),
            "data_damaged",
            ["00004.tokens.npy", " 10."],
        ),
        ("train-00001.lengths.npy", flip(-4), "data_damaged", ["00001.lengths.npy"]),
        ("train-00001.lengths.npy", flip(-1, 128), "data_damaged", ["00001.lengths.npy"]),
        ("train-00004.tokens.npy", flip(0), "data_damaged", ["00004.tokens.npy"]),
        # "<u2" becomes "<u6".
        ("train-00004.tokens.npy", flip(23), "data_damaged", ["00004.tokens.npy"]),
    ],
)
def test_what_cannot_be_opened(tmp_path, store, name, damage, code, names):
    with refused("no_such_split", "test"):
        open_store(tmp_path, "test")
    damage(tmp_path / name)
    with refused(code, *names):
        open_store(tmp_path)


def test_the_folder_of_a_problem_is_no_data_dir(tmp_path, store):
    with refused("no_data", f"{tmp_path} "):
        read_manifest(tmp_path / "toy")


def test_the_command_that_makes_data(monkeypatch):
    monkeypatch.setattr(dataset, "user_directories", ["/mine"])
    problem = make_problem("parallel_text", "source_language=en,target_language=de,dev=x y")
    assert dataset.datagen_command(problem, "data") == (
        "\n  t2t-datagen --problem=parallel_text '--problem_config=source_language=en,"
        """target_language=de,dev=["x y"]' --data_dir=data --tmp_dir=text --t2t_usr_dir=/mine"""
    )
    monkeypatch.setattr(dataset, "user_directories", [])
    toy = dataset.datagen_command(make_problem("translate_ende_toy_rev"), "data")
    assert toy == "\n  t2t-datagen --problem=translate_ende_toy_rev --data_dir=data"


@pytest.mark.parametrize("shard", [1, 4])
def test_checksums_are_compared_while_a_training_begins(tmp_path, store, shard):
    generated = opened(tmp_path)
    assert generated.corpora == {"train": 28}, "as data of earlier versions"
    BackgroundCheck(generated).raise_if_damaged(wait=True)
    flip(-2)(tmp_path / f"train-{shard:05d}.tokens.npy")
    generated.open_examples("train")  # Opened at once, however large it is.
    with refused("data_damaged", f"{shard:05d}.tokens.npy"):
        BackgroundCheck(generated).raise_if_damaged(wait=True)


def test_a_shard_whose_lengths_do_not_add_up(tmp_path, store):
    lengths = np.load(tmp_path / "train-00001.lengths.npy")
    lengths[0, 0] += 1
    np.save(tmp_path / "train-00001.lengths.npy", lengths)
    manifest = read_manifest(tmp_path)
    record = {
        "size": lengths.nbytes + 128,
        "sha256": sha256_of(tmp_path / "train-00001.lengths.npy"),
    }
    manifest["files"]["train-00001.lengths.npy"] = record
    with refused("data_damaged", "00001.tokens.npy"):
        Generated(Problem(), tmp_path, manifest).open_examples("train")
