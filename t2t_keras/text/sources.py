"""Sources of text: downloads, archives, formats, and data sets of tensorflow-datasets.

All are converted to plain text, which can be read from any position, in
`<tmp_dir>/plain_text/<file>.<fingerprint>/`, where "%2F" replaces "/" in the name of the file.

tensorflow-datasets is used only if its files are present: without a network it would try to
download them for minutes.
"""

import contextlib
import csv
import dataclasses
import errno
import gzip
import hashlib
import http.client
import os
import re
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from t2t_keras.errors import UserError, report_missing_package, translated_errors
from t2t_keras.io.files import atomic_writer
from t2t_keras.io.terminal import show_reading
from t2t_keras.text.files import is_utf16
from t2t_keras.text.formats import (
    holds_both_languages,
    is_plain,
    plain_name,
    read_text_file,
    segment_text,
)


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A file in --tmp_dir: text in a format of `t2t_keras.text.formats`, or an archive."""

    name: str  # Its file name in --tmp_dir.
    # Address to download it from; "" = it must be put into --tmp_dir by hand. The content of a URL
    # that ends in ".gz" is decompressed, unless the name ends in ".gz" too.
    url: str = ""
    size: int | None = None  # Bytes of the file as it stands in --tmp_dir, None if unknown.
    sha256: str = ""  # Checksum in hex, "" if unknown.
    md5: str = ""  # Checksum, if no SHA-256 was published.
    # For a tar archive, the possible file names of the text, without folders; the first one that
    # exists is read. No two texts of an archive have the same file name.
    members: tuple[str, ...] = ()

    @property
    def is_unpacked(self) -> bool:
        """Whether the download is decompressed."""
        return self.url.endswith(".gz") and not self.name.endswith(".gz")

    def facts(self) -> dict[str, str]:
        """Returns the known size and checksums of the content, by name."""
        size = "" if self.size is None else f"{self.size:,}"
        facts = {"bytes": size, "sha256": self.sha256, "md5": self.md5}
        return {name: value for name, value in facts.items() if value}


def downloads(table: Path) -> dict[str, SourceFile]:
    """Reads a tab-separated table with a heading of field names; returns its files by name."""
    files = {}
    with table.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            fields: dict[str, Any] = {**row, "size": int(row["size"] or 0) or None}
            files[row["name"]] = SourceFile(**fields)
    return files


@dataclasses.dataclass(frozen=True)
class ParallelFiles:
    """Two line-aligned files."""

    source: SourceFile
    target: SourceFile  # The same file if it (.tsv, .tmx) holds both languages.
    languages: tuple[str, str] = ("", "")  # Codes of both sides; needed if one file holds both.
    swapped: bool = False  # Whether the first column of a .tsv is the target.
    corpus: str = ""  # Its name in `mix`; "" = the beginning of the source's name.

    @property
    def corpus_name(self) -> str:
        """Name of the corpus in `mix`."""
        first = (*self.source.members, self.source.name)[0]
        return self.corpus or PurePosixPath(first).name.partition(".")[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusInfo:
    """Properties that all pairs of a corpus share."""

    corpus: str = "train"  # Its name in `mix`.
    prefix: str = ""  # Words before each source, which are pieces of the vocabulary.
    languages: tuple[str, str] | None = None  # Codes of source and target; None = the problem's.

    @property
    def symbols(self) -> frozenset[str]:
        """Words that must be single pieces of the vocabulary."""
        return frozenset(self.prefix.split())


@dataclasses.dataclass(frozen=True)
class PreparedText:
    """A split of a translation data set of tensorflow-datasets."""

    dataset: str  # Its name in tensorflow-datasets, e.g. "wmt14_translate/de-en".
    split: str  # "train", "validation" or "test".
    languages: tuple[str, str]  # Codes of source and target.
    data_dir: Path  # The directory of tensorflow-datasets.
    archives: tuple[SourceFile, ...] = ()  # The files that it prepares the data set from.
    has_entities: bool = False  # Whether its text has SGML's "&amp;" for "&".

    @property
    def corpus_name(self) -> str:
        """Name of the corpus in `mix`."""
        return self.dataset.partition("/")[0]

    def newest_directory(self) -> Path | None:
        """Returns the directory of the newest prepared version of the data set, if it is there."""
        versions = (self.data_dir / self.dataset).glob("*/dataset_info.json")
        return max((path.parent for path in versions), key=_version, default=None)

    def missing_archives(self) -> list[SourceFile]:
        """Returns the archives that are not where tensorflow-datasets looks for them."""
        folder = manual_directory(self.data_dir)
        return [file for file in self.archives if not (folder / file.name).exists()]


PLAIN_TEXT_FOLDER = "plain_text"
# Increase it when a reader converts a file differently.
_READERS_VERSION = 1


def plain_text(
    corpora: Sequence[ParallelFiles | PreparedText], tmp_dir: Path
) -> list[tuple[Path, Path]]:
    """Returns source and target of each corpus as plain files.

    Missing files are downloaded to `tmp_dir`, and files of other formats are converted. A file that
    cannot be downloaded, read or written is a `UserError`.
    """
    pairs = [corpus for corpus in corpora if isinstance(corpus, ParallelFiles)]
    files = [file for pair in pairs for file in (pair.source, pair.target)]
    fetch(files, tmp_dir)
    advice = f"Archives and other formats are converted into {PLAIN_TEXT_FOLDER}/ in --tmp_dir."
    text = f"Text in {tmp_dir} cannot be read or written"
    with translated_errors(OSError, text, advice, code="not_read"):
        for archive in dict.fromkeys(file.name for file in files if file.members):
            # Read all texts of an archive in one pass.
            _unpack([file for file in files if file.name == archive], tmp_dir)
        return [_plain_pair(corpus, tmp_dir) for corpus in corpora]


def _plain_pair(corpus: ParallelFiles | PreparedText, tmp_dir: Path) -> tuple[Path, Path]:
    order = 1
    lines: Iterator[tuple[bytes, ...]]
    if isinstance(corpus, PreparedText):
        path, lines = dataset_directory(corpus) / "dataset_info.json", prepared_lines(corpus)
        name, stem = corpus.dataset, corpus.split
    elif holds_both_languages(corpus.source.name):
        name = corpus.source.name
        path, stem = tmp_dir / name, plain_name(name)
        lines, order = _read_lines(path, corpus.languages), -1 if corpus.swapped else 1
    else:
        return _plain_file(corpus.source, tmp_dir), _plain_file(corpus.target, tmp_dir)
    folder = _renew_folder(name, path, tmp_dir)
    columns = "-".join(corpus.languages[::order])
    source, target = (folder / f"{stem}.{columns}.{code}" for code in corpus.languages)
    _convert(path, [source, target][::order], lines)
    return source, target


def _plain_file(file: SourceFile, tmp_dir: Path) -> Path:
    path = tmp_dir / file.name
    if not file.members and is_plain(file.name) and not is_utf16(path):
        return path
    plain = _renew_folder(file.name, path, tmp_dir) / plain_name((*file.members, file.name)[0])
    if not file.members:
        _convert(path, [plain], _read_lines(path))
    return plain


def _read_lines(path: Path, languages: tuple[str, str] = ("", "")) -> Iterator[tuple[bytes, ...]]:
    with path.open("rb") as stream:
        yield from read_text_file(stream, path.name, languages)


def _convert(path: Path, plain_files: Sequence[Path], lines: Iterable[tuple[bytes, ...]]) -> None:
    if not all(file.exists() for file in plain_files):
        with _replace_plain_files(plain_files, path) as outputs:
            _write_lines(lines, outputs)


def _write_lines(lines: Iterable[tuple[bytes, ...]], outputs: Sequence[BinaryIO]) -> None:
    for texts in lines:
        for text, output in zip(texts, outputs, strict=True):
            output.write(text + b"\n")


def _unpack(files: Sequence[SourceFile], tmp_dir: Path) -> None:
    """Writes an archive's missing texts, each to a file named after the first of its `members`."""
    path = tmp_dir / files[0].name
    plain = {file.members: _plain_file(file, tmp_dir) for file in files}
    plain = {names: path for names, path in plain.items() if not path.exists()}
    if not plain:
        return
    # Members come in any order: `best_index[names]` is the index in `names` of the best yet.
    best_index = {names: len(names) for names in plain}
    with (
        _replace_plain_files(plain.values(), path, files[0].size) as outputs,
        path.open("rb") as file,
        show_reading(file, path.stat().st_size, path.name) as progress_stream,
        # Read as a stream: going back would decompress the archive again.
        tarfile.open(fileobj=progress_stream, mode="r|*") as archive,
    ):
        for member in archive:
            name = PurePosixPath(member.name).name
            for names, output in zip(plain, outputs, strict=True):
                if member.isfile() and name in names[: best_index[names]]:
                    best_index[names] = names.index(name)
                    output.seek(0)
                    output.truncate()
                    stream = archive.extractfile(member)
                    assert stream is not None  # `isfile()` says that it has content.
                    with stream:
                        _write_lines(read_text_file(stream, f"{path.name}/{name}"), [output])
                    break
            if not any(best_index.values()):
                break
        missing = [names[0] for names, index in best_index.items() if index == len(names)]
        if missing:
            raise UserError(
                f"{path} has no {', '.join(sorted(missing))}. Expected the archive "
                f"{files[0].url or 'with these files'}.",
                code="missing_members",
            )


def _renew_folder(name: str, path: Path, tmp_dir: Path) -> Path:
    """Makes the folder for a file's plain text, and removes folders of the file's old versions."""
    # A single folder level, since a name such as ../a leads out of `tmp_dir`.
    name = name.replace("%", "%25").replace("/", "%2F")
    status = path.stat()
    identity = f"{_READERS_VERSION} {name} {status.st_size} {status.st_mtime_ns}"
    fingerprint = hashlib.sha256(identity.encode()).hexdigest()[:12]
    folder = Path(tmp_dir) / PLAIN_TEXT_FOLDER / f"{name}.{fingerprint}"
    folder.mkdir(parents=True, exist_ok=True)
    for sibling in folder.parent.iterdir():
        if sibling != folder and re.fullmatch(rf"{re.escape(name)}\.[0-9a-f]{{12}}", sibling.name):
            shutil.rmtree(sibling)
    return folder


@contextlib.contextmanager
def _replace_plain_files(
    plain_files: Iterable[Path], path: Path, expected_size: int | None = None
) -> Iterator[list[BinaryIO]]:
    """Opens the plain files of `path` to write; replaces all or none. Errors name `path`."""
    try:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(atomic_writer(file)) for file in plain_files]
    except (gzip.BadGzipFile, tarfile.TarError, EOFError, zlib.error) as error:
        size = f"{path.stat().st_size:,} bytes"
        if expected_size:
            size += f", expected {expected_size:,}"
        raise UserError(
            f"{path} is damaged or truncated ({error}; {size}). Get it again.", code="damaged_file"
        ) from error


_TIMEOUT_SECONDS = 20
_BLOCK_BYTES = 1 << 20
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EFBIG)


def fetch(files: Iterable[SourceFile], tmp_dir: Path) -> None:
    """Downloads the files that are missing in `tmp_dir`, and checks their sizes and checksums.

    A `UserError` lists all missing files and where to put them.
    """
    distinct_files = {file.name: file for file in files}.values()
    missing = [file for file in distinct_files if not (tmp_dir / file.name).exists()]
    if any(not file.url for file in missing):
        reason = "they cannot be downloaded" if tmp_dir.is_dir() else "there is no such folder"
        raise _missing_error(missing, tmp_dir, reason)
    for number, file in enumerate(missing):
        try:
            tmp_dir.mkdir(parents=True, exist_ok=True)
            _download(file, tmp_dir / file.name)
        except (OSError, http.client.HTTPException, EOFError, zlib.error) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # It holds the connection.
            if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
                raise UserError(
                    f"{tmp_dir / file.name} cannot be written: {error.strerror}. Make room or give "
                    f"another --tmp_dir, then run the same command again.",
                    code="not_written",
                ) from error
            reason = f"cannot download {file.url} ({error})"
            raise _missing_error(missing[number:], tmp_dir, reason) from error


def _missing_error(missing: list[SourceFile], tmp_dir: Path, reason: str) -> UserError:
    message = f"Source files are missing in {tmp_dir}: {reason}. Put them there by hand:"
    for file in missing:
        notes = [file.url or "your own file", *["unpacked"] * file.is_unpacked]
        notes += [f"{name} {value}" for name, value in file.facts().items()]
        message += f"\n  {file.name}  ({', '.join(notes)})"
    return UserError(message, code="missing_source_files")


def _download(file: SourceFile, path: Path) -> None:
    with (
        atomic_writer(path) as output,
        urllib.request.urlopen(file.url, timeout=_TIMEOUT_SECONDS) as response,
    ):
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        with show_reading(response, total, file.name) as progress_stream:
            content = (
                gzip.GzipFile(fileobj=progress_stream) if file.is_unpacked else progress_stream
            )
            shutil.copyfileobj(content, output, _BLOCK_BYTES)
        # A broken connection looks like the end of the file; gzip notices by itself.
        if not file.is_unpacked and total not in (None, output.tell()):
            raise EOFError(f"expected {total:,} bytes, got {output.tell():,}")
        output.flush()
        for name, expected in file.facts().items():
            actual = f"{output.tell():,}"
            if name != "bytes":
                with Path(output.name).open("rb") as downloaded:
                    actual = hashlib.file_digest(downloaded, name).hexdigest()
            if actual != expected:
                raise UserError(
                    f"{file.url}: expected {name} {expected}, got {actual}. If the new file is "
                    f"right, put it into --tmp_dir as {file.name}: existing files are not checked.",
                    code="other_checksum",
                )


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
    """Returns the directory of the prepared data set; prepares it first if necessary."""
    if not (directory := text.newest_directory()):
        missing = text.missing_archives()
        if missing or not text.archives:
            raise UserError(
                f"{text.dataset} is not prepared in {text.data_dir}. For tensorflow-datasets to "
                f"prepare it, these files are missing in {manual_directory(text.data_dir)}:\n"
                + "\n".join(f"  {file.name}  ({file.url})" for file in missing),
                code="missing_source_files",
            )
        with _open_builder(text) as builder:
            builder.download_and_prepare()
        directory = text.newest_directory()
        assert directory is not None
    return directory


def prepared_lines(text: PreparedText) -> Iterator[tuple[bytes, bytes]]:
    """Yields source and target of a prepared split; prints that some pairs may be missing."""
    order_caveat = "" if text.split == "train" else "; its lines are not in the official order"
    with _open_builder(text) as builder:
        dataset = builder.as_dataset(split=text.split, shuffle_files=False)
        for example in dataset.as_numpy_iterator():
            source, target = (example[language] for language in text.languages)
            if text.has_entities:
                yield segment_text(source), segment_text(target)
            else:
                yield source.replace(b"\n", b" "), target.replace(b"\n", b" ")
    caveat = "tensorflow-datasets leaves out pairs with an empty side without counting them"
    print(f"{text.dataset}, {text.split}: {caveat}{order_caveat}.", flush=True)


@contextlib.contextmanager
def _open_builder(text: PreparedText) -> Iterator:
    """Yields the builder of a data set; errors name the data set."""
    subject = f"{text.dataset} in {text.data_dir}"
    # tensorflow-datasets raises errors of many kinds.
    failure = f"tensorflow-datasets cannot prepare or read {subject}"
    with (
        translated_errors(Exception, failure, code="not_prepared"),
        report_missing_package(subject, "tfds"),
    ):
        import tensorflow_datasets as tfds

        yield tfds.builder(text.dataset, data_dir=str(text.data_dir))
