"""Parallel text of numbered sentences, and what generated data contains."""

from numbered_text import change, contents, problem, tmp_dir  # noqa: F401
