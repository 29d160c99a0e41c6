"""The cost of a run: its time by activity, and its tokens and seconds since the first step."""

import collections
import contextlib
import dataclasses
import platform
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.environment import usable_cores
from t2t_keras.errors import UserError
from t2t_keras.training.checkpoint_files import (
    checkpoint_at,
    checkpoint_paths,
    known_step_of,
    read_head,
)

ACTIVITIES = ("start", "input", "step", "evaluation", "checkpoint", "other")
START, INPUT, STEP, EVALUATION, CHECKPOINT, OTHER = ACTIVITIES
_HEAD_KEY = "cost"
_SEPARATOR = ", then "  # Between the names of successive hardware.


class RunClock:
    """Seconds of a process by activity, on a monotonic clock.

    The activity "start" lasts until the first step is finished: workers connect, the model is made
    and restored, functions are compiled, arrays are read. Without steps it ends at the first
    evaluation or checkpoint.
    """

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(ACTIVITIES, 0.0)
        # The current activity, and the one that follows a `spent_on` block.
        self._activity = self._default_activity = START
        self._activity_start = self._training_start = time.monotonic()

    @contextlib.contextmanager
    def spent_on(self, activity: str) -> Iterator[None]:
        """Counts the block's time as one of `ACTIVITIES`; blocks must not be nested."""
        if activity in (EVALUATION, CHECKPOINT):
            self.end_start()
        self._begin(START if self._default_activity == START else activity)
        try:
            yield
        finally:
            self._begin(self._default_activity)

    def end_start(self) -> None:
        """Ends the activity "start", after the first finished step; later calls change nothing."""
        self._default_activity = OTHER
        self._begin(OTHER)

    def begin_training(self) -> None:
        """Starts the count of `training_seconds`, before the first step."""
        self._training_start = time.monotonic()

    def training_seconds(self) -> float:
        """Returns the seconds of the steps, without evaluations and checkpoints."""
        pauses = self._seconds[EVALUATION] + self._seconds[CHECKPOINT]
        return time.monotonic() - self._training_start - pauses

    def seconds(self) -> dict[str, float]:
        """Returns seconds by activity; their sum is the time since this clock was made."""
        self._begin(self._activity)
        shown_activities = ACTIVITIES[:1] if self._default_activity == START else ACTIVITIES
        return {activity: self._seconds[activity] for activity in shown_activities}

    def show(self) -> None:
        """Prints the total seconds and the share of each activity."""
        seconds = self.seconds()
        total = max(sum(seconds.values()), 1e-9)
        shares = ", ".join(
            f"{activity} {duration / total:.1%}" for activity, duration in seconds.items()
        )
        print(f"Of {total:,.1f} s: {shares}.", flush=True)

    def _begin(self, activity: str) -> None:
        now = time.monotonic()
        self._seconds[self._activity] += now - self._activity_start
        self._activity, self._activity_start = activity, now


@dataclasses.dataclass(frozen=True)
class TrainingCost:
    """The cost of a run up to a step, recorded in the head of each checkpoint.

    Attributes:
      target_tokens: target tokens trained on, including EOS but not padding.
      seconds: wall-clock time of the steps, including compilation, without evaluations and the
        writing of checkpoints.
      hardware: the hardware, as named by `hardware_name`.
      epoch_sums: `token_sums` of the training since the last evaluation, for continuing the run.
    """

    target_tokens: int = 0
    seconds: float = 0.0
    hardware: str = ""
    epoch_sums: Mapping[str, float] = dataclasses.field(default_factory=dict)


class CostMeter:
    """Adds the tokens and seconds of this process to the earlier cost of the run.

    `earlier_cost` is None if it is unknown; then the total cost is unknown too. `clock` has the
    seconds of this process.

    Attributes:
      tokens: target tokens of the steps of this process; the trainer counts them.
    """

    def __init__(self, earlier_cost: TrainingCost | None, hardware: str, clock: RunClock):
        self._earlier_cost, self._hardware, self._clock = earlier_cost, hardware, clock
        self.tokens = 0

    def scalars(self) -> dict[str, float]:
        """Returns {"training_seconds"} of the whole run, see `TrainingCost`; {} = unknown."""
        if self._earlier_cost is None:
            return {}
        seconds = self._earlier_cost.seconds + self._clock.training_seconds()
        return {"training_seconds": round(seconds, 3)}

    def head(self, epoch_sums: Mapping[str, float] | None = None) -> dict[str, Any]:
        """Returns the cost for a checkpoint's head; {} = unknown."""
        if self._earlier_cost is None:
            return {}
        names = [*filter(None, self._earlier_cost.hardware.split(_SEPARATOR)), self._hardware]
        cost = TrainingCost(
            target_tokens=self._earlier_cost.target_tokens + self.tokens,
            seconds=round(self._earlier_cost.seconds + self._clock.training_seconds(), 3),
            hardware=_SEPARATOR.join(dict.fromkeys(names)),
            epoch_sums=dict(epoch_sums or {}),
        )
        return {_HEAD_KEY: dataclasses.asdict(cost)}


def cost_in(head: Mapping[str, Any]) -> TrainingCost | None:
    """Returns the cost in a checkpoint's head; None = unknown."""
    return TrainingCost(**head[_HEAD_KEY]) if _HEAD_KEY in head else None


def copy_cost(head: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the cost in a checkpoint's head, for the head of a checkpoint derived from it."""
    return {_HEAD_KEY: head[_HEAD_KEY]} if _HEAD_KEY in head else {}


def read_cost(checkpoint: str | Path) -> TrainingCost | None:
    """Returns the cost of a checkpoint; None if it is unknown or cannot be read."""
    with contextlib.suppress(UserError):
        return cost_in(read_head(checkpoint_at(checkpoint)))
    return None


def read_costs(directory: str | Path) -> dict[int, TrainingCost]:
    """Returns the known costs of the checkpoints in a directory, by step."""
    costs = {known_step_of(path): read_cost(path) for path in checkpoint_paths(directory)}
    return {step: cost for step, cost in costs.items() if cost}


def hardware_name(gpus: Sequence[str] = (), workers: int = 1) -> str:
    """Returns the name of the hardware, such as "8 x P100"; without GPUs, the CPU's.

    `gpus` are the names of the GPUs of one worker.
    """
    counts = collections.Counter(gpus)
    name = " + ".join(f"{count} x {name}" for name, count in counts.items())
    cores = usable_cores()
    name = name or f"{cores} core{'s' * (cores > 1)} of {_cpu_name()}"
    return name if workers == 1 else f"{workers} workers of {name}"


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if match := re.search(r"^model name\s*:\s*(.+)", text, re.MULTILINE):
            return match[1].strip()
    return platform.processor() or platform.machine()
