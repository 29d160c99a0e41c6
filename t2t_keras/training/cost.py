"""What a run has cost, over all its processes: in the head of each checkpoint."""

import collections
import contextlib
import dataclasses
import platform
import re
from collections.abc import Mapping, Sequence
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

_IN_HEAD = "cost"
# Between the names of what a run was trained on, one after the other.
_THEN = ", then "


@dataclasses.dataclass(frozen=True)
class TrainingCost:
    """What a run has cost up to a step.

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
    """Adds up what the steps of a run cost, going on from what it had cost before.

    `before` is None where a run continues and that is not known: then its cost stays unknown.
    """

    def __init__(self, before: TrainingCost | None, hardware: str):
        self._before, self._tokens, self.hardware = before, 0, hardware
        # Of the steps between the last evaluation and the checkpoint where this training begins.
        self.epoch_sums = before.epoch_sums if before else {}

    def add_tokens(self, target_tokens: float) -> None:
        """Counts the target tokens of a step."""
        self._tokens += int(target_tokens)

    def seconds(self, seconds: float) -> float | None:
        """Returns those of the whole run, given those of training in this process; None = unknown.

        See `TrainingCost`.
        """
        return None if self._before is None else round(self._before.seconds + seconds, 3)

    def head(self, seconds: float, epoch_sums: Mapping[str, float] | None = None) -> dict[str, Any]:
        """Returns what a checkpoint's head says of the cost; {} = unknown.

        `seconds` are of training in this process; for `epoch_sums` see `TrainingCost`.
        """
        if not (before := self._before):
            return {}
        parts = [*filter(None, before.hardware.split(_THEN)), self.hardware]
        cost = TrainingCost(
            target_tokens=before.target_tokens + self._tokens,
            seconds=round(before.seconds + seconds, 3),
            hardware=_THEN.join(dict.fromkeys(parts)),
            epoch_sums=epoch_sums or {},
        )
        return {_IN_HEAD: dataclasses.asdict(cost)}


def cost_in(head: Mapping[str, Any]) -> TrainingCost | None:
    """Returns what a checkpoint's head says that the training has cost; None = unknown."""
    return TrainingCost(**head[_IN_HEAD]) if _IN_HEAD in head else None


def same_cost(head: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a checkpoint made of another says of the cost, given the other's head."""
    return {_IN_HEAD: head[_IN_HEAD]} if _IN_HEAD in head else {}


def read_cost(checkpoint: str | Path) -> TrainingCost | None:
    """Returns the cost in a checkpoint's head; None where it is unknown or cannot be read."""
    with contextlib.suppress(UserError):
        return cost_in(read_head(existing_checkpoint(checkpoint)))
    return None


def read_costs(directory: str | Path) -> dict[int, TrainingCost]:
    """Returns the known costs of the checkpoints in a directory, by step."""
    costs = {known_step_of(path): read_cost(path) for path in checkpoint_paths(directory)}
    return {step: cost for step, cost in costs.items() if cost}


def hardware_name(gpus: Sequence[str] = (), workers: int = 1) -> str:
    """Returns what workers that have these GPUs each (none = the CPU) compute on: "8 x P100"."""
    counts = collections.Counter(gpus)
    name = " + ".join(f"{count} x {name}" for name, count in counts.items())
    cores = usable_cores()
    name = name or f"{cores} core{'s' * (cores > 1)} of {_cpu_name()}"
    return name if workers == 1 else f"{workers} workers of {name}"


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if found := re.search(r"^model name\s*:\s*(.+)", text, re.MULTILINE):
            return found[1].strip()
    return platform.processor() or platform.machine()
