"""The flags of commands that translate text: how, and with what."""

from pathlib import Path

from absl import flags as absl_flags

from t2t_keras.bin.flags import FlagValues
from t2t_keras.data.text_files import read_text
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.settings import describe


def define_decode_hparams(flags: FlagValues) -> None:
    """Adds --decode_hparams."""
    absl_flags.DEFINE_string(
        "decode_hparams",
        "",
        '"name=value,..." of these settings (a problem may have other defaults):\n'
        + "\n".join(describe(DecodeConfig())),
        flag_values=flags,
    )


def define_decoding(flags: FlagValues) -> None:
    """Adds --decode_hparams, and what else may be asked of translations."""

    def text(name: str, meaning: str) -> None:
        absl_flags.DEFINE_string(name, "", meaning, flag_values=flags)

    text("prefix_file", "How each translation must begin, a line for each of the source's.")
    text("forbidden_file", "Words or phrases that no translation may hold, one a line.")
    text(
        "ensemble",
        "More models to translate with, divided by commas: directories of runs, or path prefixes "
        "of checkpoints.",
    )
    define_decode_hparams(flags)


def ensemble(flags: FlagValues) -> list[str]:
    """Returns the paths in --ensemble."""
    return [path.strip() for path in flags.ensemble.split(",") if path.strip()]


def forbidden(flags: FlagValues) -> list[str]:
    """Returns the lines of --forbidden_file.

    Raises:
      UserError: it cannot be read.
    """
    return read_text(Path(flags.forbidden_file)) if flags.forbidden_file else []
