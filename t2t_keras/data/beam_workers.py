"""Workers on many machines: an Apache Beam pipeline that calls functions.

Functions, arguments and results are files in a folder that all machines share; the pipeline only
carries the numbers of the calls. So results come in order with any runner.
"""

import contextlib
import functools
import io
import itertools
import pickle
import re
import secrets
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_keras import registry
from t2t_keras.data.encode import Starmap
from t2t_keras.environment import installed_versions
from t2t_keras.errors import UserError, report_missing_package
from t2t_keras.io.files import differences, read_json, write_atomically, write_json
from t2t_keras.text.files import reading

_FOLDER_PREFIX = "beam-calls."
_FUNCTION, _ARGUMENTS, _RESULT, _FAILURE = "function", "arguments", "result", "failure.json"
# Packages whose versions must be the same on all workers.
_PACKAGES = ("t2t_keras", "sentencepiece", "py3langid")
_INTERRUPTED = 130  # Shells report this for SIGINT.
_load_lock = threading.Lock()


@contextlib.contextmanager
def beam_workers(
    runner: str, options: Sequence[str], shared_dir: Path, input_files: Iterable[Path]
) -> Iterator[Starmap]:
    """Checks a worker with a first pipeline, then yields a `Starmap` that runs pipelines.

    Args:
      runner: name of a runner, such as "FlinkRunner".
      options: pipeline options, each "name=value" or "name".
      shared_dir: absolute path of a folder that all machines share, for the files of calls.
      input_files: absolute paths of the files that calls read.

    Raises:
      UserError: as `check_beam`; or a pipeline fails, a worker has different package versions or
        does not see the folder or a file, or a call raises a `UserError`.
    """
    for old_folder in shared_dir.glob(f"{_FOLDER_PREFIX}*"):  # A killed process left them.
        shutil.rmtree(old_folder, ignore_errors=True)
    folder = shared_dir / f"{_FOLDER_PREFIX}{secrets.token_hex(4)}"
    numbers = itertools.count()

    def starmap(function: Callable, arguments: Iterable[tuple]) -> Iterator:
        call_dir = folder / str(next(numbers))
        count = _write_calls(call_dir, function, arguments)
        if count:
            _run_pipeline(runner, options, call_dir, count)
        for number in range(count):
            with reading(_call_file(call_dir, number, _RESULT)) as file:
                result = pickle.load(file)
            yield result

    try:
        files = {str(path): path.stat().st_size for path in input_files}
        print(f"Asking a worker of {runner} whether it sees {shared_dir} ...", flush=True)
        list(starmap(_check_files, [(files,)]))
        yield starmap
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_beam(runner: str, options: Sequence[str]) -> None:
    """Raises `UserError` if Beam is not installed, or refuses the runner or an option."""
    if any(re.match(r"(--)?runner\b", option) for option in options):
        raise UserError(
            "Give the runner as --beam_runner, not in --beam_pipeline_options.", code="bad_flags"
        )
    _pipeline(runner, options)


def _pipeline(runner: str, options: Sequence[str]) -> Any:
    with report_missing_package("--beam_runner", "beam"):
        import apache_beam
        from apache_beam.options.pipeline_options import PipelineOptions
    flags = [f"--{option.removeprefix('--')}" for option in options]
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output):
            parsed = PipelineOptions(flags)
            parsed.get_all_options()
            return apache_beam.Pipeline(runner, parsed)
    except SystemExit as error:  # argparse has printed 300 lines of usage.
        reason = output.getvalue().strip().rpartition("error: ")[2]
        raise UserError(f"--beam_pipeline_options: {reason}.", code="bad_flags") from error
    except (ValueError, ImportError) as error:
        raise UserError(
            f"--beam_runner={runner}: {' '.join(str(error).split())}", code="bad_value"
        ) from error


def _call_file(call_dir: Path, number: int, kind: str) -> Path:
    return call_dir / f"{number}.{kind}"


def _write_calls(call_dir: Path, function: Callable, arguments: Iterable[tuple]) -> int:
    """Writes the files that workers need; returns the number of calls."""
    # Workers import the user's directories first, as they may define the function.
    content = registry.user_directories, _versions(), pickle.dumps(function)
    write_atomically(call_dir / _FUNCTION, pickle.dumps(content))
    count = 0
    for count, call_arguments in enumerate(arguments, 1):
        write_atomically(_call_file(call_dir, count - 1, _ARGUMENTS), pickle.dumps(call_arguments))
    return count


def _run_pipeline(runner: str, options: Sequence[str], call_dir: Path, count: int) -> None:
    """Executes all calls; raises the error of a worker."""
    import apache_beam

    pipeline = _pipeline(runner, options)
    # Without the shuffle a runner would give all calls to one worker.
    numbers = pipeline | apache_beam.Create(range(count)) | apache_beam.Reshuffle()
    _ = numbers | "Call" >> apache_beam.Map(functools.partial(_do_call, call_dir))
    try:
        result = pipeline.run()
        try:
            state = result.wait_until_finish()
        except KeyboardInterrupt:
            with contextlib.suppress(NotImplementedError):
                result.cancel()
            raise
    except Exception as error:
        # Beam has printed the worker's traceback.
        raise UserError(
            f"The pipeline of {runner} failed: {_reason(error)}", code="pipeline_failed"
        ) from error
    if (call_dir / _FAILURE).exists():
        failure = read_json(
            call_dir / _FAILURE, "Run the same command again.", ("text", "status", "code")
        )
        if failure["status"] == _INTERRUPTED:
            raise KeyboardInterrupt
        raise UserError(failure["text"], failure["status"], code=failure["code"])
    if not all(_call_file(call_dir, number, _RESULT).exists() for number in range(count)):
        raise UserError(
            f"The pipeline on {runner} ended in state {state}, but {call_dir} lacks results. Run "
            f"the same command again; --data_dir must be on a file system that all machines share.",
            code="incomplete_data",
        )


def _reason(error: Exception) -> str:
    """Returns the most informative line of a runner's error, which may hold tracebacks."""
    user_errors = re.findall(rf"\b{UserError.__name__}: (.*)", str(error))
    lines = user_errors or str(error).strip().split("\n")
    line = lines[-1].partition(" [while running")[0]
    return line if user_errors else f"{type(error).__name__}: {line}"


def _do_call(call_dir: Path, number: int) -> None:
    """Executes a call in a worker, and writes its result or the record of its failure."""
    host = socket.gethostname()
    if not call_dir.exists():
        raise UserError(
            f"A worker on {host} sees no {call_dir}: --data_dir must be on a file system that all "
            f"machines share under the same path.",
            code="folder_not_shared",
        )
    if (call_dir / _FAILURE).exists():
        return  # Another call has failed.
    try:
        function = _cached_function(call_dir)
        arguments = pickle.loads(_call_file(call_dir, number, _ARGUMENTS).read_bytes())
        write_atomically(_call_file(call_dir, number, _RESULT), pickle.dumps(function(*arguments)))
    except (UserError, OSError) as error:
        text, status, code = str(error), 2, "not_read"
        if isinstance(error, UserError):
            status, code = error.exit_status, error.code
        elif error.filename:
            text = f"{error.filename}: {error.strerror}."
        failure = {"text": f"{text} (On {host}.)", "status": status, "code": code}
        write_json(call_dir / _FAILURE, failure)
    except KeyboardInterrupt:  # The direct runner would turn it into another error.
        write_json(call_dir / _FAILURE, {"text": "", "status": _INTERRUPTED, "code": ""})


def _cached_function(call_dir: Path) -> Callable:
    with _load_lock:  # A worker may have several threads.
        return _load_function(call_dir)


@functools.lru_cache(maxsize=1)
def _load_function(call_dir: Path) -> Callable:
    """Returns the function to call; raises `UserError` if package versions differ."""
    directories, versions, function = pickle.loads((call_dir / _FUNCTION).read_bytes())
    if mismatches := differences(versions, _versions()):
        text = "; ".join(mismatches).replace("requested", "a worker has")
        raise UserError(
            f"Workers need the same versions as this machine ({text}). Install them there.",
            code="other_versions",
        )
    for directory in directories:
        registry.import_user_directory(directory)
    return pickle.loads(function)


def _versions() -> dict[str, Any]:
    versions = installed_versions("py3langid")
    return {name: versions[name] for name in _PACKAGES}


def _check_files(files: Mapping[str, int]) -> None:
    for name, size in files.items():
        path = Path(name)
        worker_size = path.stat().st_size if path.is_file() else 0
        if worker_size != size:
            raise UserError(
                f"A worker sees {worker_size:,} bytes of {name}, expected {size:,}. --tmp_dir must "
                f"be on a file system that all machines share under the same path.",
                code="folder_not_shared",
            )
