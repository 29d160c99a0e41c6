"""A small vocabulary and models of it; parallel text of numbered sentences."""

from numbered_text import change, contents, problem, tmp_dir  # noqa: F401
from small_models import model, random_model, tokenizer, write  # noqa: F401
