"""Placeholders: pieces of a text that translations must keep, such as `%s`, `{name}` and `5 MB`."""

from t2t_keras.workbench.placeholders.finding import (
    Placeholder,
    find,
    has_words,
    is_reordered,
    missing,
)

__all__ = ["Placeholder", "find", "has_words", "is_reordered", "missing"]
