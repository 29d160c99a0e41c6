"""Paths as users write them."""

import os
from pathlib import Path


def expanded(path: str | Path) -> str:
    """Returns a path in which ~ or ~user at its beginning is a home directory, where it is known.

    A shell leaves the ~ of --flag=~/x as it is.
    """
    return os.path.expanduser(path)  # noqa: PTH111 - Path("") would become ".".
