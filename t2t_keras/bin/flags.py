"""What all commands share: the lineage's flags, and errors without tracebacks.

A command module has

    def define_flags(flags): ...      # its own flags
    def main(flags): ...              # calls the library
    def run(argv=None):               # the console script
        run_command(define_flags, main, argv)

Each run has its own `FlagValues`, so that commands can be called in one process.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import flags as absl_flags

from t2t_keras import registry
from t2t_keras.compilation_cache import keep_compiled
from t2t_keras.environment import prepare_tensorflow
from t2t_keras.errors import UserError, nearest

FlagValues = absl_flags.FlagValues

# What a machine that trains under one backend need not have.
_MAY_BE_MISSING = (
    "tensorflow",
    "tensorflow_text",
    "tqdm",
    "sacrebleu",
    "sacremoses",
    "defusedxml",
    "tabulate",
    "grpc",
    "google",
    "jax",
    "torch",
)


def run_command(
    define_flags: Callable[[FlagValues], None],
    main: Callable[[FlagValues], int | None],
    argv: Sequence[str] | None = None,
) -> None:
    """Parses the flags and calls `main(flags)`.

    Args:
      define_flags: adds the command's own flags.
      main: does the work; what it returns is the exit status, None means 0.
      argv: program name and arguments; default `sys.argv`.

    Raises:
      SystemExit: status 2 after a `UserError` (or its own), a wrong flag or a package that is not
        installed, with a text on standard error; 130 after Ctrl-C; 0 after --help and
        --registry_help; else what `main` returned, where that is not 0.
    """
    argv = list(sys.argv if argv is None else argv)
    program = Path(argv[0]).stem.replace("_", "-")
    prepare_tensorflow()
    flags = FlagValues()
    _define_common(flags)
    define_flags(flags)
    try:
        _parse(flags, argv)
        if flags.help:
            print((sys.modules[main.__module__].__doc__ or "").strip(), flags.get_help(), sep="\n")
            return
        keep_compiled()
        if flags.t2t_usr_dir:
            registry.import_user_directory(flags.t2t_usr_dir)
        if flags.registry_help:
            print(registry.registry_help())
            return
        status = main(flags)
    except UserError as error:
        print(f"{program}: {error}", file=sys.stderr)
        raise SystemExit(error.exit_status) from None
    except KeyboardInterrupt:
        # As a shell reports a process that Ctrl-C ended.
        print(f"\n{program}: interrupted.", file=sys.stderr)
        raise SystemExit(130) from None
    except ModuleNotFoundError as error:
        if error.name not in _MAY_BE_MISSING:
            raise
        print(
            f"{program}: needs {error.name}, which is not installed here (KERAS_BACKEND="
            f"{os.environ.get('KERAS_BACKEND', 'tensorflow')}). Install it; or, to train and "
            f"average without TensorFlow, install jax and set KERAS_BACKEND=jax.",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    if status:
        raise SystemExit(status)


def required(flags: FlagValues, *names: str) -> None:
    """Checks that each of the flags was given.

    Raises:
      UserError: naming the flags that are missing.
    """
    missing = [f"--{name}" for name in names if not getattr(flags, name)]
    if missing:
        raise UserError(f"Please give {' and '.join(missing)}. --help tells what each means.")


def _define_common(flags: FlagValues) -> None:
    def text(name: str, default: str, meaning: str) -> None:
        absl_flags.DEFINE_string(name, default, meaning, flag_values=flags)

    def switch(name: str, meaning: str) -> None:
        absl_flags.DEFINE_boolean(name, False, meaning, flag_values=flags)

    text("problem", "", "Name of the problem; --registry_help lists them.")
    text("problem_config", "", 'Settings of the problem, "name=value,...".')
    text("model", "transformer", "Name of the model.")
    text("hparams_set", "", "Name of the hyperparameter set.")
    text("hparams", "", 'Hyperparameters that differ from the set\'s, "name=value,...".')
    text("data_dir", "", "Directory of the generated data.")
    text("tmp_dir", "", "Directory of the source files, as downloaded or the user's own.")
    text("output_dir", "", "Directory of the run: checkpoints, logs, what was used.")
    text("t2t_usr_dir", "", "Directory with the user's own problems, sets and models.")
    switch("registry_help", "Lists all problems, hyperparameter sets and models, and ends.")
    absl_flags.DEFINE_integer(
        "random_seed",
        1,
        "Seed of initial weights, dropout and order.",
        0,
        2**32 - 1,
        flag_values=flags,
    )
    switch("help", "Shows this help.")


def _parse(flags: FlagValues, argv: list[str]) -> None:
    try:
        rest = flags(argv)
    except absl_flags.UnrecognizedFlagError as error:
        raise UserError(
            f"There is no flag --{error.flagname}.{nearest(error.flagname, flags)}"
        ) from None
    except absl_flags.Error as error:
        raise UserError(str(error)) from None
    if rest[1:]:
        raise UserError(f"'{rest[1]}' is not a flag; flags are of the form --name=value.")
