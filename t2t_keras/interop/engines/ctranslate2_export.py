"""What was exported for CTranslate2: the record of an export, and the settings that it can have."""

from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.errors import UserError, command_line
from t2t_keras.io.atomic import sha256_of
from t2t_keras.io.folders import not_a_run
from t2t_keras.io.state import read_json
from t2t_keras.training.checkpoints.names import TENSORFLOW_SUFFIX, checkpoint_paths
from t2t_keras.training.run_config import RunConfig

RECORD_FILE = "t2t_keras.json"
_FOLDER = "ctranslate2"  # in a run

_UNSUPPORTED = {
    "coverage_penalty": "its attention is that of one layer",
    "seed": "it draws others at each call",
    "xla": "it is compiled",
    "xla_for_one": "it is compiled",
    "weights_dtype": "an export has its own --dtype",
}


class Export(NamedTuple):
    """What an export for CTranslate2 says of itself.

    Attributes:
      folder: where it is.
      record: the run that it is of; its hyperparameters are not checked.
      checkpoint: `identity` of the checkpoint, and its "sha256"; None = unknown.
      decoding: all decoding settings it was made with, by name; the defaults of the engine.
      dtype: of the weights.
      positions: most tokens on either side, with the end; 0 = any number.
    """

    folder: Path
    record: RunConfig
    checkpoint: dict[str, Any] | None
    decoding: dict[str, Any]
    dtype: str
    positions: int


def open_export(path: str | Path) -> Export:
    """Reads the record of an export, given by its folder or by that of the run that has it.

    Raises:
      UserError: there is none, it cannot be read, or the run has a newer checkpoint.
    """
    path = Path(path)
    of_run = RunConfig.exists(path)
    folder = path / _FOLDER if of_run else path
    file = folder / RECORD_FILE
    if not file.exists():
        why = f"Make one:{command_for_ctranslate2(path)}" if of_run else not_a_run(path)
        raise UserError(f"There is no model for CTranslate2 in {path}. {why}", code="no_export")
    advice = "Make it again with t2t-exporter."
    keys = ("checkpoint", "decoding", "dtype", "positions")
    content = read_json(file, advice, keys)
    if unknown := content["decoding"].keys() - vars(DecodeConfig()):
        raise UserError(
            f"{file} has unknown settings: {', '.join(sorted(unknown))}. {advice}",
            code="unknown_name",
        )
    export = Export(folder, RunConfig.read(file, advice, checked=False), *map(content.get, keys))
    newest = checkpoint_paths(path, TENSORFLOW_SUFFIX) if of_run else []
    if newest and not _is_of(export.checkpoint, newest[-1]):
        made = Path(export.checkpoint["checkpoint"]).name if export.checkpoint else "another model"
        raise UserError(
            f"{folder} was made of {made}, and is not of {newest[-1]}, the run's newest "
            f"checkpoint. Use it as it is by --output_dir={folder}, or remove it and make it again:"
            f"{command_for_ctranslate2(path)}",
            code="outdated_export",
        )
    return export


def command_for_ctranslate2(run: str | Path, **flags: str) -> str:
    """Returns the command that exports a run into its own folder, as of `command_line`."""
    return command_line("t2t-exporter", output_dir=run, format="ctranslate2", **flags)


def _is_of(checkpoint: dict[str, Any] | None, path: str) -> bool:
    """Returns whether an export's checkpoint is this one; a copy may have another time."""
    if not checkpoint or Path(checkpoint["checkpoint"]).name != Path(path).name:
        return False
    return checkpoint.get("sha256") == sha256_of(Path(f"{path}{TENSORFLOW_SUFFIX}"))


def check_settings(config: DecodeConfig) -> None:
    """Raises `UserError` for settings that CTranslate2 has not, or has with another meaning."""
    default = DecodeConfig()
    refused = [
        f"{name} ({reason})"
        for name, reason in _UNSUPPORTED.items()
        if getattr(config, name) != getattr(default, name)
    ]
    refused += ["max_length=1 (it makes a token at least)"] * (config.max_length == 1)
    if refused:
        raise UserError(
            f"CTranslate2 has no {', '.join(refused)}: leave it out of --decode_hparams, or do "
            f"without CTranslate2.",
            code="not_supported",
        )


def positions_needed(config: DecodeConfig) -> int:
    """Returns the most tokens that a source or an output may have, with the end."""
    return max(config.max_input_length, config.longest_output(config.max_input_length))
