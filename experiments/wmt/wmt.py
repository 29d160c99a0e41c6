"""Prints what it takes to repeat the paper's WMT 2014 results: commands, hours and memory.

`python experiments/wmt/wmt.py 1 4 8` prints them for one, four and eight GPUs.
"""

import sys
from typing import NamedTuple

from t2t_keras import hyperparameters
from t2t_keras.environment import hold_back_stderr

with hold_back_stderr():  # TensorFlow greets there.
    from t2t_keras.training.memory import step_memory

LENGTH = 32  # tokens of a sentence, as in the measured steps
GIB = 1 << 30


class Training(NamedTuple):
    """A training of the paper (Table 2)."""

    problem: str
    hparams_set: str
    vocab_size: int
    averaged: int  # number of checkpoints, section 6.1
    bleu: float
    paper_step_ms: int  # on eight P100s, section 5.2
    step_ms: float  # measured on one H200, see README.md


TRAININGS = (
    Training("translate_ende", "transformer_base", 37_000, 5, 27.3, 400, 38.1),
    Training("translate_ende", "transformer_big", 37_000, 20, 28.4, 1000, 86.3),
    Training("translate_enfr", "transformer_big_enfr", 32_000, 20, 41.8, 1000, 86.3),
)


def commands(training: Training) -> str:
    """Returns the commands of a training on one GPU, from the archives to the score."""
    run = f"runs/{training.hparams_set.removeprefix('transformer_')}"
    return f"""\
backend=jax gpus=1 seconds={seconds_between_checkpoints(training, 1)}
# For several GPUs: gpus and seconds from their line of the table.
t2t-datagen --problem={training.problem} --tmp_dir=archives --data_dir=data
KERAS_BACKEND=$backend t2t-trainer --problem={training.problem} --data_dir=data \\
    --output_dir={run} --hparams_set={training.hparams_set} \\
    --hparams=compute_dtype=bfloat16,microbatch_tokens=auto --worker_gpu=$gpus \\
    --save_checkpoints_secs=$seconds --keep_checkpoint_max=20 --noeval_bleu
t2t-avg-all --model_dir={run} --output_dir={run}_mean --n={training.averaged}
t2t-decoder --output_dir={run}_mean --eval_use_test_set    # the paper: {training.bleu} BLEU"""


def seconds_between_checkpoints(training: Training, gpus: int) -> int:
    """Returns the time of as many steps as the paper made in ten minutes (section 6.1)."""
    steps = 600_000 / training.paper_step_ms
    return round(steps * training.step_ms / 1000 / gpus)


def gibibytes(training: Training, tokens: int) -> float:
    """Returns the estimated memory of a step in a replica, with `tokens` of a side at once."""
    hparams = hyperparameters.hparams(training.hparams_set, "compute_dtype=bfloat16")
    memory = step_memory(hparams, (training.vocab_size, None), tokens, LENGTH, accumulates=True)
    return memory["at most"] / GIB


def main(*gpu_counts: int) -> None:
    """Prints the commands of each training, and a line for each number of GPUs."""
    for training in TRAININGS:
        hparams = hyperparameters.hparams(training.hparams_set)
        hours = hparams.train_steps * training.step_ms / 3_600_000
        print(f"== {training.hparams_set}, {training.problem}: {hparams.train_steps:,} steps\n")
        print("gpus  seconds  hours  GiB each, all tokens at once  GiB each, 4,096 at once")
        for gpus in gpu_counts:
            tokens = hparams.batch_tokens // gpus
            seconds = seconds_between_checkpoints(training, gpus)
            whole, part = (gibibytes(training, count) for count in (tokens, min(tokens, 4096)))
            print(f"{gpus:4}  {seconds:7}  {hours / gpus:5.1f}  {whole:28.1f}  {part:23.1f}")
        print(f"\n{commands(training)}\n")
    print(
        "Hours are of H200s with JAX, divided evenly among several GPUs. Memory is estimated, to "
        "about\n25 %. Both are for steps without padding. experiments/wmt/README.md says what was "
        "measured."
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ("1", "4", "8")))
