"""What a run has cost, over all its processes, at each checkpoint kept: `training_cost.json`."""

import collections
import contextlib
import dataclasses
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from t2t_keras.environment import usable_cores
from t2t_keras.errors import UserError
from t2t_keras.io.state import read_json, write_json
from t2t_keras.training.checkpoints.names import (
    NPZ_SUFFIX,
    TENSORFLOW_SUFFIX,
    checkpoint_paths,
    step_of,
)

_FILE = "training_cost.json"
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
    """Adds up what the steps of a run cost, going on from the entry of `step`, where it begins."""

    def __init__(self, output_dir: str | Path, step: int, hardware: str):
        self._directory, self._tokens, self.hardware = Path(output_dir), 0, hardware
        self._before = read_costs(output_dir).get(step) if step else TrainingCost()
        if self._before is None:
            path = self._directory / _FILE
            print(f"{path} has no entry for step {step:,}: no cost is written.", flush=True)
        # Of the steps between the last evaluation and the checkpoint where this training begins.
        self.epoch_sums = self._before.epoch_sums if self._before else {}

    def add_tokens(self, target_tokens: float) -> None:
        """Counts the target tokens of a step."""
        self._tokens += int(target_tokens)

    def seconds(self, seconds: float) -> float | None:
        """Returns those of the whole run, given those of training in this process; None = unknown.

        See `TrainingCost`.
        """
        return self._before and round(self._before.seconds + seconds, 3)

    def write(
        self,
        step: int,
        seconds: float,
        folder: str = "",
        epoch_sums: Mapping[str, float] | None = None,
    ) -> None:
        """Writes the entry of a checkpoint, where the run's cost is known, before the checkpoint.

        A process that is killed between the two leaves an entry too many, which nobody reads.
        `seconds` are of training in this process; `folder` is the checkpoint's within the run's;
        for `epoch_sums` see `TrainingCost`.
        """
        if before := self._before:
            parts = [*filter(None, before.hardware.split(_THEN)), self.hardware]
            cost = TrainingCost(
                target_tokens=before.target_tokens + self._tokens,
                seconds=self.seconds(seconds),
                hardware=_THEN.join(dict.fromkeys(parts)),
                epoch_sums=epoch_sums or {},
            )
            _write(self._directory / folder, step, cost)


def read_costs(directory: str | Path) -> dict[int, TrainingCost]:
    """Returns the entries of a run by step; {} where there are none, or none that can be read."""
    path = Path(directory) / _FILE
    try:
        content = read_json(path, "It is not used.") if path.exists() else {}
        return {int(step): TrainingCost(**entry) for step, entry in content.items()}
    except UserError as error:
        print(error, flush=True)
    except (ValueError, TypeError) as error:
        print(f"{path} is not used: {error}.", flush=True)
    return {}


def copy_cost(checkpoint: str | Path, output_dir: str | Path) -> None:
    """Gives what was made of a checkpoint, as a mean of which it is the newest, its entry."""
    step = step_of(checkpoint)
    cost = read_costs(Path(checkpoint).parent).get(step)
    if cost is not None:
        _write(output_dir, step, cost)


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


def _write(directory: str | Path, step: int, cost: TrainingCost) -> None:
    """Adds an entry, and removes those of checkpoints that are no longer there."""
    suffixes = NPZ_SUFFIX, TENSORFLOW_SUFFIX
    kept = {step_of(path) for suffix in suffixes for path in checkpoint_paths(directory, suffix)}
    costs = {each: found for each, found in read_costs(directory).items() if each in kept}
    costs[step] = cost
    entries = {str(each): dataclasses.asdict(costs[each]) for each in sorted(costs)}
    write_json(Path(directory) / _FILE, entries)
