"""Text of data sets that tensorflow-datasets has prepared, or can prepare without a network.

Without a network it tries for minutes to download before it fails, so it is asked for nothing whose
files were not seen first.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from t2t_keras.data.problem import PreparedText, SourceFile
from t2t_keras.data.sgm import segment_text
from t2t_keras.errors import UserError


def default_data_dir() -> Path:
    """Returns the directory that tensorflow-datasets uses where none is named."""
    return Path(os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets").expanduser()


def manual_directory(data_dir: str | Path) -> Path:
    """Returns the folder where tensorflow-datasets looks for files put there by hand."""
    return Path(data_dir) / "downloads" / "manual"


def is_prepared(dataset: str, data_dir: str | Path) -> bool:
    """Returns whether a data set is complete in `data_dir`."""
    return any((Path(data_dir) / dataset).glob("*/dataset_info.json"))


def can_be_prepared(archives: Iterable[SourceFile], data_dir: str | Path) -> bool:
    """Returns whether all archives stand where tensorflow-datasets takes them from."""
    return all((manual_directory(data_dir) / file.name).exists() for file in archives)


def dataset_directory(text: PreparedText) -> Path:
    """Returns the directory of the prepared data set, which is prepared first where it is not.

    Raises:
      UserError: it can be had from nowhere (every file that is missing is named), or
        tensorflow-datasets is not installed, or cannot prepare it.
    """
    if not is_prepared(text.dataset, text.data_dir):
        folder = manual_directory(text.data_dir)
        missing = [file for file in text.archives if not (folder / file.name).exists()]
        if missing or not text.archives:
            raise UserError(
                f"{text.dataset} is not prepared in {text.data_dir}, and for tensorflow-datasets "
                f"to prepare it these are missing in {folder}:\n"
                + "\n".join(f"  {file.name}  ({file.url})" for file in missing)
            )
        builder = _builder(text)
        with _errors_named(text, "prepare"):
            builder.download_and_prepare()
    versions = (Path(text.data_dir) / text.dataset).glob("*/dataset_info.json")
    return max(versions, key=lambda path: path.parent.name).parent


def write_prepared(text: PreparedText, outputs: tuple[BinaryIO, BinaryIO]) -> None:
    """Writes source and target of a prepared split, one sentence a line.

    Raises:
      UserError: tensorflow-datasets is not installed, or cannot read the data set.
      OSError: an output cannot be written.
    """
    for example in _examples(text):
        for output, language in zip(outputs, text.languages, strict=True):
            line = example[language]
            line = segment_text(line) if text.has_entities else line.replace(b"\n", b" ")
            output.write(line + b"\n")


def what_is_lost(text: PreparedText) -> str:
    """Returns a line on what tensorflow-datasets does to a split without saying so."""
    order = "" if text.split == "train" else "; its lines are not in the official order"
    return (
        f"{text.dataset}, {text.split}: tensorflow-datasets has left out pairs with an empty side, "
        f"and does not tell how many{order}."
    )


def _examples(text: PreparedText) -> Iterator[Mapping[str, bytes]]:
    builder = _builder(text)
    with _errors_named(text, "read"):
        import tensorflow_datasets as tfds

        yield from tfds.as_numpy(builder.as_dataset(split=text.split, shuffle_files=False))


def _builder(text: PreparedText):
    try:
        import tensorflow_datasets as tfds

        return tfds.builder(text.dataset, data_dir=text.data_dir)
    except ImportError as error:
        raise UserError(
            f"{text.dataset} in {text.data_dir} needs tensorflow-datasets ({error}): "
            f"pip install 't2t-keras[tfds]'."
        ) from error


@contextlib.contextmanager
def _errors_named(text: PreparedText, what_it_does: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # It raises errors of many kinds, those of its own among them.
        raise UserError(
            f"tensorflow-datasets cannot {what_it_does} {text.dataset} in {text.data_dir}: "
            f"{type(error).__name__}: {error}"
        ) from error
