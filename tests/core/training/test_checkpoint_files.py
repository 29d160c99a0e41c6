"""The files of checkpoints: complete or noticed as damaged, named by step, and followed."""

import json
import tracemalloc
import zlib

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from refusals import refused

from t2t_keras.errors import UserError
from t2t_keras.training.checkpoint_files import (
    CheckpointWatcher,
    PollPolicy,
    files_by_name_and_step,
    read,
    read_head,
    wait_for,
    write,
)

ARRAYS = {
    "model/b": np.float32([[1.5, np.nan, -0.0], [np.inf, 1e-45, 2]]),
    "model/a": np.arange(5).astype(ml_dtypes.bfloat16) / 3,
    "steps": np.int64(2**62 + 1),
    "flag": np.asarray(True),
    "none": np.zeros((0, 3), np.float16),
}
HEAD = {"step": 7, "cost": {"seconds": 1.5, "hardware": "a „CPU“"}}


@pytest.fixture
def path(tmp_path):
    actual = tmp_path / "model.ckpt-7.safetensors"
    write(actual, ARRAYS, HEAD)
    return actual


def test_what_is_written_is_read_bit_for_bit(path):
    arrays, head = read(path)
    assert list(arrays) == list(ARRAYS), "in their order"
    for name, array in ARRAYS.items():
        kinds = [(stored.dtype, stored.shape, stored.tobytes()) for stored in (array, arrays[name])]
        assert kinds[0] == kinds[1], name
    assert head.items() >= HEAD.items()
    assert read_head(path) == head
    # The library finds the same.
    assert read_head(path)["crc32"]["model/b"] == zlib.crc32(ARRAYS["model/b"].tobytes())
    for name, array in safetensors.numpy.load_file(path).items():
        assert (array.dtype, array.tobytes()) == (ARRAYS[name].dtype, ARRAYS[name].tobytes())


def test_the_digest_is_that_of_the_arrays(path):
    digest = read_head(path)["digest"]
    for arrays, is_equal in (
        (dict(reversed(ARRAYS.items())), True),
        (ARRAYS | {"steps": np.int64(8)}, False),
        (ARRAYS | {"model/b": ARRAYS["model/b"].reshape(3, 2)}, False),
        ({name.replace("none", "no"): array for name, array in ARRAYS.items()}, False),
        (ARRAYS | {"none": ARRAYS["none"].astype(np.float32)}, False),
    ):
        write(path, arrays, {"step": 8})
        assert (read_head(path)["digest"] == digest) == is_equal


def test_no_changed_byte_goes_unnoticed(path):
    content = path.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 4
        path.write_bytes(changed)
        with pytest.raises(UserError) as info:
            read(path)
        assert info.value.code in ("checkpoint_damaged", "other_checkpoint_version"), place


def test_of_arrays_that_are_not_wanted_nothing_is_read(path):
    large = {"model/c": np.float32([3]), "moments": np.zeros(2_000_000), "model/d": np.int8([4])}
    write(path, ARRAYS | large, HEAD)
    content = bytearray(path.read_bytes())
    content[-9] ^= 1  # The last byte but eight is of the moments.
    path.write_bytes(content)
    wanted = "model/", "steps"
    tracemalloc.start()
    arrays, head = read(path, wanted)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert list(arrays) == ["model/b", "model/a", "steps", "model/c", "model/d"]
    assert [arrays["model/c"].tolist(), arrays["model/d"].tolist()] == [[3], [4]]
    assert head == read_head(path)
    assert peak < 1_000_000, "of 16 MB"
    for prefixes in (("moments",), ("model/", "mom"), ("",)):
        with refused("checkpoint_damaged", path, "moments"):
            read(path, prefixes)
    write(path, ARRAYS | large, HEAD)
    assert list(read(path, ("",))[0]) == list(ARRAYS | large)


@pytest.mark.parametrize(
    "change", [lambda c: c[:-1], lambda c: c[:9], lambda c: b"", lambda c: c + b"0"]
)
def test_of_another_length(path, change):
    path.write_bytes(change(path.read_bytes()))
    with refused("checkpoint_damaged", path):
        read_head(path)


def test_files_of_others(path):
    safetensors.numpy.save_file({"a": np.zeros(3)}, path)
    with refused("checkpoint_damaged", path):
        read(path)
    header = b'{"__metadata__": {}, "x": ' + b"[" * 100_000
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with refused("checkpoint_damaged", path):
        read(path)


def test_a_later_version_is_not_damaged(path):
    text = json.dumps({**read_head(path), "version": 2})
    metadata = {"head": text, "crc32": str(zlib.crc32(text.encode()))}
    safetensors.numpy.save_file({"a": np.zeros(3)}, path, metadata)
    with refused("other_checkpoint_version", path, 2):
        read(path)


def test_what_the_system_does_not_let_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with refused("checkpoint_not_read", path):
            read(path)


class Folder(dict):
    """Files by step; time passes only while somebody sleeps, and brings steps by their second."""

    def __init__(self, *steps, **coming):
        self.seconds, self._coming = 0.0, {int(at[1:]): steps for at, steps in coming.items()}
        self._add(steps)

    def _add(self, steps):
        self.update({step: f"file-{step}" for step in steps})

    def sleep(self, seconds):
        assert seconds > 0
        self.seconds += seconds
        for at in sorted(at for at in self._coming if at <= self.seconds):
            self._add(self._coming.pop(at))

    def watch(self, minutes=0, **options):
        return CheckpointWatcher(self.copy, PollPolicy(minutes, 5.0, self.sleep), **options)


def test_without_waiting_it_gives_what_is_there_by_step(capsys):
    folder = Folder(10, 30, 20)
    assert list(folder.watch()) == [(10, "file-10"), (20, "file-20"), (30, "file-30")]
    for least in (11, 20):
        assert list(folder.watch(min_steps=least, done={30})) == [(20, "file-20")]
    assert list(folder.watch(min_steps=31)) == []
    assert (folder.seconds, capsys.readouterr().out) == (0, "")


def test_what_appears_while_it_waits(capsys):
    # 25 appears after 30: an interrupted run continues from an earlier checkpoint.
    folder, steps = Folder(10, 30, 20, s12=[40], s100=[25, 50], s700=[60]), []
    for step, _ in folder.watch(2):
        steps.append(step)
        if step == 50:
            # The time to use one does not count as waiting.
            folder.sleep(600)
    assert steps == [10, 20, 30, 40, 25, 50, 60]
    # Found with the first look afterwards; then two minutes without another.
    assert folder.seconds == 100 + 600 + 120
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all("2 minutes" in line for line in lines)


def test_it_ends_with_the_last_step():
    # The run is given more steps while it is followed.
    folder = Folder(10, s7=[40], s21=[50])
    watcher = folder.watch(60, last_step=lambda: 50 if 40 in folder else 40)
    assert [step for step, _ in watcher] == [10, 40, 50]
    assert folder.seconds == 25
    # It was there, and done, before.
    watcher = folder.watch(60, last_step=lambda: 50, done={40, 50})
    assert [step for step, _ in watcher] == [10]
    assert folder.seconds == 25


def test_no_pause_is_longer_than_what_is_left_of_the_wait():
    pauses = []
    assert len(list(PollPolicy(0.2, 5.0, pauses.append).poll("checkpoint"))) == 4
    assert pauses == [5.0, 5.0, 2.0]


def test_what_is_deleted_before_its_turn(capsys):
    folder = Folder(10, 20, 30)
    watcher, steps = folder.watch(), []
    for step, _ in watcher:
        steps.append(step)
        folder.pop(20, None)
    assert steps == [10, 30]
    assert set(watcher.skipped) == {20}
    assert "file-20" in watcher.skipped[20]
    (line,) = capsys.readouterr().out.splitlines()
    assert watcher.skipped[20] in line


def test_an_incomplete_file_is_read_after_a_pause_and_a_deleted_one_is_not():
    folder = Folder(5, 10, 20, 30)

    def load(path):
        if path == "file-5":
            del folder[5]
        if path != "file-10" and (path, folder.seconds) != ("file-20", 5):
            raise UserError(f"{path} is damaged")

    watcher = folder.watch()
    assert [step for step, _ in watcher.load_each(load)] == [10, 20]
    assert "file-5" in watcher.skipped.pop(5)
    assert watcher.skipped == {30: "file-30 is damaged"}
    assert folder.seconds == 10, "one pause each for 20 and 30"


def test_the_first_is_waited_for(capsys):
    folder = Folder(s12=[10])
    assert not wait_for(folder.copy, PollPolicy(), "file")
    policy = PollPolicy(2, 5.0, folder.sleep)
    assert wait_for(folder.copy, policy, "file") == {10: "file-10"}
    assert folder.seconds == 15
    assert capsys.readouterr().out.count("\n") == 1
    assert wait_for(lambda: 0, policy, "file") == 0
    assert folder.seconds == 15 + 120


def test_names_and_steps(tmp_path):
    for name in ("news.en-5", "news.en-10", "a-b-7", "news.en-5.partial", "news.en.json", "-3"):
        (tmp_path / name).touch()
    assert files_by_name_and_step(tmp_path) == {
        "news.en": {5: str(tmp_path / "news.en-5"), 10: str(tmp_path / "news.en-10")},
        "a-b": {7: str(tmp_path / "a-b-7")},
    }
    assert files_by_name_and_step(tmp_path / "nowhere") == {}
