"""Exports for CTranslate2 as stored models: their records, and the settings they support."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import KERAS, Engine
from t2t_keras.decoding.stored_model import StoredModel
from t2t_keras.errors import UserError, command_line
from t2t_keras.interop.engines.ctranslate2 import CTranslate2Engine
from t2t_keras.io.files import check_regular, not_a_run, read_json
from t2t_keras.training.checkpoint_files import checkpoint_paths, read_head
from t2t_keras.training.run_config import RunConfig

RECORD_FILE = "t2t_keras.json"
_FOLDER = "ctranslate2"  # folder in a run
_ADVICE = "Export it again with t2t-exporter."


class CTranslate2Export(StoredModel):
    """An export for CTranslate2, found in its own folder or in the folder of its run.

    Raises:
      UserError: there is no export, it cannot be read, or the run has a newer checkpoint.
    """

    interactive_settings: ClassVar = {"batches_at_once": 1}  # One line uses all cores.

    def __init__(self, path: str | Path, checkpoint_path: str | Path | None = None):
        if checkpoint_path:
            raise _unsupported("checkpoint_path")
        path, folder = Path(path), self.find(Path(path))
        if not folder:
            is_run = RunConfig.exists(path)
            advice = f"Make one:{command_for_ctranslate2(path)}" if is_run else not_a_run(path)
            raise UserError(
                f"There is no model for CTranslate2 in {path}. {advice}", code="no_export"
            )
        self.model_path, self._file = folder, folder / RECORD_FILE
        if RunConfig.exists(path):
            self._check_newest(path)

    @classmethod
    def find(cls, path: Path) -> Path | None:
        """See `StoredModel`."""
        folder = path / _FOLDER if RunConfig.exists(path) else path
        return folder if (folder / RECORD_FILE).exists() else None

    @functools.cached_property
    def _content(self) -> dict[str, Any]:
        check_regular([self._file])
        content = read_json(self._file, _ADVICE, ("checkpoint", "decoding", "dtype", "positions"))
        if unknown := content["decoding"].keys() - vars(DecodeConfig()):
            raise UserError(
                f"{self._file} has unknown settings: {', '.join(sorted(unknown))}. {_ADVICE}",
                code="unknown_name",
            )
        return content

    @functools.cached_property
    def run_config(self) -> RunConfig:
        """See `StoredModel`; its hyperparameters are not checked."""
        return RunConfig.read(self._file, _ADVICE, check_hparams=False)

    @property
    def checkpoint_identity(self) -> dict[str, Any] | None:
        """See `StoredModel`."""
        return self._content["checkpoint"]

    @property
    def defaults(self) -> Mapping[str, Any]:
        """See `StoredModel`; the settings at the time of the export."""
        return self._content["decoding"]

    @property
    def dtype(self) -> str:
        """The type of the weights."""
        return self._content["dtype"]

    @property
    def positions(self) -> int:
        """Maximum number of tokens on either side, including EOS; 0 = no limit."""
        return self._content["positions"]

    @property
    def name(self) -> str:
        """See `StoredModel`."""
        return f"ctranslate2 {self.dtype}"

    def files(self) -> list[Path]:
        """See `StoredModel`."""
        files = {file for file in self.model_path.iterdir() if not file.is_dir()} - {self._file}
        return [*sorted(files), self._file]

    def load(
        self,
        config: DecodeConfig,
        ensemble: Sequence[str | Path] = (),
        forbidden: Sequence[str] = (),
    ) -> Engine:
        """See `StoredModel`."""
        options = dict(ensemble=ensemble, forbidden=forbidden)
        if names := [name for name, value in options.items() if value]:
            raise _unsupported(*names)
        return CTranslate2Engine(self.model_path, config, self.dtype, self.positions)

    def _check_newest(self, run: Path) -> None:
        checkpoints = checkpoint_paths(run)
        if checkpoints and not _is_same_checkpoint(self.checkpoint_identity, checkpoints[-1]):
            identity = self.checkpoint_identity
            exported = Path(identity["checkpoint"]).name if identity else "another model"
            raise UserError(
                f"{self.model_path} is an export of {exported}, not of the run's newest "
                f"checkpoint, {checkpoints[-1]}. Translate with it by --output_dir="
                f"{self.model_path}, or remove it and export again:{command_for_ctranslate2(run)}",
                code="outdated_export",
            )


def _unsupported(*arguments: str) -> UserError:
    return UserError(
        f"The engine ctranslate2 does not support {' and '.join(arguments)}: leave it out, or "
        f"choose the engine {KERAS}.",
        code="not_supported",
    )


def command_for_ctranslate2(run: str | Path, **flags: str) -> str:
    """Returns the command that exports a run into its own folder; see `command_line`."""
    return command_line("t2t-exporter", output_dir=run, format="ctranslate2", **flags)


def _is_same_checkpoint(checkpoint: dict[str, Any] | None, path: str) -> bool:
    """Returns whether an export was made from this checkpoint, even if the run has moved."""
    if not checkpoint or Path(checkpoint["checkpoint"]).name != Path(path).name:
        return False
    return checkpoint.get("digest") == read_head(path)["digest"]
