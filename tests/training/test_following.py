"""Following with a clock that is not real: what comes, what goes, and when it ends."""

import pytest

from t2t_keras.errors import UserError
from t2t_keras.training.following import (
    Follower,
    Patience,
    files_by_name_and_step,
    first_found,
)


class Clock:
    """Passes only while somebody sleeps; what is to happen at a second then happens."""

    def __init__(self, **events):
        self.seconds = 0.0
        self._events = {float(second[1:]): event for second, event in events.items()}

    def sleep(self, seconds):
        assert seconds > 0
        self.seconds += seconds
        for at in sorted(self._events):
            if at <= self.seconds:
                self._events.pop(at)()

    def patience(self, wait_minutes):
        return Patience(wait_minutes, 5.0, lambda: self.seconds, self.sleep)


class Folder(dict):
    """Files by step."""

    def add(self, *steps):
        return lambda: self.update({step: f"file-{step}" for step in steps})

    def remove(self, *steps):
        return lambda: [self.pop(step) for step in steps]


@pytest.fixture
def folder():
    folder = Folder()
    folder.add(10, 30, 20)()
    return folder


@pytest.fixture
def follower(folder):
    """follower(clock, minutes, ...): follows the folder; `said` has what it tells."""

    def make(clock=None, wait_minutes=0, **options):
        clock, said = clock or Clock(), []
        made = Follower(
            lambda: dict(folder), clock.patience(wait_minutes), say=said.append, **options
        )
        made.said, made.clock = said, clock
        return made

    return make


def test_without_waiting_it_gives_what_is_there_by_step(follower):
    found = follower(min_steps=15, done={30})
    assert list(found) == [(20, "file-20")]
    assert [step for step, _ in follower()] == [10, 20, 30]
    assert (found.said, found.clock.seconds) == ([], 0)


def test_what_comes_while_it_waits(follower, folder):
    # 25 comes after 30: a run that was interrupted goes on from an earlier checkpoint.
    clock = Clock(t12=folder.add(40), t100=folder.add(25, 50))
    found = follower(clock, 2)
    assert [step for step, _ in found] == [10, 20, 30, 40, 25, 50]
    assert found.said == [
        *["Waiting for the next checkpoint, at most 2 minutes."] * 3,
        "No further checkpoint came in 2 minutes.",
    ]
    # Found with the first look after it came; then two minutes without another.
    assert clock.seconds == 100 + 120


def test_the_time_to_use_one_is_no_waiting(follower, folder):
    clock = Clock(t500=folder.add(40))
    steps = []
    for step, _ in follower(clock, 2):
        steps.append(step)
        if step == 30:
            clock.sleep(500)
    assert steps == [10, 20, 30, 40]
    assert clock.seconds == 500 + 120


def test_it_ends_with_the_last_step(follower, folder):
    clock = Clock(t7=folder.add(40), t21=folder.add(50))
    # The run is given more steps while it is followed.
    last = [40, 50]
    found = follower(clock, 60, last_step=lambda: last.pop(0) if len(last) > 1 else last[0])
    assert [step for step, _ in found] == [10, 20, 30, 40, 50]
    assert clock.seconds == 25
    # It was there, and done, before.
    found = follower(wait_minutes=60, last_step=lambda: 50, done={40, 50})
    assert [step for step, _ in found] == [10, 20, 30]
    assert found.clock.seconds == 0


def test_what_is_removed_before_its_turn_is_told(follower, folder):
    found = follower()
    steps = []
    for step, _ in found:
        steps.append(step)
        if step == 10:
            folder.remove(10, 20)()
    assert steps == [10, 30]
    assert found.skipped == {20: "it was removed before it could be read"}
    assert found.said == ["file-20 is skipped: it was removed before it could be read."]


def test_what_is_removed_while_it_is_read(follower, folder):
    def load(path):
        if path == "file-20":
            folder.remove(20)()
            raise UserError("There is no file-20.")

    found = follower()
    assert [step for step, _ in found.loaded(load)] == [10, 30]
    assert found.skipped == {20: "it was removed while it was read"}
    assert found.clock.seconds == 0


def test_what_is_half_written_is_read_a_moment_later(follower, folder):
    good = {"file-10"}

    def load(path):
        if path not in good:
            raise UserError(f"{path} is damaged")

    found = follower(Clock(t3=lambda: good.add("file-20")))
    assert [step for step, _ in found.loaded(load)] == [10, 20]
    assert found.skipped == {30: "file-30 is damaged"}
    assert found.said == ["file-30 is skipped: file-30 is damaged."]
    assert found.clock.seconds == 10


def test_the_first_is_waited_for(capsys):
    folder = Folder()
    clock = Clock(t12=folder.add(10))
    assert not first_found(lambda: dict(folder), Patience(), "file")
    assert first_found(lambda: dict(folder), clock.patience(2), "file") == {10: "file-10"}
    assert clock.seconds == 15
    assert capsys.readouterr().out == "Waiting for the first file, at most 2 minutes.\n"
    assert first_found(lambda: 0, clock.patience(2), "file") == 0
    assert clock.seconds == 15 + 120


def test_names_and_steps(tmp_path):
    for name in ("news.en-5", "news.en-10", "a-b-7", "news.en-5.partial", "news.en.json", "-3"):
        (tmp_path / name).touch()
    assert files_by_name_and_step(tmp_path) == {
        "news.en": {5: str(tmp_path / "news.en-5"), 10: str(tmp_path / "news.en-10")},
        "a-b": {7: str(tmp_path / "a-b-7")},
    }
    assert files_by_name_and_step(tmp_path / "nowhere") == {}
