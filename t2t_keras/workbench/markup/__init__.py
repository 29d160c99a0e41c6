"""Translates HTML and XML: divides them into text, and puts their tags into its translation."""

from t2t_keras.workbench.markup.reading import Fragment, read_fragment

__all__ = ["Fragment", "read_fragment"]
