"""Where text comes from: files in --tmp_dir, downloaded there if need be and checked."""

import csv
import dataclasses
import errno
import gzip
import hashlib
import http.client
import shutil
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from t2t_keras.errors import UserError
from t2t_keras.io.atomic import replaced_atomically
from t2t_keras.io.progress import show_reading

_TIMEOUT_SECONDS = 20
_BLOCK_BYTES = 1 << 20
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EFBIG)


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A file in --tmp_dir: text in a format of `t2t_keras.text.formats`, or an archive."""

    name: str  # Its file name there.
    # Where to download it, "" if it must be put there by hand. A URL that ends in ".gz" is
    # unpacked, unless the name ends so too.
    url: str = ""
    size: int | None = None  # Bytes of the file as it stands in --tmp_dir, None if unknown.
    sha256: str = ""  # In hex, "" if unknown.
    md5: str = ""  # Likewise, where nothing better was published.
    # For a tar archive, the text's file name in it, without folders; of several names, the first
    # that the archive has. Different texts have no name in common.
    members: tuple[str, ...] = ()

    @property
    def is_unpacked(self) -> bool:
        """Whether the download is unpacked."""
        return self.url.endswith(".gz") and not self.name.endswith(".gz")

    def facts(self) -> dict[str, str]:
        """Returns what is known of the content: bytes and checksums, by name."""
        size = "" if self.size is None else f"{self.size:,}"
        facts = {"bytes": size, "sha256": self.sha256, "md5": self.md5}
        return {name: value for name, value in facts.items() if value}


def downloads(table: Path) -> dict[str, SourceFile]:
    """Returns the files in a table, tab-separated with the names of fields as heading, by name."""
    with table.open(encoding="utf-8", newline="") as lines:
        return {
            row["name"]: SourceFile(**row | {"size": int(row["size"] or 0) or None})
            for row in csv.DictReader(lines, delimiter="\t")
        }


@dataclasses.dataclass(frozen=True)
class ParallelFiles:
    """Two files of which line N of one is the translation of line N of the other."""

    source: SourceFile
    target: SourceFile  # The same file where one (.tsv, .tmx) holds both languages.
    languages: tuple[str, str] = ("", "")  # Their codes, needed where one file holds both.
    swapped: bool = False  # Whether the first column of a .tsv is the target.
    corpus: str = ""  # What `mix` calls it; "" = the beginning of the source's name.

    @property
    def corpus_name(self) -> str:
        """What `mix` calls the text."""
        first = (*self.source.members, self.source.name)[0]
        return self.corpus or PurePosixPath(first).name.partition(".")[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfCorpus:
    """What is said of all pairs of a text."""

    corpus: str = "train"  # What `mix` calls it.
    prefix: str = ""  # Words before each source, which are pieces of the vocabulary.
    languages: tuple[str, str] | None = None  # Of source and target; None = the problem's.


def fetch(files: Iterable[SourceFile], tmp_dir: Path) -> None:
    """Downloads the files that are not in `tmp_dir`, and compares these with size and checksums.

    A `UserError` lists all files that cannot be had, and where to put them.
    """
    by_name = {file.name: file for file in files}
    missing = [file for name, file in by_name.items() if not (tmp_dir / name).exists()]
    if any(not file.url for file in missing):
        why = "they cannot be downloaded" if tmp_dir.is_dir() else "there is no such folder"
        raise _missing_error(missing, tmp_dir, why)
    for number, file in enumerate(missing):
        try:
            tmp_dir.mkdir(parents=True, exist_ok=True)
            _download(file, tmp_dir / file.name)
        except (OSError, http.client.HTTPException, EOFError, zlib.error) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # It holds the connection.
            if getattr(error, "errno", None) in _DISK_ERRORS:
                raise UserError(
                    f"{tmp_dir / file.name} cannot be written: {error.strerror}. Make room or give "
                    f"another --tmp_dir, then run the same command again.",
                    code="not_written",
                ) from error
            reason = f"cannot download {file.url} ({error})"
            raise _missing_error(missing[number:], tmp_dir, reason) from error


def _missing_error(missing: list[SourceFile], tmp_dir: Path, reason: str) -> UserError:
    message = f"Source files are missing in {tmp_dir}: {reason}. Put these there by hand:"
    for file in missing:
        notes = [file.url or "your own file", *["unpacked"] * file.is_unpacked]
        notes += [f"{name} {value}" for name, value in file.facts().items()]
        message += f"\n  {file.name}  ({', '.join(notes)})"
    return UserError(message, code="missing_source_files")


def _download(file: SourceFile, path: Path) -> None:
    with (
        replaced_atomically(path) as output,
        urllib.request.urlopen(file.url, timeout=_TIMEOUT_SECONDS) as response,
    ):
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        with show_reading(response, total, file.name) as received:
            content = gzip.GzipFile(fileobj=received) if file.is_unpacked else received
            shutil.copyfileobj(content, output, _BLOCK_BYTES)
        # A connection that breaks off looks like the end of the file; gzip notices by itself.
        if not file.is_unpacked and total not in (None, output.tell()):
            raise EOFError(f"expected {total:,} bytes, got {output.tell():,}")
        output.flush()
        for name, expected in file.facts().items():
            found = f"{output.tell():,}"
            if name != "bytes":
                with Path(output.name).open("rb") as written:
                    found = hashlib.file_digest(written, name).hexdigest()
            if found != expected:
                raise UserError(
                    f"{file.url}: expected {name} {expected}, got {found}. If the new file is "
                    f"right, put it into --tmp_dir as {file.name}; what is there is not checked.",
                    code="other_checksum",
                )
