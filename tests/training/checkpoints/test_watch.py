"""Following with a clock that is not real: what appears, what disappears, and when it ends."""

import pytest

from t2t_keras.errors import UserError
from t2t_keras.training.checkpoints.watch import (
    CheckpointWatcher,
    PollPolicy,
    files_by_name_and_step,
    first_found,
)


class Folder(dict):
    """Files by step; time passes only while somebody sleeps, and brings the events of a second."""

    def __init__(self, *steps):
        self.seconds, self.events = 0.0, {}
        self.add(*steps)

    def add(self, *steps):
        self.update({step: f"file-{step}" for step in steps})

    def remove(self, *steps):
        for step in steps:
            del self[step]

    def sleep(self, seconds):
        assert seconds > 0
        self.seconds += seconds
        for at in sorted(at for at in self.events if at <= self.seconds):
            self.events.pop(at)()

    def policy(self, wait_minutes=0):
        return PollPolicy(wait_minutes, 5.0, self.sleep)

    def watch(self, wait_minutes=0, **options):
        return CheckpointWatcher(lambda: dict(self), self.policy(wait_minutes), **options)


@pytest.fixture
def folder():
    return Folder(10, 30, 20)


def test_without_waiting_it_gives_what_is_there_by_step(folder, capsys):
    assert list(folder.watch()) == [(10, "file-10"), (20, "file-20"), (30, "file-30")]
    assert list(folder.watch(min_steps=15, done={30})) == [(20, "file-20")]
    assert (folder.seconds, capsys.readouterr().out) == (0, "")


def test_what_appears_while_it_waits(folder, capsys):
    # 25 appears after 30: an interrupted run continues from an earlier checkpoint.
    folder.events = {12: lambda: folder.add(40), 100: lambda: folder.add(25, 50)}
    assert [step for step, _ in folder.watch(2)] == [10, 20, 30, 40, 25, 50]
    # Found with the first look afterwards; then two minutes without another.
    assert folder.seconds == 100 + 120
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all("2 minutes" in line for line in lines)


def test_the_time_to_use_one_does_not_count_as_waiting(folder):
    folder.events = {500: lambda: folder.add(40)}
    steps = []
    for step, _ in folder.watch(2):
        steps.append(step)
        if step == 30:
            folder.sleep(500)
    assert (steps, folder.seconds) == ([10, 20, 30, 40], 500 + 120)


def test_it_ends_with_the_last_step(folder):
    # The run is given more steps while it is followed.
    last = [40]
    folder.events = {
        7: lambda: (folder.add(40), last.append(50)),
        21: lambda: folder.add(50),
    }
    watcher = folder.watch(60, last_step=lambda: last[-1])
    assert [step for step, _ in watcher] == [10, 20, 30, 40, 50]
    assert folder.seconds == 25
    # It was there, and done, before.
    watcher = folder.watch(60, last_step=lambda: 50, done={40, 50})
    assert [step for step, _ in watcher] == [10, 20, 30]
    assert folder.seconds == 25


def test_what_is_deleted_before_its_turn(folder, capsys):
    watcher, steps = folder.watch(), []
    for step, _ in watcher:
        steps.append(step)
        if step == 10:
            folder.remove(10, 20)
    assert steps == [10, 30]
    assert set(watcher.skipped) == {20}
    assert capsys.readouterr().out == f"file-20 is skipped: {watcher.skipped[20]}.\n"


def test_an_incomplete_file_is_read_after_a_pause_and_a_deleted_one_is_not(folder):
    good = {"file-10"}

    def load(path):
        if path == "file-5":
            folder.remove(5)
        if path not in good:
            raise UserError(f"{path} is damaged")

    folder.add(5)
    folder.events = {3: lambda: good.add("file-20")}
    watcher = folder.watch()
    assert [step for step, _ in watcher.loaded(load)] == [10, 20]
    assert watcher.skipped == {5: "it was deleted while it was read", 30: "file-30 is damaged"}
    assert folder.seconds == 10, "one pause each for 20 and 30"


def test_the_first_is_waited_for(capsys):
    folder = Folder()
    folder.events = {12: lambda: folder.add(10)}
    assert not first_found(lambda: dict(folder), PollPolicy(), "file")
    assert first_found(lambda: dict(folder), folder.policy(2), "file") == {10: "file-10"}
    assert folder.seconds == 15
    assert capsys.readouterr().out.count("\n") == 1
    assert first_found(lambda: 0, folder.policy(2), "file") == 0
    assert folder.seconds == 15 + 120


def test_names_and_steps(tmp_path):
    for name in ("news.en-5", "news.en-10", "a-b-7", "news.en-5.partial", "news.en.json", "-3"):
        (tmp_path / name).touch()
    assert files_by_name_and_step(tmp_path) == {
        "news.en": {5: str(tmp_path / "news.en-5"), 10: str(tmp_path / "news.en-10")},
        "a-b": {7: str(tmp_path / "a-b-7")},
    }
    assert files_by_name_and_step(tmp_path / "nowhere") == {}
