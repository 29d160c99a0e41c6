"""The checkpoints of a run as they come, or other files that have a step in their names.

A training writes a checkpoint now and then, and removes the oldest ones. What follows it looks
every few seconds, takes the earliest one first, and tells of those that it could not have.
"""

import dataclasses
import re
import time
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path

from t2t_keras.errors import UserError

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
        say: Callable[[str], object] = lambda text: print(text, flush=True),
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
        patience, given, expected = self._patience, set(), {}
        since, told = patience.clock(), False
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
                since, told = patience.clock(), False
                continue
            left = 60 * patience.wait_minutes - (patience.clock() - since)
            if patience.wait_minutes <= 0 or self._is_last(max(there, default=-1)):
                return
            if left <= 0:
                self._say(f"No further {self._what} came in {patience.wait_minutes:g} minutes.")
                return
            if not told:
                self._say(
                    f"Waiting for the next {self._what}, at most {patience.wait_minutes:g} minutes."
                )
                told = True
            patience.sleep(min(patience.poll_seconds, left))

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
