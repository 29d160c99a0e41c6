"""Archives and other formats, turned once into plain text in which line N pairs with line N.

The plain text, which can be read from any position and more than once, stands in
`<tmp_dir>/plain_text/<file>.<fingerprint>/`, with "%2F" for a "/" in the file's name.
"""

import contextlib
import gzip
import hashlib
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from t2t_keras.errors import UserError
from t2t_keras.io.atomic import replaced_atomically
from t2t_keras.io.progress import show_reading
from t2t_keras.text.files import is_utf16
from t2t_keras.text.formats import holds_both_languages, is_plain, plain_name, read_text_file
from t2t_keras.text.sources import ParallelFiles, SourceFile, fetch
from t2t_keras.text.tfds import PreparedText, dataset_directory, prepared_lines

FOLDER = "plain_text"
# To be raised when a reader changes what it makes of a file.
_READERS_VERSION = 1


def plain_text(
    corpora: Sequence[ParallelFiles | PreparedText], tmp_dir: Path
) -> list[tuple[Path, Path]]:
    """Returns source and target of each corpus as plain files.

    Files are downloaded to `tmp_dir` where they are missing, and converted where they are not
    plain. What cannot be had, read, or written there is a `UserError`.
    """
    pairs = [corpus for corpus in corpora if isinstance(corpus, ParallelFiles)]
    files = [file for pair in pairs for file in (pair.source, pair.target)]
    fetch(files, tmp_dir)
    try:
        for archive in dict.fromkeys(file.name for file in files if file.members):
            _unpack([file for file in files if file.name == archive], tmp_dir)  # Each is read once.
        return [_plain_pair(corpus, tmp_dir) for corpus in corpora]
    except OSError as error:
        raise UserError(
            f"{error.filename or tmp_dir} cannot be read or written: {error.strerror or error}. "
            f"The plain text of archives and other formats goes to {FOLDER}/ in --tmp_dir.",
            code="not_read",
        ) from error


def _plain_pair(corpus: ParallelFiles | PreparedText, tmp_dir: Path) -> tuple[Path, Path]:
    order = 1
    if isinstance(corpus, PreparedText):
        path, lines = dataset_directory(corpus) / "dataset_info.json", prepared_lines(corpus)
        name, stem = corpus.dataset, corpus.split
    elif holds_both_languages(corpus.source.name):
        name = corpus.source.name
        path, stem = tmp_dir / name, plain_name(name)
        lines, order = _read(path, corpus.languages), -1 if corpus.swapped else 1
    else:
        return _plain(corpus.source, tmp_dir), _plain(corpus.target, tmp_dir)
    folder = _folder(name, path, tmp_dir)
    columns = "-".join(corpus.languages[::order])
    source, target = (folder / f"{stem}.{columns}.{code}" for code in corpus.languages)
    _convert(path, [source, target][::order], lines)
    return source, target


def _plain(file: SourceFile, tmp_dir: Path) -> Path:
    path = tmp_dir / file.name
    if not file.members and is_plain(file.name) and not is_utf16(path):
        return path
    plain = _folder(file.name, path, tmp_dir) / plain_name((*file.members, file.name)[0])
    if not file.members:
        _convert(path, [plain], _read(path))
    return plain


def _read(path: Path, languages: tuple[str, str] = ("", "")) -> Iterator[tuple[bytes, ...]]:
    with path.open("rb") as stream:
        yield from read_text_file(stream, path.name, languages)


def _convert(path: Path, plain: Sequence[Path], lines: Iterable[tuple[bytes, ...]]) -> None:
    if not all(file.exists() for file in plain):
        with _replaced(plain, path) as outputs:
            _write(lines, outputs)


def _write(lines: Iterable[tuple[bytes, ...]], outputs: Sequence[BinaryIO]) -> None:
    for texts in lines:
        for text, output in zip(texts, outputs, strict=True):
            output.write(text + b"\n")


def _unpack(files: Sequence[SourceFile], tmp_dir: Path) -> None:
    """Writes the texts in an archive that are not there yet; each is named as its first member."""
    path = tmp_dir / files[0].name
    plain = {file.members: _plain(file, tmp_dir) for file in files}
    plain = {names: path for names, path in plain.items() if not path.exists()}
    if not plain:
        return
    # Members come in any order: how early a text's member is among its names, the best so far.
    found = {names: len(names) for names in plain}
    with (
        _replaced(plain.values(), path, files[0].size) as outputs,
        path.open("rb") as file,
        show_reading(file, path.stat().st_size, path.name) as shown,
        # As a stream: going back in a packed archive means unpacking it from its start.
        tarfile.open(fileobj=shown, mode="r|*") as archive,
    ):
        for member in archive:
            name = PurePosixPath(member.name).name
            for names, output in zip(plain, outputs, strict=True):
                if member.isfile() and name in names[: found[names]]:
                    found[names] = names.index(name)
                    output.seek(0)
                    output.truncate()
                    with archive.extractfile(member) as stream:
                        _write(read_text_file(stream, f"{path.name}/{name}"), [output])
                    break
            if not any(found.values()):
                break
        missing = [names[0] for names, index in found.items() if index == len(names)]
        if missing:
            raise UserError(
                f"{path} has no {', '.join(sorted(missing))}. Is it the archive of "
                f"{files[0].url or 'that name'}?",
                code="missing_members",
            )


def _folder(name: str, path: Path, tmp_dir: Path) -> Path:
    """Makes the folder of a file's plain text; that of another file of this name is removed."""
    # One level, whatever the name: it may lead out of `tmp_dir`.
    name = name.replace("%", "%25").replace("/", "%2F")
    status = path.stat()
    identity = f"{_READERS_VERSION} {name} {status.st_size} {status.st_mtime_ns}"
    fingerprint = hashlib.sha256(identity.encode()).hexdigest()[:12]
    folder = Path(tmp_dir) / FOLDER / f"{name}.{fingerprint}"
    folder.mkdir(parents=True, exist_ok=True)
    for other in folder.parent.iterdir():
        if other != folder and re.fullmatch(rf"{re.escape(name)}\.[0-9a-f]{{12}}", other.name):
            shutil.rmtree(other)
    return folder


@contextlib.contextmanager
def _replaced(
    plain: Iterable[Path], path: Path, expected_size: int | None = None
) -> Iterator[list[BinaryIO]]:
    """Opens the plain files of a file, all or none of which will be there, and names its faults."""
    try:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(replaced_atomically(each)) for each in plain]
    except (gzip.BadGzipFile, tarfile.TarError, EOFError, zlib.error) as error:
        size = f"{path.stat().st_size:,} bytes"
        if expected_size:
            size += f", expected {expected_size:,}"
        raise UserError(
            f"{path} is damaged or cut off ({error}; {size}). Get it again.", code="damaged_file"
        ) from error
