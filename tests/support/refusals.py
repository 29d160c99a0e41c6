"""Expects errors by their code and by what they name, so that their words can change."""

import contextlib
from collections.abc import Iterator

import pytest

from t2t_keras.errors import UserError


@contextlib.contextmanager
def refused(code: str, *names: object) -> Iterator[pytest.ExceptionInfo[UserError]]:
    """Expects a `UserError` with this code, whose text has these names and values."""
    with pytest.raises(UserError) as info:
        yield info
    text = str(info.value)
    assert info.value.code == code, text
    assert not [name for name in map(str, names) if name not in text], text
