"""Small vocabularies, models, translators and runs, and how a command refuses its flags."""

from commands import refused  # noqa: F401
from random_runs import random_run, save_random_run  # noqa: F401
from served_models import lines, small_translator, translator  # noqa: F401
from small_models import model, random_model, tokenizer, write  # noqa: F401
