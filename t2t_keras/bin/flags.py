"""Runs commands without tracebacks, and defines the flags that several of them share.

A command module has `define_flags(flags)`, which adds its own flags, and `run(flags)`, which calls
the library; `@command(define_flags)` makes `run` the console script. Shared flags have
tensor2tensor's names.
"""

import dataclasses
import errno
import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import t2t_keras
from t2t_keras import registry
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.environment import (
    enable_compile_cache,
    exit_if_compiling,
    prepare_tensorflow,
    speed_up_tensorflow_import,
)
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.io.flags import HIDDEN, Flags
from t2t_keras.io.terminal import discard_buffer, guarded_streams, printable
from t2t_keras.settings import describe
from t2t_keras.text.files import read_text

if TYPE_CHECKING:
    from t2t_keras.training.checkpoint_files import PollPolicy
    from t2t_keras.training.run_config import RunConfig

SIGPIPE_STATUS = 141  # Shells report this for a process that SIGPIPE ended.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def run_command(
    define_flags: Callable[[Flags], None],
    main: Callable[[Flags], int | None],
    argv: Sequence[str] | None = None,
) -> None:
    """Parses the flags, by default from `sys.argv`, and calls `main(flags)`.

    Raises:
      SystemExit: status 2 (or the error's own) after a `UserError`, a wrong flag, a file that
        cannot be used or a package that is not installed, with a message on standard error; 130
        after Ctrl-C; 141 after standard output was closed; else the status that `main` returned,
        unless it is 0 or None. The `UserError` is its cause.
    """
    is_process = argv is None
    argv = list(sys.argv if argv is None else argv)
    program = Path(argv[0]).stem.replace("_", "-")
    prepare_tensorflow()
    speed_up_tensorflow_import()
    with guarded_streams(is_process) as (output, errors):
        status, error = _run_and_catch(define_flags, main, argv)
        message = f"error [{error.code}]: {error}" if isinstance(error, UserError) else error
        output.flush()
        if isinstance(output.error, BrokenPipeError):
            status = status or SIGPIPE_STATUS
        elif output.error:
            notice = f"standard output: {output.error.strerror}. The report is lost, not the work."
            status, message = status or 2, f"{message} {notice}".lstrip()
        if message:
            line = printable(f"{program}: {message}")  # Quoted text may have control characters.
            print(line, file=sys.stderr, flush=True)
            if errors.error and not output.is_product:
                print(line, flush=True)
    if is_process:
        exit_if_compiling(status)
    if status:
        raise SystemExit(status) from (error if isinstance(error, UserError) else None)


def _run_and_catch(
    define_flags: Callable[[Flags], None], main: Callable[[Flags], int | None], argv: Sequence[str]
) -> tuple[int, str | UserError]:
    """Runs a command; returns its exit status, and its error or error message, or ""."""
    try:
        flags = all_flags(define_flags)  # May load third-party packages.
        flags.parse(argv)
        if text := _help_or_version(flags, main):
            print(text)
            return 0, ""
        enable_compile_cache()
        if flags.t2t_usr_dir:
            registry.import_user_directory(flags.t2t_usr_dir)
        if flags.registry_help:
            print(registry.registry_help())
            return 0, ""
        return main(flags) or 0, ""
    except BrokenPipeError:
        # The program that reads the output has exited, as `head` does after its last line.
        discard_buffer(sys.stdout)
        return SIGPIPE_STATUS, ""
    except OSError as error:
        if error.filename:
            return 2, f"{error.filename}: {error.strerror}."
        if error.errno in _DISK_ERRORS:
            return 2, f"Cannot write: {error.strerror}. Make room, and run the same command again."
        raise
    except UserError as error:
        return error.exit_status, error
    except KeyboardInterrupt:
        # Shells report Ctrl-C as 130; the terminal shows ^C before this line feed.
        print(file=sys.stderr)
        return 130, "interrupted."
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("t2t_keras"):
            raise
        backend = os.environ.get("KERAS_BACKEND", "tensorflow")
        return 2, (
            f"needs {error.name}, which is not installed (KERAS_BACKEND={backend}). Install it; "
            f"or, to train and translate without TensorFlow, install jax and set KERAS_BACKEND=jax."
        )


def all_flags(define_flags: Callable[[Flags], None]) -> Flags:
    """Returns a command's own flags with those of all commands, shown by --helpfull only."""
    flags = Flags()
    define_flags(flags)
    flags.group(HIDDEN)
    if "t2t_usr_dir" not in flags:
        define_common(flags, "t2t_usr_dir")
    flags.path("config", "YAML file of flags and their values; the command line overrides it")
    flags.switch(
        "registry_help", "List all problems, hyperparameter sets, optimizers, ... and exit"
    )
    flags.switch("help", "Show the flags of this command and exit")
    flags.switch("helpfull", "Show all flags and exit")
    flags.switch("version", "Print the version of t2t_keras and exit")
    flags.settings(_SETTING_LISTERS)
    return flags


def _help_or_version(flags: Flags, main: Callable[[Flags], int | None]) -> str:
    """Returns what --help, --helpfull or --version prints; "" without these flags."""
    if flags.helpfull and flags.t2t_usr_dir:
        registry.import_user_directory(flags.t2t_usr_dir)
    if flags.help or flags.helpfull:
        return flags.help_text(sys.modules[main.__module__].__doc__ or "", flags.helpfull)
    return f"t2t_keras {t2t_keras.__version__}" if flags.version else ""


def command(define_flags: Callable[[Flags], None]) -> Callable[..., Callable[..., None]]:
    """Decorates a `main(flags)`; the result takes only `argv`, and calls `run_command`."""
    return lambda main: functools.partial(run_command, define_flags, main)


def require(flags: Flags, *names: str, advice: str = "") -> None:
    """Raises `UserError` with the names of missing flags, and `advice`."""
    missing = [f"--{name}" for name in names if not getattr(flags, name)]
    if missing:
        raise UserError(
            f"Please give {' and '.join(missing)}. --help explains each flag.{advice}",
            code="missing_flags",
        )


def refuse_together(flags: Flags, rules: Mapping[str, Iterable[str]]) -> None:
    """Raises `UserError` if a flag is given together with one that it excludes."""
    for name, excluded_names in rules.items():
        for excluded in excluded_names:
            if _is_given(flags, name) and _is_given(flags, excluded):
                raise UserError(
                    f"--{name} and --{excluded} exclude each other: leave one out.",
                    code="conflicting_settings",
                )


def refuse_alone(flags: Flags, rules: Mapping[str, str]) -> None:
    """Raises `UserError` if a flag is given without the one that it needs."""
    for name, required_name in rules.items():
        if _is_given(flags, name) and not _is_given(flags, required_name):
            raise UserError(f"--{name} needs --{required_name}.", code="conflicting_settings")


def _is_given(flags: Flags, name: str) -> bool:
    value = getattr(flags, name)
    return bool(flags[name].present) and value is not False and value not in (None, "", [])


def define_common(flags: Flags, *names: str, **meanings: str) -> None:
    """Adds flags of `_COMMON`; `meanings` has the help texts that differ in this command."""
    for name, meaning in ({name: _COMMON[name] for name in names} | meanings).items():
        if name in _SETTING_LISTERS:
            flags.assignments(name, meaning, "" if name in meanings else _NOTES[name])
        elif name in _COMMON_PATHS:
            flags.path(name, meaning)
        else:
            flags.string(name, meaning, "transformer" if name == "model" else "")


def _decoding_note(flags: Flags) -> str:
    return "\n".join(describe(DecodeConfig()))


def _hparams_note(flags: Flags) -> str:
    name = "transformer_base" if flags.hparams_set in ("", "auto") else flags.hparams_set
    title = f'Values of {name}; sections and tables are those of "Attention Is All You Need":'
    return "\n".join([title, *describe(registry.HPARAMS_SETS[name]())])


def _problem_note(flags: Flags) -> str:
    from t2t_keras.data.problem import Problem, make_problem

    if not flags.problem:
        title = "All problems have these; --problem=NAME --helpfull also lists the problem's own:"
        return "\n".join([title, *describe(Problem())])
    return "\n".join(describe(make_problem(flags.problem)))


# What --helpfull shows below flags that take settings.
_NOTES = {
    "decode_hparams": _decoding_note,
    "hparams": _hparams_note,
    "problem_config": _problem_note,
}
_COMMON_PATHS = {"output_dir", "checkpoint_path", "data_dir", "tmp_dir", "t2t_usr_dir"}
_COMMON = {
    "output_dir": "Directory of the run, with its checkpoints",
    "checkpoint_path": "Checkpoint, as RUN/model.ckpt-5000; default: the newest of the run",
    "data_dir": "--data_dir of t2t-datagen; default: the one used in training",
    "tmp_dir": "Directory of raw text: downloads, or your own files",
    "problem": "Data and task; parallel_text = your files; --registry_help lists all",
    "problem_config": 'Settings of the problem, "name=value,..."; --helpfull lists them',
    "model": "Architecture, by its registered name",
    "decode_hparams": 'Decoding settings, "beam_size=4,alpha=0.6,..."; --helpfull lists them',
    "hparams_set": "Hyperparameter set; --registry_help lists all; auto = one for the data",
    "hparams": 'Hyperparameters to change, "d_model=256,..."; --helpfull lists them',
    "t2t_usr_dir": "Directory of Python files that register your own problems, models, ...",
}


def _problem_setting_names() -> Iterable[str]:
    from t2t_keras.data.problem import Problem

    return Problem().config()


# Flag -> function that lists the names of its settings.
_SETTING_LISTERS = {
    "decode_hparams": lambda: vars(DecodeConfig()),
    "hparams": lambda: HParams().config(),
    "problem_config": _problem_setting_names,
}


def define_decoding(flags: Flags) -> None:
    """Adds --decode_hparams, --prefix_file, --forbidden_file and --ensemble."""
    define_common(flags, "decode_hparams")
    flags.path("prefix_file", "File of required beginnings, one per input line; blank = none")
    flags.path("forbidden_file", "File of phrases that translations must not contain, one per line")
    flags.paths("ensemble", "Runs or checkpoints to average probabilities with, as RUN2,RUN3")


def forbidden_phrases(flags: Flags) -> list[str]:
    """Returns the lines of --forbidden_file, [] without it."""
    return read_text(Path(flags.forbidden_file)) if flags.forbidden_file else []


def define_engine(flags: Flags) -> None:
    """Adds --engine."""
    meaning = (
        "Software that runs the model; ctranslate2 needs an export of t2t-exporter, not TensorFlow"
    )
    flags.known_name("engine", meaning, registry.ENGINES, "keras")


def eval_text(flags: Flags, config: "RunConfig") -> tuple[str, Path, Path]:
    """Returns "test" or "dev", by --eval_use_test_set, and the split's source and reference."""
    from t2t_keras.data.dataset import open_generated

    split = "test" if flags.eval_use_test_set else "dev"
    generated = open_generated(config.problem, flags.data_dir or config.data_dir, as_text=True)
    return split, *generated.text_paths(split)


def define_polling(flags: Flags, noun: str) -> None:
    """Adds --min_steps and --wait_minutes; `noun`, in the plural, says what they apply to."""
    flags.integer("min_steps", f"Skip {noun} with fewer training steps", 0)
    flags.number("wait_minutes", f"Minutes to wait for more {noun}; 0 = do not wait", 0)


def poll_policy(flags: Flags) -> "PollPolicy":
    """Returns the `PollPolicy` that --wait_minutes requests."""
    from t2t_keras.training.checkpoint_files import PollPolicy

    return PollPolicy(wait_minutes=flags.wait_minutes)


RUN_FLAGS = ("problem", "problem_config", "model", "hparams_set", "hparams")


def given_flags(flags: Flags, *names: str) -> dict[str, object]:
    """Returns the values of the flags in `names` that were given."""
    return {name: getattr(flags, name) for name in names if flags[name].present}


def define_run(flags: Flags) -> None:
    """Adds the missing flags of `RUN_FLAGS`, which only --helpfull shows."""
    flags.group(HIDDEN)
    for name in RUN_FLAGS:
        if name not in flags:
            exception = ", except for its test set" if name == "problem_config" else ""
            define_common(
                flags, **{name: f"--{name} of the run; another value is an error{exception}"}
            )


def recorded_run(
    flags: Flags,
    policy: "PollPolicy | None" = None,
    load: "Callable[[str], RunConfig] | None" = None,
) -> "RunConfig":
    """Returns the `RunConfig` of the run in --output_dir, with the test set that flags set.

    Args:
      flags: the command's flags.
      policy: how long to wait for a run that has not begun; None = not at all.
      load: reads the run, by default `RunConfig.load`.

    Raises:
      UserError: there is no run, or flags contradict it.
    """
    require(flags, "output_dir")
    from t2t_keras.training.run_config import RunConfig, merge_flags

    directory = flags.output_dir
    if policy:
        from t2t_keras.training.checkpoint_files import wait_for

        wait_for(lambda: RunConfig.exists(directory), policy, "run")
    recorded = (load or RunConfig.load)(directory)
    requested = merge_flags(recorded, given_flags(flags, *RUN_FLAGS))
    recorded.check_unchanged(requested, directory)
    return dataclasses.replace(recorded, problem=requested.problem)
