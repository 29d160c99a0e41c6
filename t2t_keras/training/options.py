"""How a run is watched and kept, and how it ended."""

import dataclasses
import re
import typing
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.settings import convert

SCHEDULES = ("train", "evaluate", "train_and_evaluate")
# The least values of options other than 0.
_LEAST = dict(keep_checkpoint_max=1, cpu_replicas=1, worker_start_secs=1, worker_timeout_secs=1)


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """How a run is watched and kept.

    Nothing here changes what a step computes, but for the masks of dropout, which are others with
    `xla` and with another `cpu_replicas`.

    Attributes:
      save_checkpoints_secs: seconds of training between two checkpoints (section 6.1: 10
        minutes); evaluations do not count.
      keep_checkpoint_max: number of checkpoints kept; one more is on disk while one is written.
      local_eval_frequency: steps between two evaluations on the dev set; 0 = by time alone.
      eval_secs: seconds of training between two evaluations, where `local_eval_frequency` brings
        none earlier; 0 = by steps alone. By default as often as a checkpoint is saved, so that
        a slow run is measured as often as it can be taken up again. The first one of a run comes
        after a minute at the latest, to show soon whether anything is learned.
      eval_steps: most batches of an evaluation; 0 = the whole dev set.
      eval_bleu: whether the dev set is translated and scored as well, once its accuracy allows a
        score above 0.
      best_by: what tells the best weights, which `best/` keeps: "loss", or a number of the
        problem's score by its name, as bleu or chrf, the larger the better, which needs
        `eval_bleu`.
      eval_early_stopping_steps: the run ends when that has not improved for so many steps; 0 =
        never.
      schedule: one of `SCHEDULES`.
      warm_start_from: a run's directory, or a checkpoint, whose weights a new run starts from.
      adapt_vocabulary: whether that run may have another vocabulary than the data: rows of shared
        pieces are kept, those of new ones are the means of their old pieces'.
      drop_layers: whether that run may have more layers, of which evenly spread ones are kept.
      xla: whether TensorFlow's forward and backward pass is compiled by XLA for a few fixed
        shapes; JAX's always is.
      cpu_replicas: on a CPU, the replicas among which its cores are divided; 1 = all cores work on
        each product together.
      profile_steps: "first,last": the steps of the run to trace, counted from 1; "" = none.
      worker_start_secs: seconds that several workers wait for each other to start.
      worker_timeout_secs: seconds without a heartbeat after which a worker counts as lost.

    Raises:
      UserError: a value has the wrong type, `schedule` or `profile_steps` has no such value, or a
        number is too small.
    """

    save_checkpoints_secs: float = 600
    keep_checkpoint_max: int = 20
    local_eval_frequency: int = 1000
    eval_secs: float = 600
    eval_steps: int = 0
    eval_bleu: bool = False
    best_by: str = "loss"
    eval_early_stopping_steps: int = 0
    schedule: str = "train_and_evaluate"
    warm_start_from: str = ""
    adapt_vocabulary: bool = False
    drop_layers: bool = False
    xla: bool = False
    cpu_replicas: int = 1
    profile_steps: str = ""
    worker_start_secs: float = 300
    worker_timeout_secs: float = 60

    def __post_init__(self) -> None:
        for name, kind in typing.get_type_hints(type(self)).items():
            value = getattr(self, name)
            value = str(value) if isinstance(value, Path) else value
            object.__setattr__(self, name, convert(value, kind, f"--{name}"))
        if self.schedule not in SCHEDULES:
            raise UserError(
                f"--schedule: expected {' or '.join(SCHEDULES)}, got {self.schedule}.",
                code="bad_value",
            )
        if self.best_by != "loss" and not self.eval_bleu:
            raise UserError(
                f"--best_by={self.best_by} needs scores of the dev set: give --eval_bleu as well.",
                code="conflicting_settings",
            )
        for name in ("adapt_vocabulary", "drop_layers"):
            if getattr(self, name) and not self.warm_start_from:
                raise UserError(f"--{name} needs --warm_start_from.", code="conflicting_settings")
        if self.adapt_vocabulary and self.drop_layers:
            raise UserError(
                "--adapt_vocabulary and --drop_layers exclude each other.",
                code="conflicting_settings",
            )
        if self.profile_steps and not self.profiled_steps():
            raise UserError(
                f"--profile_steps: expected the first and the last step to trace, as 100,110; got "
                f"'{self.profile_steps}'.",
                code="bad_value",
            )
        for name, value in vars(self).items():
            least = _LEAST.get(name, 0)
            if not isinstance(value, str) and not value >= least:
                raise UserError(
                    f"--{name}: expected a number >= {least}, got {value}.", code="bad_value"
                )

    def profiled_steps(self) -> range:
        """Returns the steps to trace, counted from 1."""
        match = re.fullmatch("([0-9]+),([0-9]+)", self.profile_steps)
        first, last = map(int, match.groups()) if match else (0, 0)
        return range(first, last + 1) if first else range(0)

    def first_weights(self) -> dict[str, Any]:
        """Returns the options that say which weights a new run starts from; {} = fresh ones."""
        if not self.warm_start_from:
            return {}
        return {
            "warm_start_from": str(Path(self.warm_start_from).resolve()),
            "adapt_vocabulary": self.adapt_vocabulary,
            "drop_layers": self.drop_layers,
        }


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """How a run ended.

    Attributes:
      step: optimizer steps done since the beginning of the run.
      checkpoint: the newest checkpoint's path prefix.
      evaluation: the last scalars of the dev set, {} where there was no evaluation.
      signal: number of the signal that ended the run early, or 0.
      history: lists with an entry for each epoch of the run, those before it was continued too;
        see `t2t_keras.train`.
      model: the trained model, a `keras.Model`. With `ema_decay` it has the weights of the last
        step; `evaluation`, the history's "val_..." and `best/` are of their moving average.
    """

    step: int
    checkpoint: str
    evaluation: dict[str, float]
    signal: int
    history: dict[str, list[float]] = dataclasses.field(repr=False)
    model: Any = dataclasses.field(repr=False)
