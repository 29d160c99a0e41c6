r"""Make the data of a problem: vocabulary, encoded examples, dev and test text.

t2t-datagen --problem=translate_ende_multi30k --data_dir=data --tmp_dir=downloads
t2t-datagen --problem=translate_enfr --data_dir=/shared/data --tmp_dir=/shared/text \
    --beam_runner=FlinkRunner --beam_pipeline_options=flink_master=host:8081,parallelism=64
"""

from t2t_keras.bin.flags import command, define_common, refuse_alone, refuse_together, require
from t2t_keras.data.dataset import Generated, open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.environment import usable_cores
from t2t_keras.errors import OutOfMemoryError, UserError
from t2t_keras.io.flags import Flags
from t2t_keras.settings import as_assignments


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Data")
    define_common(flags, "problem", "problem_config", "tmp_dir")
    define_common(flags, data_dir="Directory to write to; the data goes into a folder per problem")
    define_common(flags, "t2t_usr_dir")
    cores = usable_cores()
    flags.integer("num_workers", "Number of processes; the data does not depend on it", cores, 1)
    flags.switch("overwrite", "Replace complete data, even if text or settings differ")
    flags.switch(
        "recommend", "Time a few training steps, and print a command for t2t-trainer", True
    )
    flags.group("Apache Beam, to encode on many machines that share --tmp_dir and --data_dir")
    runners = "DirectRunner, FlinkRunner, SparkRunner, DataflowRunner or another; default: no Beam"
    flags.string("beam_runner", runners)
    flags.strings(
        "beam_pipeline_options", "Pipeline options of the runner, as flink_master=host:8081,..."
    )


@command(define_flags)
def run(flags: Flags) -> None:
    """Generates the data."""
    require(flags, "problem", "data_dir")
    refuse_together(flags, {"num_workers": ["beam_runner"]})
    refuse_alone(flags, {"beam_pipeline_options": "beam_runner"})
    problem = make_problem(flags.problem, flags.problem_config)
    try:
        generate(
            problem,
            flags.data_dir,
            flags.tmp_dir,
            flags.num_workers,
            beam_runner=flags.beam_runner,
            beam_pipeline_options=flags.beam_pipeline_options or (),
            overwrite=flags.overwrite,
        )
    except KeyboardInterrupt:
        raise UserError(
            f"Interrupted: the new data of {problem.name} in {flags.data_dir} is incomplete. Run "
            f"the same command again: it keeps finished shards, except those of generated text.",
            exit_status=130,
            code="interrupted",
        ) from None
    if flags.recommend:
        print("Timing a few steps of training ...", flush=True)
        print(_recommendation(flags, open_generated(problem, flags.data_dir)))


def _recommendation(flags: Flags, generated: Generated) -> str:
    names = ("t2t_usr_dir", "problem", "problem_config", "data_dir")
    values = {name: value for name in names if (value := getattr(flags, name))}
    if flags.problem_config:
        values["problem_config"] = as_assignments(flags.problem_config)
    arguments = [f"--{name}={value}" for name, value in values.items()]
    try:
        from t2t_keras.experiment import recommendation

        return recommendation(generated, arguments)
    except (UserError, OutOfMemoryError, ImportError) as error:
        # Not an error, as the data is complete.
        return f"No hyperparameters are recommended: {error}"


if __name__ == "__main__":
    run()
