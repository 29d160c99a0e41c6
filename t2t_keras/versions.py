"""Versions of what data and runs are made with, as their records keep them."""

import platform
import subprocess
from importlib import metadata
from pathlib import Path

import t2t_keras

_PACKAGES = ("tensorflow", "tensorflow-text", "jax", "keras", "sentencepiece", "numpy")
_ROOT = Path(t2t_keras.__file__).resolve().parents[1]


def installed_versions(*others: str) -> dict[str, str]:
    """Returns the version of Python, of this package and of those whose numbers matter.

    Args:
      others: more packages that matter.
    """
    versions = {"python": platform.python_version(), "t2t_keras": t2t_keras.__version__}
    for package in (*_PACKAGES, *others):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def source_version(root: Path = _ROOT) -> str:
    """Returns the commit of this code, with "-dirty" where it was changed, or its version.

    Args:
      root: the folder that the package stands in; only a checkout's own commit counts, not that of
        a repository that it happens to be installed in.
    """
    if (root / ".git").exists():
        command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):  # There is no git.
            done = None
        if done and done.returncode == 0:
            return done.stdout.strip()
    return f"t2t_keras {t2t_keras.__version__}"
