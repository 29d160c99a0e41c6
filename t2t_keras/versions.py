"""Versions of what data and runs are made with, as their records keep them."""

import platform
from importlib import metadata

import t2t_keras

_PACKAGES = ("tensorflow", "tensorflow-text", "jax", "keras", "sentencepiece", "numpy")


def installed_versions() -> dict[str, str]:
    """Returns the version of Python, of this package and of those whose numbers matter."""
    versions = {"python": platform.python_version(), "t2t_keras": t2t_keras.__version__}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions
