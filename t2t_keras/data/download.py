"""Source files: taken from --tmp_dir as they are, or downloaded there and checked."""

import errno
import gzip
import http.client
import shutil
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from t2t_keras.data.atomic_file import checksum_of, replaced_atomically
from t2t_keras.data.problem import SourceFile
from t2t_keras.errors import UserError
from t2t_keras.progress_bar import show_reading

_TIMEOUT_SECONDS = 20
_BLOCK_BYTES = 1 << 20
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.ENOTDIR)


def fetch(files: Iterable[SourceFile], tmp_dir: Path) -> dict[str, Path]:
    """Returns the path of each file by its name; downloads those that are not in `tmp_dir`.

    A file that is there already is used as it is. A downloaded one is checked against its size and
    checksum, where they are known, and gets its name only when it is whole and right.

    Raises:
      UserError: files that cannot be had, all of them listed with where to put them; or a download
        that is not what was expected.
    """
    files = list({file.name: file for file in files}.values())
    tmp_dir = Path(tmp_dir)
    missing = [file for file in files if not (tmp_dir / file.name).exists()]
    if any(not file.url for file in missing):
        raise _missing_error(missing, tmp_dir, "no address is known for all of them")
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
                    f"another --tmp_dir, then run the same command again."
                ) from error
            reason = f"{file.url} cannot be downloaded ({error})"
            raise _missing_error(missing[number:], tmp_dir, reason) from error
    return {file.name: tmp_dir / file.name for file in files}


def _missing_error(missing: list[SourceFile], tmp_dir: Path, reason: str) -> UserError:
    lines = [f"Source files are missing in {tmp_dir}: {reason}. Put these there by hand:"]
    for file in missing:
        facts = [file.url or "your own file"]
        if _is_packed(file):
            facts.append("unpacked")
        if file.size is not None:
            facts.append(f"{file.size:,} bytes")
        facts += [f"{kind} {checksum}" for kind, checksum in _checksums(file).items()]
        lines.append(f"  {file.name}  ({', '.join(facts)})")
    return UserError("\n".join(lines))


def _download(file: SourceFile, path: Path) -> None:
    with replaced_atomically(path) as output:
        _copy(file, output)
        output.flush()
        _check(file, Path(output.name))


def _copy(file: SourceFile, output: BinaryIO) -> None:
    with urllib.request.urlopen(file.url, timeout=_TIMEOUT_SECONDS) as response:
        length = response.headers.get("Content-Length")
        total = int(length) if length else None
        with show_reading(response, total, file.name) as received:
            content = gzip.GzipFile(fileobj=received) if _is_packed(file) else received
            shutil.copyfileobj(content, output, _BLOCK_BYTES)
    # A connection that breaks off looks like the end of the file; gzip notices by itself.
    if not _is_packed(file) and total not in (None, output.tell()):
        raise EOFError(f"{output.tell():,} of {total:,} bytes came")


def _is_packed(file: SourceFile) -> bool:
    return file.url.endswith(".gz") and not file.name.endswith(".gz")


def _checksums(file: SourceFile) -> dict[str, str]:
    """Returns the checksums that are known, by kind."""
    known = {"sha256": file.sha256, "md5": file.md5}
    return {kind: checksum for kind, checksum in known.items() if checksum}


def _check(file: SourceFile, path: Path) -> None:
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        came, expected = f"{size:,} bytes", f"{file.size:,} bytes"
    else:
        checksums = _checksums(file)
        found = {kind: checksum_of(path, kind) for kind in checksums}
        if found == checksums:
            return
        came, expected = (
            ", ".join(f"{kind} {checksum}" for kind, checksum in each.items())
            for each in (found, checksums)
        )
    raise UserError(
        f"{file.url} is not the expected file: {came} came, {expected} expected. If the new one is "
        f"right, put it into --tmp_dir as {file.name} by hand; files there are used as they are."
    )
