"""Exports for programs other than TensorFlow Serving; packages register an `ExportFormat`."""

import abc
import tempfile
from collections.abc import Sequence
from pathlib import Path

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError, missing_package
from t2t_keras.hyperparameters import ModelConfig
from t2t_keras.registry import EXPORT_FORMATS
from t2t_keras.serving.card import write_card

# Types of the weights in a SavedModel.
STORED_DTYPES = ("float32", "bfloat16", "int8")


class ExportFormat(abc.ABC):
    """A format of exports for another program.

    Attributes:
      extra: the extra of t2t_keras that installs the packages that the format needs.
      dtypes: supported types of the stored weights.
    """

    extra: str = ""
    dtypes: tuple[str, ...] = ("float32",)

    def check_model(self, config: ModelConfig) -> None:  # noqa: B027
        """Raises `UserError` unless the format can represent a Transformer of this config."""

    def check_decoding(self, config: DecodeConfig) -> None:  # noqa: B027
        """Raises `UserError` for a decoding setting that the format lacks."""

    @abc.abstractmethod
    def write(self, translator: Translator, folder: Path, dtype: str) -> None:
        """Writes the export into a new, empty folder.

        Imports packages that only this format needs.

        Raises:
          UserError: the format cannot represent the model or a setting; the text says why.
        """


def check_backend() -> None:
    """Raises `UserError` unless Keras's backend is TensorFlow, which all exports need."""
    import keras

    if (backend := keras.backend.backend()) != "tensorflow":
        raise UserError(
            f"Exports need TensorFlow, got KERAS_BACKEND={backend}. Leave it unset.",
            code="other_backend",
        )


def check_format(name: str, export_dir: str | Path, dtype: str) -> None:
    """Raises `UserError` if the folder exists, or the format does not support the dtype."""
    check_dtype(name, dtype)
    if Path(export_dir).exists():
        raise UserError(
            f"{export_dir} already exists. Remove it, or give another --export_dir.",
            code="output_exists",
        )


def write_format(
    name: str,
    translator: Translator,
    export_dir: str | Path,
    dtype: str,
    scores: Sequence[str] = (),
    notes: str = "",
) -> Path:
    """Writes an export in a registered format; the folder gets its name when it is complete.

    Args:
      name: name of the format.
      translator: the model, the vocabulary and the settings.
      export_dir: the folder to make.
      dtype: type of the stored weights.
      scores: scores for the model card, see `write_card`.
      notes: notes for the model card.

    Returns:
      The folder.

    Raises:
      UserError: the folder exists, a package is missing, the disk is full, or the format does not
        support the dtype, the model or a setting; or the backend is not TensorFlow.
    """
    check_format(name, export_dir, dtype)
    check_backend()
    export_format, export_dir = EXPORT_FORMATS[name](), Path(export_dir)
    try:
        export_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=export_dir.parent) as folder:
            unfinished = Path(folder) / "1"
            unfinished.mkdir()
            export_format.write(translator, unfinished, dtype)
            write_card(unfinished, translator, name, dtype, scores, notes)
            return unfinished.rename(export_dir)
    except ModuleNotFoundError as error:
        if export_format.extra:
            raise missing_package(f"--format={name}", error.name, export_format.extra) from error
        raise UserError(
            f"--format={name} needs {error.name}, which is not installed.", code="missing_package"
        ) from error
    except OSError as error:
        raise UserError(
            f"Cannot write the export to {export_dir}: {error}. Make room or give another "
            f"--export_dir.",
            code="not_written",
        ) from error


def check_dtype(name: str, dtype: str) -> None:
    """Raises `UserError` if a format, such as saved_model, does not support a dtype."""
    dtypes = STORED_DTYPES if name == "saved_model" else EXPORT_FORMATS[name].dtypes
    if dtype not in dtypes:
        raise UserError(
            f"--format={name} does not support --dtype={dtype}: choose from {', '.join(dtypes)}.",
            code="bad_value",
        )
