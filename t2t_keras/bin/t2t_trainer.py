"""Train a model on a problem, or continue a run as if it had never stopped.

t2t-trainer --problem=translate_ende_toy --data_dir=data --hparams_set=auto --output_dir=runs/toy
t2t-trainer --output_dir=runs/toy

With KERAS_BACKEND=jax it trains without TensorFlow. A run may switch backends.
"""

import dataclasses
from pathlib import Path

from t2t_keras.bin.flags import RUN_FLAGS, command, define_common, given_flags, require
from t2t_keras.data.dataset import datagen_command, open_generated
from t2t_keras.data.problem import Problem, make_problem
from t2t_keras.environment import usable_cores
from t2t_keras.errors import UserError, command_line
from t2t_keras.hyperparameters import HParams
from t2t_keras.io.files import MANIFEST_FILE
from t2t_keras.io.flags import HIDDEN, Flags
from t2t_keras.settings import as_assignments
from t2t_keras.training.backends.cluster import cluster_from_environment
from t2t_keras.training.run_config import (
    AUTO,
    RunConfig,
    TrainOptions,
    merge_flags,
    train_options,
)

_EXAMPLE_PROBLEM = "translate_ende_toy"


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Run")
    define_common(flags, output_dir="Directory of the run; an existing run is continued")
    define_common(flags, "problem", "problem_config")
    define_common(flags, data_dir="Directory that t2t-datagen wrote to")
    define_common(flags, "hparams_set", "hparams", "model")
    meaning = "Last step, counted from the start of the run; default: the set's"
    flags.integer("train_steps", meaning)
    flags.integer("random_seed", "Seed of weights, dropout and data order", 1, 0, 2**32 - 1)
    define_common(flags, "t2t_usr_dir")
    flags.switch("generate_data", "Run t2t-datagen first if --data_dir lacks the data")
    define_common(flags, tmp_dir="--tmp_dir of t2t-datagen, for --generate_data")
    flags.group("Fine-tuning")
    flags.fields(TrainOptions, "warm_start_from", "adapt_vocabulary", "drop_layers")
    flags.group("Evaluation and checkpoints")
    flags.fields(TrainOptions, "schedule", "local_eval_frequency", "eval_secs", "eval_steps")
    flags.fields(TrainOptions, "eval_bleu", "best_by", "eval_early_stopping_steps")
    flags.fields(TrainOptions, "save_checkpoints_secs", "keep_checkpoint_max")
    flags.group("Devices")
    flags.integer("worker_gpu", "Number of GPUs to use; default: all; 0 = the CPU")
    flags.fields(TrainOptions, "cpu_replicas", "xla")
    flags.switch("dry_run", "Print the estimated memory and disk space, and exit; needs no data")
    flags.group(HIDDEN)
    flags.fields(TrainOptions, "profile_steps", "worker_start_secs", "worker_timeout_secs")


@command(define_flags)
def run(flags: Flags) -> int:
    """Trains as the flags say."""
    if not (flags.output_dir and RunConfig.exists(flags.output_dir)):
        _check_new_run(flags)
    # Checks the options before making data.
    options = train_options(given_flags(flags, *vars(TrainOptions())))
    recorded = RunConfig.load(flags.output_dir) if RunConfig.exists(flags.output_dir) else None
    run_flags = given_flags(flags, *RUN_FLAGS, "data_dir", "random_seed", "train_steps")

    def recommend(problem: Problem, data_dir: str) -> HParams:
        from t2t_keras.experiment import recommended_hparams

        if flags.generate_data:
            _generate_missing_data(problem, data_dir, flags.tmp_dir)
        generated = open_generated(problem, data_dir)
        hparams = recommended_hparams(
            generated,
            flags.worker_gpu,
            flags.warm_start_from,
            cpu_replicas=options.cpu_replicas,
        )
        print(f"--hparams_set=auto: {hparams.set_name}, {hparams.train_steps:,} steps.")
        return hparams

    config = merge_flags(recorded, run_flags, recommend)
    if flags.generate_data:
        _generate_missing_data(config.problem, config.data_dir, flags.tmp_dir)
    if flags.dry_run and not (Path(config.data_dir) / config.problem.name / MANIFEST_FILE).exists():
        config = dataclasses.replace(config, data_dir="")
    elif not cluster_from_environment():  # Workers check it together, later.
        open_generated(config.problem, config.data_dir)
    # Imports TensorFlow, which takes seconds, after all checks that do not need it.
    from t2t_keras.experiment import train_run
    from t2t_keras.training.microbatch import dry_run

    if flags.dry_run:
        print(dry_run(config, flags.output_dir, flags.worker_gpu, options))
        return 0
    _, result = train_run(config, flags.output_dir, flags.worker_gpu, options)
    # Shells report a signal by this status, so that schedulers start the command again.
    return 128 + result.signal if result.signal else 0


def _check_new_run(flags: Flags) -> None:
    """Raises `UserError` for missing flags of a new run, with commands that start one."""
    problem = make_problem(flags.problem or _EXAMPLE_PROBLEM, flags.problem_config)
    data_dir = flags.data_dir or "data"
    commands = ""
    if not (Path(data_dir) / problem.name / MANIFEST_FILE).exists():
        commands = datagen_command(problem, data_dir, flags.tmp_dir or "text")
    commands += command_line(
        "t2t-trainer",
        problem=problem.name,
        problem_config=as_assignments(flags.problem_config),
        data_dir=data_dir,
        hparams_set=flags.hparams_set or AUTO,
        hparams=as_assignments(flags.hparams),
        output_dir=flags.output_dir or Path("runs") / problem.name,
        t2t_usr_dir=flags.t2t_usr_dir,
    )
    no_run = f" There is no run in {flags.output_dir}." if flags.output_dir else ""
    advice = f"{no_run} For example, this starts a new run:{commands}"
    if not (flags.dry_run and flags.hparams_set != AUTO):
        require(flags, "output_dir", "problem", "hparams_set", "data_dir", advice=advice)
    # A dry run without data uses the vocabulary size in the problem's settings.
    require(flags, "problem", "hparams_set", advice=advice)


def _generate_missing_data(problem: Problem, data_dir: str, tmp_dir: str) -> None:
    from t2t_keras.data.generate import generate

    if (Path(data_dir) / problem.name / MANIFEST_FILE).exists():
        return
    if cluster_from_environment():
        raise UserError(
            "--generate_data is for one machine: workers would overwrite each other's files. Run "
            "t2t-datagen first, with a --data_dir that all workers share.",
            code="conflicting_settings",
        )
    generate(problem, data_dir, tmp_dir, usable_cores())


if __name__ == "__main__":
    run()
