"""What a run costs: time by what it is spent on, and tokens and seconds since its first step."""

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
    checkpoint_paths,
    existing_checkpoint,
    known_step_of,
    read_head,
)

PARTS = ("start", "input", "step", "evaluation", "checkpoint", "other")
START, INPUT, STEP, EVALUATION, CHECKPOINT, OTHER = PARTS
_IN_HEAD = "cost"
_THEN = ", then "  # Joins the names of successive hardware.


class RunClock:
    """Seconds of a process by what they were spent on; setting the system's time changes none.

    All until the first step is finished is the start: workers meet, the model is made and restored,
    functions are compiled, arrays read. Without a step it ends with an evaluation or checkpoint.
    """

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(PARTS, 0.0)
        # What is done now, and what is done where nothing else is.
        self._part = self._otherwise = START
        self._since = self._trained_since = time.monotonic()

    @contextlib.contextmanager
    def spent_on(self, part: str) -> Iterator[None]:
        """Counts the time within for one of `PARTS`; blocks must not be nested."""
        if part in (EVALUATION, CHECKPOINT):
            self.end_start()
        self._begin(START if self._otherwise == START else part)
        try:
            yield
        finally:
            self._begin(self._otherwise)

    def end_start(self) -> None:
        """Ends the start, if it has not ended yet: a step is finished."""
        self._otherwise = OTHER
        self._begin(OTHER)

    def begin_training(self) -> None:
        """Begins to count `training_seconds`, before the first step."""
        self._trained_since = time.monotonic()

    def training_seconds(self) -> float:
        """Returns the seconds of the steps, without those of evaluations and checkpoints."""
        pauses = self._seconds[EVALUATION] + self._seconds[CHECKPOINT]
        return time.monotonic() - self._trained_since - pauses

    def seconds(self) -> dict[str, float]:
        """Returns seconds by part, which are together those since this was made."""
        self._begin(self._part)
        shown = PARTS[:1] if self._otherwise == START else PARTS
        return {part: self._seconds[part] for part in shown}

    def show(self) -> None:
        """Prints the seconds in all and the share of each part."""
        seconds = self.seconds()
        total = max(sum(seconds.values()), 1e-9)
        shares = ", ".join(f"{part} {spent / total:.1%}" for part, spent in seconds.items())
        print(f"Of {total:,.1f} s: {shares}.", flush=True)

    def _begin(self, part: str) -> None:
        now = time.monotonic()
        self._seconds[self._part] += now - self._since
        self._part, self._since = part, now


@dataclasses.dataclass(frozen=True)
class TrainingCost:
    """What a run has cost up to a step, as the head of each checkpoint holds it.

    Attributes:
      target_tokens: real target tokens learned from, EOS counted, padding not.
      seconds: wall-clock of the steps, from the first one's compilation on, without evaluations
        and the writing of checkpoints.
      hardware: what it ran on, as `hardware_name` calls it.
      epoch_sums: `token_sums` of the training since the last evaluation, for a run that continues.
    """

    target_tokens: int = 0
    seconds: float = 0.0
    hardware: str = ""
    epoch_sums: Mapping[str, float] = dataclasses.field(default_factory=dict)


class CostMeter:
    """Adds the tokens and seconds of this process to what a run has cost before.

    `before` is None where a run continues and its cost is unknown, which it stays then. `clock`
    has the seconds of this process.
    """

    def __init__(self, before: TrainingCost | None, hardware: str, clock: RunClock):
        self._before, self._hardware, self._clock = before, hardware, clock
        self._tokens = 0

    def add_tokens(self, target_tokens: float) -> None:
        """Counts the target tokens of a step."""
        self._tokens += int(target_tokens)

    def scalars(self) -> dict[str, float]:
        """Returns {"training_seconds"} of the whole run, see `TrainingCost`; {} = unknown."""
        if self._before is None:
            return {}
        seconds = self._before.seconds + self._clock.training_seconds()
        return {"training_seconds": round(seconds, 3)}

    def head(self, epoch_sums: Mapping[str, float] | None = None) -> dict[str, Any]:
        """Returns the cost for a checkpoint's head; {} = unknown."""
        if self._before is None:
            return {}
        hardware = [*filter(None, self._before.hardware.split(_THEN)), self._hardware]
        cost = TrainingCost(
            target_tokens=self._before.target_tokens + self._tokens,
            seconds=round(self._before.seconds + self._clock.training_seconds(), 3),
            hardware=_THEN.join(dict.fromkeys(hardware)),
            epoch_sums=dict(epoch_sums or {}),
        )
        return {_IN_HEAD: dataclasses.asdict(cost)}


def cost_in(head: Mapping[str, Any]) -> TrainingCost | None:
    """Returns the cost in a checkpoint's head; None = unknown."""
    return TrainingCost(**head[_IN_HEAD]) if _IN_HEAD in head else None


def same_cost(head: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the cost for the head of a checkpoint that is made from one with this head."""
    return {_IN_HEAD: head[_IN_HEAD]} if _IN_HEAD in head else {}


def read_cost(checkpoint: str | Path) -> TrainingCost | None:
    """Returns the cost of a checkpoint; None where it is unknown or cannot be read."""
    with contextlib.suppress(UserError):
        return cost_in(read_head(existing_checkpoint(checkpoint)))
    return None


def read_costs(directory: str | Path) -> dict[int, TrainingCost]:
    """Returns the known costs of the checkpoints in a directory, by step."""
    costs = {known_step_of(path): read_cost(path) for path in checkpoint_paths(directory)}
    return {step: cost for step, cost in costs.items() if cost}


def hardware_name(gpus: Sequence[str] = (), workers: int = 1) -> str:
    """Returns what workers with these GPUs each (none = the CPU) compute on, as "8 x P100"."""
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
