"""A small vocabulary and a model of it."""

from small_models import model, random_model, tokenizer, write  # noqa: F401
