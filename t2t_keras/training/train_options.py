"""How a run is watched and kept, and how it ended."""

import dataclasses

SCHEDULES = ("train", "evaluate", "train_and_evaluate")


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """How a run is watched and kept; nothing here changes what a step computes.

    Attributes:
      save_checkpoints_secs: seconds of training between two checkpoints (section 6.1: 10
        minutes); evaluations do not count.
      keep_checkpoint_max: checkpoints kept.
      local_eval_frequency: steps between two evaluations on the dev set.
      eval_steps: most batches of an evaluation; 0 = the whole dev set.
      eval_bleu: whether dev set BLEU is computed as well.
      eval_early_stopping_steps: the run ends when the dev loss has not fallen for so many steps;
        0 = never.
      schedule: one of `SCHEDULES`.
      warm_start_from: a run's directory, or a checkpoint, whose weights a new run starts from.
      xla: whether TensorFlow's forward and backward pass is compiled by XLA for a few fixed
        shapes; JAX's always is.
      cpu_replicas: on a CPU, the replicas among which its cores are divided; 1 = all cores work on
        each product together.
      profile_steps: "first,last": the steps of the run of which a trace is written; "" = none.
      worker_start_secs: seconds that several workers wait for each other at the beginning.
      worker_timeout_secs: seconds that one of them may be silent, or behind the others.
    """

    save_checkpoints_secs: float = 600
    keep_checkpoint_max: int = 20
    local_eval_frequency: int = 1000
    eval_steps: int = 0
    eval_bleu: bool = False
    eval_early_stopping_steps: int = 0
    schedule: str = "train_and_evaluate"
    warm_start_from: str = ""
    xla: bool = False
    cpu_replicas: int = 1
    profile_steps: str = ""
    worker_start_secs: float = 300
    worker_timeout_secs: float = 60


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """How a run ended.

    Attributes:
      step: optimizer steps done since the beginning of the run.
      checkpoint: the newest checkpoint's path prefix.
      evaluation: the last scalars of the dev set, {} where there was no evaluation.
      signal: number of the signal that ended the run early, or 0.
    """

    step: int
    checkpoint: str
    evaluation: dict[str, float]
    signal: int = 0
