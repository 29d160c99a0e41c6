"""The flags of commands that follow a training: how far back, and how long to wait."""

from absl import flags as absl_flags

from t2t_keras.bin.flags import FlagValues
from t2t_keras.training.following import Patience


def define_following(flags: FlagValues, what: str) -> None:
    """Adds --min_steps and --wait_minutes, as tensor2tensor has them.

    Args:
      flags: the command's.
      what: is followed, in the plural.
    """
    absl_flags.DEFINE_integer(
        "min_steps", 0, f"Leaves {what} of fewer steps alone.", 0, flag_values=flags
    )
    absl_flags.DEFINE_float(
        "wait_minutes",
        0.0,
        f"Waits so long for further {what}; 0 = takes those that are there.",
        0.0,
        flag_values=flags,
    )


def patience(flags: FlagValues) -> Patience:
    """Returns how long to wait."""
    return Patience(wait_minutes=flags.wait_minutes)
