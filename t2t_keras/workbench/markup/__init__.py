"""HTML and XML: the text in them, and their tags around its translation."""

from t2t_keras.workbench.markup.reading import Fragment, read_fragment

__all__ = ["Fragment", "read_fragment"]
