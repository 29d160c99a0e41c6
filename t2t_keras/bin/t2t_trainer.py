"""t2t-trainer: trains a model on a problem, or goes on with a run as if it had never stopped.

With KERAS_BACKEND=jax it needs no TensorFlow, uses one device and writes `.npz` checkpoints, which
t2t-npz-to-checkpoint turns into TensorFlow's.
"""

import dataclasses

from absl import flags as absl_flags

from t2t_keras.bin.flags import FlagValues, required, run_command


def define_flags(flags: FlagValues) -> None:
    """Adds the trainer's own flags, named as in tensor2tensor."""

    def whole(name: str, default: int | None, meaning: str) -> None:
        absl_flags.DEFINE_integer(name, default, meaning, 0, flag_values=flags)

    def switch(name: str, meaning: str) -> None:
        absl_flags.DEFINE_boolean(name, False, meaning, flag_values=flags)

    switch("generate_data", "Runs t2t-datagen first where --data_dir has no data of the problem.")
    whole("train_steps", None, "Steps to train, from the beginning; default: the set's.")
    whole("eval_steps", 0, "Most batches of an evaluation; 0 = the whole dev set.")
    whole("local_eval_frequency", 1000, "Steps between two evaluations.")
    switch("eval_bleu", "Computes dev set BLEU, or F1 of parses, at each evaluation.")
    absl_flags.DEFINE_float(
        "save_checkpoints_secs",
        600,
        "Seconds of training between two checkpoints.",
        0,
        flag_values=flags,
    )
    absl_flags.DEFINE_integer("keep_checkpoint_max", 20, "Checkpoints kept.", 1, flag_values=flags)
    whole("worker_gpu", None, "GPUs to use; default: all that are visible; 0 = the CPU.")
    absl_flags.DEFINE_integer(
        "cpu_replicas", 1, "Replicas among which a CPU's cores are divided.", 1, flag_values=flags
    )
    absl_flags.DEFINE_enum(
        "schedule",
        "train_and_evaluate",
        ["train", "evaluate", "train_and_evaluate"],
        "What to do.",
        flag_values=flags,
    )
    absl_flags.DEFINE_string(
        "warm_start_from", "", "Run or checkpoint whose weights to start from.", flag_values=flags
    )
    whole(
        "eval_early_stopping_steps",
        0,
        "Ends when the dev loss has not fallen for so many steps; 0 = never.",
    )
    for name, default, meaning in (
        ("worker_start_secs", 300, "that several workers wait for each other at the beginning."),
        ("worker_timeout_secs", 60, "that one of several workers may be silent or behind."),
    ):
        absl_flags.DEFINE_float(name, default, f"Seconds {meaning}", 1, flag_values=flags)
    switch("xla", "Compiles the step by XLA, for a few fixed shapes; JAX always does.")
    absl_flags.DEFINE_string(
        "profile_steps", "", "First and last step to trace, as 100,110.", flag_values=flags
    )
    switch("dry_run", "Prints what a step will hold in memory, and ends.")


def main(flags: FlagValues) -> int:
    """Trains as the flags say."""
    required(flags, "output_dir")
    from t2t_keras.errors import UserError
    from t2t_keras.training.cluster import cluster_from_environment
    from t2t_keras.training.dry_run import dry_run
    from t2t_keras.training.run_request import requested_run, run_training
    from t2t_keras.training.train_options import TrainOptions

    request = requested_run(flags.output_dir, _given(flags))
    if flags.generate_data and not request.has_data():
        if cluster_from_environment():
            raise UserError(
                "--generate_data is for one machine: workers would write over each other. Run "
                "t2t-datagen first, into a --data_dir that all of them see."
            )
        from t2t_keras.data.generate import generate

        generate(request.problem, request.data_dir, flags.tmp_dir)
    options = {field.name: getattr(flags, field.name) for field in dataclasses.fields(TrainOptions)}
    if flags.dry_run:
        print(dry_run(request, flags.output_dir, flags.worker_gpu, TrainOptions(**options)))
        return 0
    result = run_training(request, flags.output_dir, flags.worker_gpu, **options)
    # As a shell reports a process that a signal ended, so that schedulers start it again.
    return 128 + result.signal if result.signal else 0


def _given(flags: FlagValues) -> dict[str, object]:
    """Returns the values of the flags about the run that were given."""
    names = "problem problem_config model hparams_set hparams data_dir random_seed".split()
    given = {name: getattr(flags, name) for name in names if flags[name].present}
    if flags.train_steps is not None:
        given["train_steps"] = flags.train_steps
    return given


def run(argv: list[str] | None = None) -> None:
    """The console script."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
