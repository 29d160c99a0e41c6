"""The environment of a process: import of TensorFlow, versions, paths, cores, memory."""

import contextlib
import gc
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from t2t_keras._version import __version__
from t2t_keras.errors import UserError

_DEFAULT_VARIABLES = {
    # On CPUs without AVX-512, TensorFlow does not use oneDNN by default. On a CPU with AVX2, oneDNN
    # halved the time of the projection to the vocabulary, and a training step took three quarters
    # of the time (benchmarks/peers/run.py --size=tiny).
    "TF_ENABLE_ONEDNN_OPTS": "1",
    # TensorFlow's log would bury the output of a command. What it logs as errors is raised, too.
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def prepare_tensorflow() -> None:
    """Sets environment variables that the user has not set, before TensorFlow or JAX reads them."""
    for name, value in _DEFAULT_VARIABLES.items():
        os.environ.setdefault(name, value)


@contextlib.contextmanager
def hold_back_stderr() -> Iterator[None]:
    """Holds back output to standard error's file descriptor; shows it after an error."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as buffer:
        stderr = os.dup(2)
        os.dup2(buffer.fileno(), 2)
        try:
            yield
        except BaseException:
            sys.stderr.flush()
            buffer.seek(0)
            os.write(stderr, buffer.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)


# Module of TensorFlow or Keras -> optional package that it imports but we do not need.
_UNNEEDED_IMPORTS = {
    "keras.src.callbacks.orbax_checkpoint": "jax",
    "keras.src.visualization.plot_bounding_box_gallery": "matplotlib",
    "keras.src.visualization.plot_image_gallery": "matplotlib",
    "tensorflow.lite.python.util": "jax",
}


@contextlib.contextmanager
def _hide_package(package: str) -> Iterator[None]:
    """Hides a package, as if it were not installed, unless it is imported already."""
    is_hidden = package not in sys.modules
    if is_hidden:
        sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if is_hidden:
            del sys.modules[package]


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disables garbage collection; the objects created meanwhile stay exempt from it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()


class _TensorFlowFinder(PathFinder):
    """Finds TensorFlow as Python does, and makes its import fast and silent."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in _UNNEEDED_IMPORTS:
            contexts = [_hide_package(_UNNEEDED_IMPORTS[fullname])]
        elif fullname in {"tensorflow", "tensorflow_text"}:
            contexts = [hold_back_stderr(), _without_garbage_collection()]
        else:
            return None
        spec = super().find_spec(fullname, path, target)
        if spec is not None:
            loader: Any = spec.loader
            for context in contexts:
                loader.exec_module = context(loader.exec_module)
        return spec


def speed_up_tensorflow_import() -> None:
    """Makes a later import of TensorFlow fast and silent; if it fails, its output is shown.

    TF_CPP_MIN_LOG_LEVEL cannot hide that output: TensorFlow 2.21 prints it before it reads the
    variable. Only for commands, not for users of the library.
    """
    if _TensorFlowFinder not in sys.meta_path:
        sys.meta_path.insert(0, _TensorFlowFinder)


_NUMERIC_PACKAGES = ("tensorflow", "tensorflow-text", "jax", "keras", "sentencepiece", "numpy")
# One slash suffices, since `Path` turns "//" into "/".
_URL = re.compile(r"[A-Za-z][\w+.-]+:/", re.ASCII)
_ROOT = Path(__file__).resolve().parents[1]


def installed_versions(*packages: str) -> dict[str, str]:
    """Returns the versions of Python, t2t_keras, packages that affect numbers, and `packages`."""
    from importlib import metadata  # Its import takes as long as the rest of --help.

    versions = {"python": platform.python_version(), "t2t_keras": __version__}
    for package in (*_NUMERIC_PACKAGES, *packages):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def source_version(root: Path = _ROOT) -> str:
    """Returns the commit of a checkout ("-dirty" if changed), or the version of the package."""
    if (root / ".git").exists():  # Else git might find a repository around the package.
        command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):  # There may be no git.
            return subprocess.run(
                command, capture_output=True, text=True, timeout=60, check=True
            ).stdout.strip()
    return f"t2t_keras {__version__}"


_XLA_CACHE_FLAG = "--tf_xla_persistent_cache_directory"


def compile_cache_folder() -> Path | None:
    """Returns the folder that caches compiled code; None = not writable. It may not exist yet.

    It is in `$XDG_CACHE_HOME/t2t_keras` (`~/.cache/t2t_keras`), which may be deleted at any time.
    Each kind of machine and each combination of versions has its own folder, since code is compiled
    for one processor.
    """
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = home / "t2t_keras" / f"compiled-{_machine_digest()}"
        # A process that writes to the folder makes it first.
        ancestor = next(path for path in (folder, *folder.parents) if path.exists())
    except (OSError, RuntimeError):  # There is no home directory, or it cannot be read.
        return None
    return folder if os.access(ancestor, os.W_OK) else None


def enable_compile_cache() -> None:
    """Makes TensorFlow's and JAX's XLA cache compiled code, unless the user has set a cache."""
    folder = compile_cache_folder()
    if not folder:
        return
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))
    flags = os.environ.get("TF_XLA_FLAGS", "")
    # A path with a space is unusable: TensorFlow splits its flags at spaces.
    if _XLA_CACHE_FLAG not in flags and " " not in str(folder):
        os.environ["TF_XLA_FLAGS"] = f"{flags} {_XLA_CACHE_FLAG}={folder}".strip()


# The name of the threads that compile in the background.
COMPILE_THREAD = "t2t_keras compiles"


def exit_if_compiling(status: int) -> None:
    """Ends the process at once, with an exit status, if a thread still compiles in the background.

    A normal exit would wait for the thread; without the wait, TensorFlow would crash. Only for the
    end of a command.
    """
    if any(thread.name == COMPILE_THREAD for thread in threading.enumerate()):
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        os._exit(status)


def _machine_digest() -> str:
    """Returns a digest of the processor's features, the GPUs and the versions."""
    features = [platform.machine(), str(installed_versions())]
    processor = Path("/proc/cpuinfo")
    if processor.exists():
        lines = processor.read_text(encoding="utf-8", errors="replace").split("\n")
        features += sorted({line for line in lines if line.startswith(("flags", "Features"))})
    for gpu in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        features += [line for line in gpu.read_text().split("\n") if line.startswith("Model")]
    return hashlib.sha256("\n".join(features).encode()).hexdigest()[:12]


def expand_path(path: str | Path) -> str:
    """Replaces a leading ~ or ~user by the home directory, as shells do not in --flag=~/x.

    Raises:
      UserError: `path` is a URL. As a path it would make a folder called "gs:".
    """
    if _URL.match(str(path)):
        raise UserError(
            f"{path} is a URL: expected a path on this machine. Mount the bucket or copy its "
            f"content, and give that path.",
            code="url_as_path",
        )
    return os.path.expanduser(path)  # noqa: PTH111 - Path("") would become ".".


def usable_cores() -> int:
    """Returns the number of cores that this process may use, as limited by `taskset` or Slurm."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# For versions 2 and 1 of control groups: the files of the limit and of the usage, and the key in
# memory.stat of the file cache, which the usage includes but the kernel frees on demand.
_CGROUP_2 = ("memory.max", "memory.current", "inactive_file")
_CGROUP_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def free_memory(root: str | Path = "/") -> int | None:
    """Returns the bytes of memory that this process may still take; None = unknown.

    The machine and every control group set a limit. `root` contains `proc` and `sys`.
    """
    root = Path(root)
    available = _find_all(r"^MemAvailable:\s*(\d+) kB", root / "proc/meminfo")
    limits = [1024 * int(number) for number in available]
    # Lines such as 0::/user.slice/session.scope; in a container the path may be the host's.
    groups = _find_all(r"^\d*:[^:]*:(.*)$", root / "proc/self/cgroup")
    for top, (limit, usage, cache_key) in (
        (root / "sys/fs/cgroup", _CGROUP_2),
        (root / "sys/fs/cgroup/memory", _CGROUP_1),
    ):
        group_folders = [top / group.lstrip("/") for group in groups]
        for folder in {
            top,
            *group_folders,
            *(parent for group in group_folders for parent in group.parents),
        }:
            allowed, in_use = (_find_all(r"^(\d+)$", folder / name) for name in (limit, usage))
            if folder.is_relative_to(top) and allowed and in_use:
                cached = _find_all(rf"^{cache_key} (\d+)$", folder / "memory.stat") or ["0"]
                limits.append(int(allowed[0]) - int(in_use[0]) + int(cached[0]))
    return max(min(limits), 0) if limits else None


def _find_all(pattern: str, path: Path) -> list[str]:
    """Returns what a pattern's group matches in the lines of a file; [] if it cannot be read."""
    try:
        return re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return []
