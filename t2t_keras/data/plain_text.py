"""Archives and other formats, turned once into plain text in which line N pairs with line N.

Chunks of a text are found by byte position, and a vocabulary is learned before anything is encoded:
both need files that are read in any place and more than once. The plain text stands in
`<tmp_dir>/plain_text/<file>.<fingerprint>/`, with "%2F" for a "/" in the file's name. A file there
is whole or not there, so an interrupted conversion goes on with the next file; another archive
under an old name is converted anew.
"""

import contextlib
import gzip
import hashlib
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from t2t_keras.data.archives import member_names, read_members
from t2t_keras.data.atomic_file import replaced_atomically
from t2t_keras.data.problem import ParallelFiles, PreparedText, SourceFile
from t2t_keras.data.text_formats import (
    holds_both_languages,
    is_plain,
    plain_name,
    write_both_languages,
    write_one_language,
)
from t2t_keras.data.tfds_text import dataset_directory, what_is_lost, write_prepared
from t2t_keras.errors import UserError

FOLDER = "plain_text"
# To be raised when a reader changes what it makes of a file.
_READERS_VERSION = 1


def plain_text(
    corpora: Sequence[ParallelFiles | PreparedText], paths: Mapping[str, Path], tmp_dir: Path
) -> list[tuple[Path, Path]]:
    """Returns source and target of each corpus as plain files, converting what is not plain yet.

    Args:
      corpora: what a problem's `files` returns.
      paths: where each file stands, by name.
      tmp_dir: the plain text goes to a folder in it.

    Raises:
      UserError: a file that is damaged, a fault of its format, an archive without a wanted member,
        a folder that cannot be written.
    """
    unpacked = _unpack_archives(corpora, paths, tmp_dir)

    def one_language(file: SourceFile) -> Path:
        path = paths[file.name]
        if file.members:
            return unpacked[file.name][file.members]
        return path if is_plain(file.name) else _converted(file, path, tmp_dir)

    plain = []
    for corpus in corpora:
        if isinstance(corpus, PreparedText):
            plain.append(_prepared(corpus, tmp_dir))
        elif holds_both_languages(corpus.source.name):
            plain.append(_split(corpus, paths[corpus.source.name], tmp_dir))
        else:
            plain.append((one_language(corpus.source), one_language(corpus.target)))
    return plain


def _unpack_archives(corpora, paths, tmp_dir) -> dict[str, dict[tuple[str, ...], Path]]:
    """Reads every archive once; returns the plain file of each choice of members, by archive."""
    wanted: dict[str, tuple[SourceFile, set[tuple[str, ...]]]] = {}
    for corpus in corpora:
        if isinstance(corpus, ParallelFiles):
            for file in (corpus.source, corpus.target):
                if file.members:
                    wanted.setdefault(file.name, (file, set()))[1].add(file.members)
    return {
        name: _unpack(archive, paths[name], choices, tmp_dir)
        for name, (archive, choices) in wanted.items()
    }


def _unpack(
    archive: SourceFile, path: Path, choices: set[tuple[str, ...]], tmp_dir: Path
) -> dict[tuple[str, ...], Path]:
    with _reading(archive, path):
        there = None
        if any(len(choice) > 1 for choice in choices):
            there = member_names(path)
        members = {
            choice: next((name for name in choice if there is None or name in there), choice[0])
            for choice in choices
        }
        folder = _folder(archive.name, path, tmp_dir)
        plain = {choice: folder / plain_name(name) for choice, name in members.items()}
        missing = {name for choice, name in members.items() if not plain[choice].exists()}
        if missing:

            def write(stream, name):
                with replaced_atomically(folder / plain_name(name)) as output:
                    write_one_language(stream, f"{path.name}/{name}", output)

            missing = read_members(path, missing, write)
    if missing:
        raise UserError(
            f"{path} does not hold {', '.join(sorted(missing))}. Is it the archive of "
            f"{archive.url or 'that name'}?"
        )
    return plain


def _converted(file: SourceFile, path: Path, tmp_dir: Path) -> Path:
    plain = _folder(file.name, path, tmp_dir) / plain_name(file.name)
    if not plain.exists():
        with (
            _reading(file, path),
            path.open("rb") as stream,
            replaced_atomically(plain) as output,
        ):
            write_one_language(stream, file.name, output)
    return plain


def _split(pair: ParallelFiles, path: Path, tmp_dir: Path) -> tuple[Path, Path]:
    folder = _folder(pair.source.name, path, tmp_dir)
    source, target = (folder / f"{plain_name(path.name)}.{code}" for code in pair.languages)
    if not (source.exists() and target.exists()):
        with (
            _reading(pair.source, path),
            path.open("rb") as stream,
            replaced_atomically(source) as source_output,
            replaced_atomically(target) as target_output,
        ):
            outputs = source_output, target_output
            write_both_languages(stream, path.name, outputs, pair.languages)
    return source, target


def _prepared(text: PreparedText, tmp_dir: Path) -> tuple[Path, Path]:
    directory = dataset_directory(text)
    folder = _folder(text.dataset, directory / "dataset_info.json", tmp_dir)
    source, target = (folder / f"{text.split}.{code}" for code in text.languages)
    print(what_is_lost(text), flush=True)
    if not (source.exists() and target.exists()):
        with (
            _named_errors(folder),
            replaced_atomically(source) as source_output,
            replaced_atomically(target) as target_output,
        ):
            write_prepared(text, (source_output, target_output))
    return source, target


def _folder(name: str, path: Path, tmp_dir: Path) -> Path:
    """Makes the folder of a file's plain text; that of another file under its name goes.

    Args:
      name: with its folders, since files in two of them may have the same name.
      path: where the file stands.
      tmp_dir: the folder goes below it.
    """
    # One level, whatever the name: it may lead out of `tmp_dir`.
    name = name.replace("%", "%25").replace("/", "%2F")
    status = path.stat()
    identity = f"{_READERS_VERSION} {name} {status.st_size} {status.st_mtime_ns}"
    fingerprint = hashlib.sha256(identity.encode()).hexdigest()[:12]
    folder = Path(tmp_dir) / FOLDER / f"{name}.{fingerprint}"
    with _named_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for other in folder.parent.iterdir():
            if other != folder and re.fullmatch(rf"{re.escape(name)}\.[0-9a-f]{{12}}", other.name):
                shutil.rmtree(other)
    return folder


@contextlib.contextmanager
def _reading(file: SourceFile, path: Path) -> Iterator[None]:
    try:
        with _named_errors(path.parent):
            yield
    except (gzip.BadGzipFile, tarfile.TarError, EOFError, zlib.error) as error:
        size = f"{path.stat().st_size:,} bytes"
        if file.size:
            size += f", the official file has {file.size:,}"
        raise UserError(f"{path} is damaged or cut off ({error}; {size}). Get it again.") from error


@contextlib.contextmanager
def _named_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except gzip.BadGzipFile:
        raise
    except OSError as error:
        raise UserError(
            f"{error.filename or folder} cannot be read or written: {error.strerror or error}. The "
            f"plain text of archives and other formats goes to {FOLDER}/ in --tmp_dir."
        ) from error
