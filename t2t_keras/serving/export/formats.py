"""Exports for other programs than TensorFlow Serving: which format is written by what."""

import importlib
import tempfile
from pathlib import Path
from typing import NamedTuple

from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError


class _Format(NamedTuple):
    """A kind of export.

    Attributes:
      module: in this package, with a function `write(translator, folder, dtype)`.
      extra: of this library, which installs what it needs.
      dtypes: of the stored weights.
    """

    module: str
    extra: str
    dtypes: tuple[str, ...]


FORMATS: dict[str, _Format] = {
    "ctranslate2": _Format(
        "ctranslate2",
        "ctranslate2",
        ("float32", "bfloat16", "float16", "int8", "int8_float32", "int8_bfloat16"),
    ),
    "keras_hub": _Format("keras_hub", "keras-hub", ("float32", "bfloat16", "int8")),
    "litert": _Format("litert", "litert", ("float32", "float16", "int8")),
    "onnx": _Format("onnx", "onnx", ("float32", "int8")),
}


def check_format(name: str, export_dir: str | Path, dtype: str) -> None:
    """Raises `UserError` if the folder is there, or the format has no such dtype."""
    dtypes = FORMATS[name].dtypes
    if dtype not in dtypes:
        raise UserError(
            f"--format={name}: expected --dtype in {', '.join(dtypes)}, got {dtype}.",
            code="bad_value",
        )
    if Path(export_dir).exists():
        raise UserError(
            f"{export_dir} is there already. Remove it, or give another --export_dir.",
            code="output_exists",
        )


def write_format(name: str, translator: Translator, export_dir: str | Path, dtype: str) -> Path:
    """Writes an export in one of `FORMATS`; the folder gets its name when it is complete.

    Args:
      name: of the format.
      translator: the model, the vocabulary and the settings.
      export_dir: the folder to make.
      dtype: of the stored weights.

    Returns:
      The folder.

    Raises:
      UserError: the folder is there, a package is missing, the disk is full, or the format has no
        such dtype or cannot represent the model or a setting, which is named.
    """
    check_format(name, export_dir, dtype)
    kind, export_dir = FORMATS[name], Path(export_dir)
    try:
        writer = importlib.import_module(f"{__package__}.{kind.module}")
    except ModuleNotFoundError as error:
        raise UserError(
            f"--format={name} needs {error.name}, which is not installed: "
            f"pip install 't2t-keras[{kind.extra}]'",
            code="missing_package",
        ) from error
    try:
        export_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=export_dir.parent) as folder:
            unfinished = Path(folder) / "1"
            unfinished.mkdir()
            writer.write(translator, unfinished, dtype)
            return unfinished.rename(export_dir)
    except OSError as error:
        raise UserError(
            f"Cannot write the export to {export_dir}: {error}. Make room or give another "
            f"--export_dir.",
            code="not_written",
        ) from error
