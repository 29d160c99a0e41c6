"""Waiting for the checkpoints of a run, or for other files that have a step in their names."""

import dataclasses
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from t2t_keras.errors import UserError
from t2t_keras.training.checkpoints.names import checkpoint_paths, known_step_of
from t2t_keras.training.run_config import RunConfig

Found = TypeVar("Found")

_NAME_AND_STEP = re.compile(r"(.+)-(\d+)")


@dataclasses.dataclass(frozen=True)
class PollPolicy:
    """How often to look for a file, and for how long.

    Attributes:
      wait_minutes: the longest wait for the next file; 0 = look only once.
      poll_seconds: seconds between two looks.
      sleep: waits for a number of seconds.
    """

    wait_minutes: float = 0.0
    poll_seconds: float = 5.0
    sleep: Callable[[float], object] = time.sleep

    def looks(self, what: str) -> Iterator[None]:
        """Yields when to look for `what`: at once, and after each pause until the wait is over."""
        yield
        left = 60 * self.wait_minutes
        if left:
            print(f"Waiting for the {what}, at most {self.wait_minutes:g} minutes.", flush=True)
        while left > 0:
            pause = min(self.poll_seconds, left)
            left -= pause
            self.sleep(pause)
            yield


NO_WAIT = PollPolicy()


def first_found(find: Callable[[], Found], policy: PollPolicy, what: str) -> Found:
    """Returns the first true result of `find`, or its last one when the wait is over."""
    for _ in policy.looks(f"first {what}"):
        if found := find():
            break
    return found


class CheckpointWatcher:
    """Iterates over files with steps in their names as they appear; each step once.

    Steps before `min_steps` and those `done` are ignored. `files` returns the existing paths by
    step, `last_step` the step after which nothing comes (None = unknown).

    Attributes:
      skipped: the steps that it missed, each with the reason.
    """

    def __init__(
        self,
        files: Callable[[], Mapping[int, str]],
        policy: PollPolicy = NO_WAIT,
        *,
        what: str = "checkpoint",
        min_steps: int = 0,
        done: Iterable[int] = (),
        last_step: Callable[[], int | None] = lambda: None,
    ):
        self._files, self._policy, self._what = files, policy, what
        self._min_steps, self._given, self._last_step = min_steps, set(done), last_step
        self.skipped: dict[int, str] = {}

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yields step and path, the earliest first, until the last step or the end of the wait."""
        given, new = self._given, dict[int, str]()
        while True:
            for _ in self._policy.looks(f"next {self._what}"):
                existing, before = self._files(), new
                new = {
                    step: path
                    for step, path in existing.items()
                    if step >= self._min_steps and step not in given
                }
                for step in sorted(before.keys() - new.keys() - given):
                    self._skip(step, f"{before[step]} was deleted before it could be read.")
                if new:
                    break
                last = self._last_step() if self._policy.wait_minutes else None
                if last is not None and max(existing, default=-1) >= last:
                    return
            if not new:
                if minutes := self._policy.wait_minutes:
                    print(f"No further {self._what} in {minutes:g} minutes.", flush=True)
                return
            step = min(new)
            given.add(step)
            yield step, new[step]

    def loaded(self, load: Callable[[str], object]) -> Iterator[tuple[int, str]]:
        """Yields step and path of each file after `load(path)`.

        A file of which it raises `UserError` may be incomplete: it is tried again after a pause,
        and then skipped.
        """
        for step, path in self:
            if reason := self._load_error(load, step, path):
                self._skip(step, reason)
            else:
                yield step, path

    def _load_error(self, load: Callable[[str], object], step: int, path: str) -> str:
        for again in (True, False):
            try:
                load(path)
                return ""
            except UserError as error:
                reason = str(error)
            if step not in self._files():
                return f"{path} was deleted while it was read."
            if again:
                self._policy.sleep(self._policy.poll_seconds)
        return reason

    def _skip(self, step: int, reason: str) -> None:
        self.skipped[step] = reason
        print(f"{reason} It is skipped.", flush=True)


def files_by_name_and_step(directory: str | Path) -> dict[str, dict[int, str]]:
    """Returns the paths of the files `<name>-<step>` in a directory, by name and step."""
    found: dict[str, dict[int, str]] = {}
    for path in Path(directory).glob("*"):
        if match := _NAME_AND_STEP.fullmatch(path.name):
            found.setdefault(match[1], {})[int(match[2])] = str(path)
    return found


def follow_run(
    output_dir: str | Path, policy: PollPolicy = NO_WAIT, min_steps: int = 0, **options: Any
) -> CheckpointWatcher:
    """Follows the checkpoints of a run."""
    return CheckpointWatcher(
        lambda: {known_step_of(path): path for path in checkpoint_paths(output_dir)},
        policy,
        min_steps=min_steps,
        # Read each time: a run that is continued may get more steps.
        last_step=lambda: RunConfig.load(output_dir).hparams.train_steps,
        **options,
    )
