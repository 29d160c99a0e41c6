"""The packages that reading documents requires, all optional for the library."""

import contextlib
from collections.abc import Iterator

from t2t_keras.errors import UserError


@contextlib.contextmanager
def needed_for(what: str) -> Iterator[None]:
    """Raises `UserError` if a package imported in the block is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("t2t_keras"):
            raise
        raise UserError(
            f"{what} needs {error.name}, which is not installed: "
            f"pip install 't2t-keras[documents]'",
            code="missing_package",
        ) from error
