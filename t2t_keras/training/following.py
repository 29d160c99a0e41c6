"""The checkpoints of a run as they come, or other files that have a step in their names.

A training writes a checkpoint now and then, and removes the oldest ones. What follows it looks
every few seconds, takes the earliest one first, and tells of those that it could not have.
"""

import dataclasses
import re
import time
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from t2t_keras.errors import UserError

Found = TypeVar("Found")

_NAME_AND_STEP = re.compile(r"(.+)-(\d+)")


@dataclasses.dataclass(frozen=True)
class Patience:
    """How long to wait for what is not there yet.

    Attributes:
      wait_minutes: the longest wait for the next file; 0 = what is there is all.
      poll_seconds: seconds between two looks.
      clock: gives seconds, of which only differences count.
      sleep: waits for so many seconds.
    """

    wait_minutes: float = 0.0
    poll_seconds: float = 5.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep


NO_WAIT = Patience()


def _print(text: str) -> None:
    print(text, flush=True)


class Wait:
    """A wait for one thing, which somebody looks for every few seconds.

    Args:
      patience: how long to wait.
      what: is waited for, with "next" or "first" before it.
      say: takes the line that tells what is waited for.
    """

    def __init__(self, patience: Patience, what: str, say: Callable[[str], object] = _print):
        self._patience = patience
        self._what = what
        self._say = say
        self._since = patience.clock()
        self._told = False

    def goes_on(self) -> bool:
        """Sleeps until the next look; returns False, at once, when it is to wait no longer."""
        patience = self._patience
        left = 60 * patience.wait_minutes - (patience.clock() - self._since)
        if left <= 0:
            return False
        if not self._told:
            minutes = f"{patience.wait_minutes:g} minutes"
            self._say(f"Waiting for the {self._what}, at most {minutes}.")
            self._told = True
        patience.sleep(min(patience.poll_seconds, left))
        return True


def first_found(find: Callable[[], Found], patience: Patience, what: str) -> Found:
    """Returns what `find` finds first, or what it returned at last, where it found nothing.

    Args:
      find: returns what is true when it is found.
      patience: how long to wait for it.
      what: is looked for.
    """
    wait = Wait(patience, f"first {what}")
    while not (found := find()) and wait.goes_on():
        pass
    return found


class Follower:
    """Gives files of ever later steps as they come; each step once.

    Args:
      files: returns the paths that are there, by step.
      patience: how long to wait for more.
      what: what one is called when it is told of.
      min_steps: earlier steps are none of its business.
      done: steps that need nothing any more.
      last_step: returns the step after which nothing comes; None = not known.
      say: takes the lines that tell what is waited for and what is skipped.

    Attributes:
      skipped: the steps that it could not have, each with the reason.
    """

    def __init__(
        self,
        files: Callable[[], Mapping[int, str]],
        patience: Patience = NO_WAIT,
        *,
        what: str = "checkpoint",
        min_steps: int = 0,
        done: Container[int] = (),
        last_step: Callable[[], int | None] = lambda: None,
        say: Callable[[str], object] = _print,
    ):
        self._files = files
        self._patience = patience
        self._what = what
        self._min_steps = min_steps
        self._done = done
        self._last_step = last_step
        self._say = say
        self.skipped: dict[int, str] = {}

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yields step and path, the earliest first, until nothing more is to come.

        That is when the last step is there, or when nothing came for as long as it waits.
        """
        given, expected, wait = set(), {}, self._wait()
        while True:
            there = self._files()
            found = {step: path for step, path in there.items() if self._wanted(step, given)}
            for step in sorted(expected.keys() - found.keys() - given):
                self._skip(step, expected[step], "it was removed before it could be read")
            expected = found
            if found:
                step = min(found)
                given.add(step)
                yield step, found[step]
                wait = self._wait()
                continue
            minutes = self._patience.wait_minutes
            if minutes <= 0 or self._is_last(max(there, default=-1)):
                return
            if not wait.goes_on():
                self._say(f"No further {self._what} came in {minutes:g} minutes.")
                return

    def loaded(self, load: Callable[[str], object]) -> Iterator[tuple[int, str]]:
        """Yields step and path of each file after `load(path)`.

        One that cannot be loaded is tried once more a moment later, since it may have been read
        while it was written, and is then skipped. One that was removed meanwhile is skipped too.

        Args:
          load: raises `UserError` where it cannot.
        """
        for step, path in self:
            reason = self._reason_not_to_load(load, step, path)
            if reason:
                self._skip(step, path, reason)
            else:
                yield step, path

    def _wait(self) -> Wait:
        return Wait(self._patience, f"next {self._what}", self._say)

    def _wanted(self, step: int, given: Container[int]) -> bool:
        return step >= self._min_steps and step not in self._done and step not in given

    def _is_last(self, step: int) -> bool:
        last = self._last_step()
        return last is not None and step >= last

    def _reason_not_to_load(self, load: Callable[[str], object], step: int, path: str) -> str:
        for pause in (self._patience.poll_seconds, 0.0):
            try:
                load(path)
                return ""
            except UserError as error:
                if step not in self._files():
                    return "it was removed while it was read"
                reason = str(error)
            if pause:
                self._patience.sleep(pause)
        return reason

    def _skip(self, step: int, path: str, reason: str) -> None:
        self.skipped[step] = reason
        self._say(f"{path} is skipped: {reason}.")


def files_by_name_and_step(directory: str | Path) -> dict[str, dict[int, str]]:
    """Returns the paths of the files `<name>-<step>` in a directory, by name and step."""
    found: dict[str, dict[int, str]] = {}
    for path in Path(directory).glob("*"):
        if match := _NAME_AND_STEP.fullmatch(path.name):
            found.setdefault(match[1], {})[int(match[2])] = str(path)
    return found
