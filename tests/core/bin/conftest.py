"""A run as t2t-trainer leaves it, and how a command refuses its flags."""

from commands import refused  # noqa: F401
from random_runs import random_run, save_random_run  # noqa: F401
