"""Text of data sets that tensorflow-datasets has prepared, or can prepare without a network.

It is only called when its files were seen: without a network it tries for minutes to download them.
"""

import contextlib
import dataclasses
import os
import re
from collections.abc import Iterator
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.text.formats import segment_text
from t2t_keras.text.sources import SourceFile


@dataclasses.dataclass(frozen=True)
class PreparedText:
    """A split of a translation data set of tensorflow-datasets."""

    dataset: str  # Its name there, e.g. "wmt14_translate/de-en".
    split: str  # "train", "validation" or "test".
    languages: tuple[str, str]  # Codes of source and target.
    data_dir: Path  # Of tensorflow-datasets.
    archives: tuple[SourceFile, ...] = ()  # What it prepares the data set from.
    has_entities: bool = False  # Whether its text has SGML's "&amp;" for "&".

    @property
    def corpus_name(self) -> str:
        """What `mix` calls the text."""
        return self.dataset.partition("/")[0]

    def prepared(self) -> Path | None:
        """Returns the directory of the prepared data set's newest version, if it is there."""
        versions = (self.data_dir / self.dataset).glob("*/dataset_info.json")
        return max((path.parent for path in versions), key=_version, default=None)

    def missing_archives(self) -> list[SourceFile]:
        """Returns the archives that are not where tensorflow-datasets looks for them."""
        folder = manual_directory(self.data_dir)
        return [file for file in self.archives if not (folder / file.name).exists()]


def _version(directory: Path) -> list[int]:
    """Returns the numbers of a version, so that 1.10.0 is newer than 1.9.0."""
    return [int(number) for number in re.findall(r"\d+", directory.name)]


def default_data_dir() -> Path:
    """Returns the directory that tensorflow-datasets uses by default."""
    return Path(os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets").expanduser()


def manual_directory(data_dir: Path) -> Path:
    """Returns the folder where tensorflow-datasets looks for files put there by hand."""
    return data_dir / "downloads" / "manual"


def dataset_directory(text: PreparedText) -> Path:
    """Returns the directory of the prepared data set, which is prepared first where it is not."""
    if text.prepared() is None:
        missing = text.missing_archives()
        if missing or not text.archives:
            raise UserError(
                f"{text.dataset} is not prepared in {text.data_dir}. For tensorflow-datasets to "
                f"prepare it, these files are missing in {manual_directory(text.data_dir)}:\n"
                + "\n".join(f"  {file.name}  ({file.url})" for file in missing),
                code="missing_source_files",
            )
        with _faults_of(text) as builder:
            builder.download_and_prepare()
    return text.prepared()


def prepared_lines(text: PreparedText) -> Iterator[tuple[bytes, bytes]]:
    """Yields source and target of a prepared split; prints what tensorflow-datasets leaves out."""
    order = "" if text.split == "train" else "; its lines are not in the official order"
    with _faults_of(text) as builder:
        dataset = builder.as_dataset(split=text.split, shuffle_files=False)
        for example in dataset.as_numpy_iterator():
            sides = (example[language] for language in text.languages)
            if text.has_entities:
                yield tuple(map(segment_text, sides))
            else:
                yield tuple(side.replace(b"\n", b" ") for side in sides)
    reason = "tensorflow-datasets has left out pairs with an empty side, and does not tell how many"
    print(f"{text.dataset}, {text.split}: {reason}{order}.", flush=True)


@contextlib.contextmanager
def _faults_of(text: PreparedText) -> Iterator:
    """Gives the builder of a data set; names the data set in its errors."""
    try:
        import tensorflow_datasets as tfds

        yield tfds.builder(text.dataset, data_dir=str(text.data_dir))
    except ImportError as error:
        raise UserError(
            f"{text.dataset} in {text.data_dir} needs tensorflow-datasets ({error}): "
            f"pip install 't2t-keras[tfds]'.",
            code="missing_package",
        ) from error
    except Exception as error:  # It raises errors of many kinds, its own among them.
        raise UserError(
            f"tensorflow-datasets cannot prepare or read {text.dataset} in {text.data_dir}: "
            f"{type(error).__name__}: {error}",
            code="not_prepared",
        ) from error
