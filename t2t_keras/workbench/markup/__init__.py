"""Translates HTML and XML: extracts the text, and puts the tags into the translation."""

from t2t_keras.workbench.markup.reading import Fragment, read_fragment

__all__ = ["Fragment", "read_fragment"]
