"""How a run is watched and kept, and how it ended."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.settings import override, setting


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """How a run is watched and kept.

    Nothing here changes what a step computes, but for the masks of dropout, which are others with
    `xla` and with another `cpu_replicas`.

    Raises:
      UserError: options that need or exclude each other; see `train_options`.
    """

    save_checkpoints_secs: float = setting(
        600.0, "seconds of training between checkpoints, without evaluations", minimum=0
    )
    keep_checkpoint_max: int = setting(
        20, "checkpoints to keep; one more is on disk while one is written", minimum=1
    )
    local_eval_frequency: int = setting(
        1000, "steps between evaluations on the dev set; 0 = by time alone", minimum=0
    )
    # As often as a checkpoint is saved: a slow run is measured as often as it can be continued.
    eval_secs: float = setting(
        600.0,
        "seconds between evaluations, at first 60; 0 = by steps alone",
        minimum=0,
    )
    eval_steps: int = setting(0, "most batches of an evaluation; 0 = the whole dev set", minimum=0)
    eval_bleu: bool = setting(False, "score translations of the dev set: BLEU, or F1 of parses")
    best_by: str = setting(
        "loss",
        "criterion for the best weights: loss, or a score of eval_bleu, as chrf",
    )
    eval_early_stopping_steps: int = setting(
        0, "patience in steps; 0 = never stop early", minimum=0
    )
    schedule: str = setting(
        "train_and_evaluate",
        "train, evaluate, or both",
        choices=("train", "evaluate", "train_and_evaluate"),
    )
    warm_start_from: str = setting(
        "", "run or checkpoint to take the first weights from", is_path=True
    )
    adapt_vocabulary: bool = setting(
        False,
        "allow it another vocabulary; new pieces begin as means of old ones",
    )
    drop_layers: bool = setting(False, "allow it more layers; evenly spread ones are kept")
    xla: bool = setting(False, "compile the step with XLA for a few fixed shapes (JAX always does)")
    cpu_replicas: int = setting(
        1, "replicas that share a CPU's cores; 1 = one has all of them", minimum=1
    )
    profile_steps: tuple[int, ...] = setting(
        (), "first and last step to trace, as 100,110, counted from 1", minimum=1
    )
    worker_start_secs: float = setting(
        300.0, "seconds to wait for other workers to start", minimum=1
    )
    worker_timeout_secs: float = setting(
        60.0, "seconds without a heartbeat after which a worker counts as lost", minimum=1
    )

    def __post_init__(self) -> None:
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
                f"{','.join(map(str, self.profile_steps))}.",
                code="bad_value",
            )

    def profiled_steps(self) -> range:
        """Returns the steps to trace, counted from 1."""
        steps = self.profile_steps
        return range(steps[0], steps[1] + 1) if len(steps) == 2 else range(0)

    def first_weights(self) -> dict[str, Any]:
        """Returns the options that say which weights a new run starts from; {} = fresh ones."""
        if not self.warm_start_from:
            return {}
        return {
            "warm_start_from": str(Path(self.warm_start_from).resolve()),
            "adapt_vocabulary": self.adapt_vocabulary,
            "drop_layers": self.drop_layers,
        }


def train_options(changes: Mapping[str, Any]) -> TrainOptions:
    """Returns options by name, over the defaults.

    Raises:
      UserError: no such option, a wrong type, a value out of range, or values that do not fit.
    """
    return override(TrainOptions(), changes, what="option")


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """How a run ended.

    Attributes:
      step: optimizer steps done since the beginning of the run.
      checkpoint: the newest checkpoint's path.
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
