"""What XLA compiled is kept in the user's cache, so that a later run need not compile it again."""

import hashlib
import os
import platform
from pathlib import Path

from t2t_keras.versions import installed_versions

_TENSORFLOW_FLAG = "--tf_xla_persistent_cache_directory"


def keep_compiled() -> None:
    """Has TensorFlow's XLA and JAX keep what they compile, unless the user has set where.

    It needs neither of them, and has an effect until the first function is compiled. The folder is
    `$XDG_CACHE_HOME/t2t_keras` (`~/.cache/t2t_keras`), and may be deleted at any time. In it, each
    kind of machine and each combination of versions has one of its own: compiled code is made for
    one processor. Nothing is kept where that cannot be written.
    """
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = home / "t2t_keras" / f"compiled-{_machine()}"
        # Whoever writes there first makes the folder.
        present = next(path for path in (folder, *folder.parents) if path.exists())
    except (OSError, RuntimeError):  # There is no home, or it may not be looked into.
        return
    if not os.access(present, os.W_OK):
        return
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))
    flags = os.environ.get("TF_XLA_FLAGS", "")
    # TensorFlow divides its flags at spaces.
    if _TENSORFLOW_FLAG not in flags and " " not in str(folder):
        os.environ["TF_XLA_FLAGS"] = f"{flags} {_TENSORFLOW_FLAG}={folder}".strip()


def _machine() -> str:
    """Returns a name for the processor's abilities, the GPUs and the versions."""
    known = [platform.machine(), str(installed_versions())]
    processor = Path("/proc/cpuinfo")
    if processor.exists():
        lines = processor.read_text(encoding="utf-8", errors="replace").splitlines()
        known += sorted({line for line in lines if line.startswith(("flags", "Features"))})
    for gpu in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        known += [line for line in gpu.read_text().splitlines() if line.startswith("Model")]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:12]
