"""Whatever ends t2t-datagen early, no set that looks complete is left, and the next run goes on."""

import dataclasses
import errno
import os
from pathlib import Path

import pytest
from refusals import refused

from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.text.tokenizer import SentencePieceTokenizer


@pytest.fixture
def interrupt(problem, tmp_dir, tmp_path, monkeypatch):
    """interrupt(shard): stops at a training shard of 50 pairs, for want of room."""
    replace = Path.replace

    def interrupt(shard):
        def fail_at_shard(path, target):
            if target.name == f"train-{shard:05d}.tokens.npy":
                raise OSError(errno.ENOSPC, "No space left")
            return replace(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", fail_at_shard)
            with refused("not_written", f"{shard}.tokens.npy"):
                generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
        with refused("incomplete_data", tmp_path):
            open_generated(problem, tmp_path)

    return interrupt


def identities(directory):
    """A file that was written again is another one, or has another time."""
    files = ((path.name[:11], path.stat()) for path in directory.glob("train-*.npy"))
    return {(name, status.st_ino, status.st_mtime_ns) for name, status in files}


def shards_kept(before, after):
    return sorted({int(name[6:]) for name, *_ in before & after})


@pytest.mark.parametrize(
    ("shard", "damage", "kept"),
    [
        (0, None, []),
        (3, None, [0, 1, 2]),
        (3, "train-00001.tokens.npy", [0, 2]),
        (3, "train-00001.json", [0, 2]),
    ],
)
def test_finished_shards_are_kept(
    problem, tmp_dir, tmp_path, interrupt, shard, damage, kept, contents, monkeypatch
):
    interrupt(shard)
    directory = tmp_path / "parallel_text"
    if damage:
        (directory / damage).write_bytes((directory / damage).read_bytes()[:-1] + b"\xff")
    before = identities(directory)
    with monkeypatch.context() as patch:
        patch.setattr(SentencePieceTokenizer, "train", None)  # It is not learned again.
        generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
    assert shards_kept(before, identities(directory)) == kept
    generate(problem, tmp_path / "whole", tmp_dir, chunk_pairs=50)
    assert contents(directory) == contents(tmp_path / "whole" / "parallel_text")


def test_files_that_change_while_the_others_are_written(problem, tmp_dir, tmp_path, monkeypatch):
    replace = Path.replace

    def replace_and_damage(path, target):
        replace(path, target)
        if target.name == "train-00000.tokens.npy":
            target.write_bytes(target.read_bytes()[:-1] + b"\xff")

    monkeypatch.setattr(Path, "replace", replace_and_damage)
    with refused("file_changed", "train-00000.tokens.npy"):
        generate(problem, tmp_path, tmp_dir)
    with refused("incomplete_data", tmp_path):
        open_generated(problem, tmp_path)


def test_a_complete_set_stays(problem, tmp_dir, tmp_path, contents, capsys):
    directory = tmp_path / "parallel_text"
    first = generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
    before, written = identities(directory), contents(directory)

    def again(text=tmp_dir, **options):
        """Returns whether it was made anew."""
        assert generate(problem, tmp_path, text, chunk_pairs=50, **options) == first
        assert contents(directory) == written
        return not shards_kept(before, identities(directory))

    assert not again()
    tmp_dir = tmp_dir.rename(tmp_path / "moved")
    assert not again(tmp_dir), "wherever the text stands"
    tokens = directory / "train-00001.tokens.npy"
    tokens.write_bytes(tokens.read_bytes()[:-1] + b"\xff")
    assert again(tmp_dir), "it was damaged"
    assert f"{tokens}: " in capsys.readouterr().out
    before = identities(directory)
    assert again(tmp_dir, overwrite=True)


@pytest.mark.parametrize("changed", ["vocab_size", "train.en", "dev.de", "chunks"])
def test_other_data_is_replaced_on_request_alone(problem, tmp_dir, tmp_path, contents, changed):
    directory = tmp_path / "parallel_text"
    generate(problem, tmp_path, tmp_dir)
    other = dataclasses.replace(problem, vocab_size=331 if changed == "vocab_size" else 330)
    if changed in ("train.en", "dev.de"):
        os.utime(tmp_dir / changed, (1, 1))
    options = {"chunk_pairs": 49} if changed == "chunks" else {}
    written = contents(directory)
    with refused("other_data_exists"):
        generate(other, tmp_path, tmp_dir, **options)
    assert contents(directory) == written
    # A manifest that cannot be read may be that of good data.
    manifest = (directory / "manifest.json").rename(directory / "aside")
    (directory / "manifest.json").mkdir()
    with refused("not_read", "manifest.json"):
        generate(problem, tmp_path, tmp_dir)
    (directory / "manifest.json").rmdir()
    manifest.rename(directory / "manifest.json")
    generate(other, tmp_path, tmp_dir, overwrite=True, **options)
    assert open_generated(other, tmp_path).tokenizer.vocab_size == other.vocab_size


@pytest.mark.parametrize("changed", ["file", "chunks", "vocab_lines", "vocab_file"])
def test_shards_made_from_something_else_are_not_kept(
    problem, tmp_dir, tmp_path, interrupt, changed
):
    path = tmp_path / "other.model"
    path.write_bytes(SentencePieceTokenizer.train(["other words", "das Haus"] * 9, 275).model_bytes)
    interrupt(3)
    if changed == "file":
        os.utime(tmp_dir / "train.de", (1, 1))
    settings = {"vocab_lines": 1_000_000, "vocab_file": str(path)}
    other = {name: value for name, value in settings.items() if name == changed}
    before = identities(tmp_path / "parallel_text")
    chunk_pairs = 49 if changed == "chunks" else 50
    generate(dataclasses.replace(problem, **other), tmp_path, tmp_dir, chunk_pairs=chunk_pairs)
    assert shards_kept(before, identities(tmp_path / "parallel_text")) == []


def test_nothing_but_own_files_is_removed(problem, tmp_dir, tmp_path, contents):
    directory = tmp_path / "parallel_text"
    directory.mkdir()
    mine = {"notes.txt", "train.source.old.txt", "my.source.txt", "train-1.tokens"}
    stale = {"train-00099.tokens.npy", "train-00099.json", "vocab.model.0123abcd.partial"}
    for name in mine | stale | {"test.target.txt", "manifest.json"}:
        (directory / name).write_text("old")
    generate(problem, tmp_path, tmp_dir)
    assert {name for name, content in contents(directory).items() if content == b"old"} == mine


def test_the_manifest_goes_before_anything_else(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path, tmp_dir)
    # Cannot be removed as a file can, so that clearing stops at it.
    (tmp_path / "parallel_text" / "train-00009.tokens.npy").mkdir()
    with refused("not_written", "train-00009.tokens.npy"):
        generate(problem, tmp_path, tmp_dir, overwrite=True)
    with refused("incomplete_data", tmp_path):
        open_generated(problem, tmp_path)
