"""A translator of random weights."""

from served_models import lines, small_translator, translator  # noqa: F401
