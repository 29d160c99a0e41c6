"""Whatever ends t2t-datagen early, no set that looks complete is left."""

import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from t2t_keras import registry
from t2t_keras.data import atomic_file
from t2t_keras.data.atomic_file import replaced_atomically, write_atomically
from t2t_keras.data.encode import ShardEncoder
from t2t_keras.data.generate import generate
from t2t_keras.data.generated import open_generated
from t2t_keras.data.manifest import verify
from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.errors import UserError


def _hear_ctrl_c():
    """A process started in the background of a shell inherits that Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def tmp_dir(tmp_path):
    """The directory of a train set of 230 pairs, a dev set of 25 and a test set of 12."""
    directory = tmp_path / "text"
    directory.mkdir()
    for split, size in (("train", 230), ("dev", 25), ("test", 12)):
        for language, words in (("en", "the house stands near"), ("de", "das Haus steht bei")):
            lines = [f"{words} {split} {number * number}\n" for number in range(size)]
            (directory / f"{split}.{language}").write_text("".join(lines))
    return directory


@pytest.fixture
def problem():
    return registry.problem("parallel_text", "source_language=en,target_language=de,vocab_size=320")


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_damage_before_the_end_leaves_no_manifest(problem, tmp_dir, tmp_path, monkeypatch):
    encode = ShardEncoder.__call__

    def damage(encoder, chunk, split, number):
        shard = encode(encoder, chunk, split, number)
        with (encoder.directory / f"{shard.stem}.tokens.npy").open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\xff")
        return shard

    monkeypatch.setattr(ShardEncoder, "__call__", damage)
    with pytest.raises(UserError, match=r"damaged: train-00000\.tokens\.npy \(differs\), dev-"):
        generate(problem, tmp_path, tmp_dir)
    assert not (tmp_path / "parallel_text" / "manifest.json").exists()


def test_nothing_but_own_files_is_removed(problem, tmp_dir, tmp_path):
    directory = tmp_path / "parallel_text"
    directory.mkdir()
    mine = {"notes.txt", "train.source.old.txt", "my.source.txt", "train-1.tokens"}
    stale = {
        "train-00099.tokens.npy",
        "vocab.model.0123abcd.partial",
        "test.target.txt",
        "manifest.json",
    }
    for name in mine | stale:
        (directory / name).write_text("old")
    generate(problem, tmp_path, tmp_dir)
    present = contents(directory)
    assert all(present.get(name) == b"old" for name in mine)
    assert all(present.get(name) != b"old" for name in stale)


def test_the_manifest_goes_before_anything_else(problem, tmp_dir, tmp_path):
    generate(problem, tmp_path, tmp_dir)
    # Cannot be removed as a file can, so that clearing stops at it.
    (tmp_path / "parallel_text" / "train-00009.tokens.npy").mkdir()
    with pytest.raises(UserError, match=r"train-00009\.tokens\.npy cannot be written"):
        generate(problem, tmp_path, tmp_dir)
    with pytest.raises(UserError, match="incomplete"):
        open_generated(problem, tmp_path)


class Stop(BaseException):
    pass


@pytest.mark.parametrize("shards_before", [0, 1, 4, 6])
def test_an_interruption_between_shards(problem, tmp_dir, tmp_path, monkeypatch, shards_before):
    generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
    complete = contents(tmp_path / "parallel_text")
    written = []
    encode = ShardEncoder.__call__

    def stop_after_some(encoder, chunk, split, number):
        if len(written) == shards_before:
            raise Stop
        written.append(encode(encoder, chunk, split, number))
        return written[-1]

    with monkeypatch.context() as patch:
        patch.setattr(ShardEncoder, "__call__", stop_after_some)
        with pytest.raises(Stop):
            generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
    with pytest.raises(UserError, match="incomplete: t2t-datagen was interrupted there"):
        open_generated(problem, tmp_path)
    generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
    assert contents(tmp_path / "parallel_text") == complete


PROGRAM = """
import resource, sys
from t2t_keras import registry
from t2t_keras.data.generate import generate

if __name__ == "__main__":
    limit, *directories = sys.argv[1:]
    if int(limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    config = "source_language=en,target_language=de,vocab_size=320"
    problem = registry.problem("parallel_text", config)
    generate(problem, *directories, num_workers=2, chunk_pairs=1)
"""


def start(tmp_path, limit=0):
    """Starts a process that generates with two workers, a shard for every pair."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(limit), str(tmp_path), str(tmp_path / "text")]
    return subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_hear_ctrl_c,
        text=True,
        env=os.environ,
    )


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def group_is_gone(group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_process_killed_while_it_writes(problem, tmp_dir, tmp_path, capsys, number):
    process = start(tmp_path)
    directory = tmp_path / "parallel_text"
    wait_until(lambda: (directory / "train-00020.tokens.npy").exists())
    if number == signal.SIGKILL:
        process.kill()
    else:
        # As Ctrl-C in a terminal, which reaches the workers too.
        os.killpg(process.pid, number)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    if number == signal.SIGINT:
        # Interrupted while it takes a lock, Python may add that it cannot release it.
        first, *consequences = errors.split("During handling of the above exception")
        assert errors.count("Traceback") == 1 + len(consequences)
        assert first.strip().endswith("KeyboardInterrupt")
    # The workers end too, and write nothing more.
    wait_until(lambda: group_is_gone(process.pid))
    assert not (directory / "manifest.json").exists()
    with pytest.raises(UserError, match="incomplete"):
        open_generated(problem, tmp_path)
    workers = 2 if number == signal.SIGKILL else 1
    generate(problem, tmp_path, tmp_dir, workers, chunk_pairs=1)
    kept = re.search(r"Continuing: (\d+) of 230 training shards", capsys.readouterr().out)
    assert int(kept[1]) > 10
    assert not list(directory.glob("*.partial"))
    verify(directory, open_generated(problem, tmp_path).manifest)
    if workers == 2:
        generate(problem, tmp_path / "whole", tmp_dir, chunk_pairs=1)
        assert contents(directory) == contents(tmp_path / "whole" / "parallel_text")


def test_a_worker_that_cannot_write_names_the_file(tmp_dir, tmp_path):
    lines = (tmp_dir / "dev.en").read_text().splitlines()
    lines[3] = "x y " * 100_000
    (tmp_dir / "dev.en").write_text("\n".join(lines))
    # Room for all files but the one with this line.
    process = start(tmp_path, limit=200_000)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    assert "dev-00003.tokens.npy cannot be written: File too large" in errors
    assert "UserError" in errors.splitlines()[-1]
    assert not (tmp_path / "parallel_text" / "manifest.json").exists()


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    path = tmp_path / "train-00000.tokens.npy"
    # What is written to /dev/full finds a disk without room.
    (tmp_path / "begun").symlink_to("/dev/full")
    monkeypatch.setattr(atomic_file, "_temporary", lambda path: path.with_name("begun"))
    with pytest.raises(UserError, match=rf"{path} cannot be written: No space left on device"):
        write_atomically(path, b"content")
    assert contents(tmp_path) == {}


def test_two_may_write_one_file(tmp_path):
    path = tmp_path / "some"
    with replaced_atomically(path) as first:
        first.write(b"a lot of it")
        first.flush()
        (begun,) = tmp_path.iterdir()
        os.utime(begun, (1, 1))
        with replaced_atomically(path) as second:
            second.write(b"all")
        assert path.read_bytes() == b"all"
        first.write(b" and the rest")
    assert contents(tmp_path) == {"some": b"a lot of it and the rest"}
    # What a process that was killed has left goes.
    begun.write_bytes(b"a lot")
    os.utime(begun, (1, 1))
    write_atomically(path, b"all")
    assert contents(tmp_path) == {"some": b"all"}


def test_a_file_replaces_an_older_one_at_once(tmp_path):
    path = tmp_path / "some"
    path.write_bytes(b"old")
    reader = path.open("rb")
    record = write_atomically(path, b"newer")
    with reader:
        assert reader.read() == b"old"
    assert path.read_bytes() == b"newer"
    assert record["size"] == 5


@pytest.fixture
def encoded(monkeypatch):
    """Names of the shards that were encoded, not taken from an earlier run."""
    names = []
    encode = ShardEncoder.__call__

    def note(encoder, chunk, split, number):
        shard = encode(encoder, chunk, split, number)
        names.append(shard.stem)
        return shard

    monkeypatch.setattr(ShardEncoder, "__call__", note)
    return names


def interrupt(problem, tmp_dir, tmp_path, monkeypatch, before="dev-00000", **options):
    """Generates up to a shard, with 50 pairs in each."""
    encode = ShardEncoder.__call__

    def stop(encoder, chunk, split, number):
        if f"{split}-{number:05d}" == before:
            raise Stop
        return encode(encoder, chunk, split, number)

    with monkeypatch.context() as patch:
        patch.setattr(ShardEncoder, "__call__", stop)
        with pytest.raises(Stop):
            generate(problem, tmp_path, tmp_dir, chunk_pairs=50, **options)


def test_finished_shards_are_kept(problem, tmp_dir, tmp_path, monkeypatch, encoded, capsys):
    generate(problem, tmp_path / "whole", tmp_dir, chunk_pairs=50)
    interrupt(problem, tmp_dir, tmp_path, monkeypatch, before="train-00003")
    directory = tmp_path / "parallel_text"
    vocabulary = directory / "vocab.model"
    written = vocabulary.stat().st_mtime_ns
    monkeypatch.setattr(Tokenizer, "train", None)  # It is not learned again.
    # One of them is damaged meanwhile, and the journal's last line is cut off.
    with (directory / "train-00001.tokens.npy").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    with (directory / "shards.jsonl").open("ab") as file:
        file.write(b'{"stem": "train-00003", "fi')
    encoded.clear()
    capsys.readouterr()
    generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
    assert encoded == ["train-00001", "train-00003", "train-00004", "dev-00000", "test-00000"]
    assert "Continuing: 2 of 5 training shards are there." in capsys.readouterr().out
    assert contents(directory) == contents(tmp_path / "whole" / "parallel_text")
    assert vocabulary.stat().st_mtime_ns >= written


@pytest.mark.parametrize("change", ["text", "settings", "chunk_pairs", "vocabulary"])
def test_shards_made_from_something_else_are_not_kept(
    problem, tmp_dir, tmp_path, monkeypatch, encoded, change
):
    interrupt(problem, tmp_dir, tmp_path, monkeypatch)
    chunk_pairs = 50
    if change == "text":
        (tmp_dir / "train.en").write_text((tmp_dir / "train.en").read_text().upper())
        os.utime(tmp_dir / "train.en", (1, 1))
    elif change == "settings":
        problem = dataclasses.replace(problem, max_pair_length=100)
    elif change == "chunk_pairs":
        chunk_pairs = 49
    else:
        other = tmp_path / "other.model"
        other.write_bytes(Tokenizer.train(["other words", "das Haus"] * 9, 275).model_bytes)
        problem = dataclasses.replace(problem, vocab_file=str(other))
    encoded.clear()
    generate(problem, tmp_path, tmp_dir, chunk_pairs=chunk_pairs)
    assert encoded[:5] == [f"train-{number:05d}" for number in range(5)]


def test_a_complete_set_is_made_anew(problem, tmp_dir, tmp_path, encoded):
    generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
    assert not (tmp_path / "parallel_text" / "shards.jsonl").exists()
    encoded.clear()
    generate(problem, tmp_path, tmp_dir, chunk_pairs=50)
    assert len(encoded) == 7
