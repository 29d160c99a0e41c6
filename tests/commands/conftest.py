"""A run as t2t-trainer leaves it, and how a command refuses its flags, and installed packages."""

from commands import refused  # noqa: F401
from packages import installed  # noqa: F401
from random_runs import random_run, save_random_run  # noqa: F401
