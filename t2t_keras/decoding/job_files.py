"""Which files a job reads and writes, checked before it begins: none may destroy another."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from t2t_keras.data.text_files import check_readable
from t2t_keras.decoding.resumable_output import partial_of, record_of
from t2t_keras.errors import UserError

STANDARD_STREAM = "-"


def is_stream(path: str | Path) -> bool:
    """Whether this is "-", standard input or output, or what exists and is no regular file.

    What is written to a device or a pipe is never a file that is complete or not there, and what is
    read from one can be read only once.
    """
    path = Path(path)
    return str(path) == STANDARD_STREAM or (path.exists() and not path.is_file())


def checked_outputs(
    reads: Iterable[str | Path], outputs: Mapping[str, str | Path]
) -> dict[str, Path]:
    """Returns the files that a job writes, links followed: a link stays, what it names is written.

    Args:
      reads: the files that the job reads, or that it is judged by; "-" is standard input.
      outputs: what it writes, by name; the first has the record beside it.

    Raises:
      UserError: a file cannot be read, an output is a directory, is read too, or is another output,
        or one of several outputs is a stream.
    """
    files = {name: Path(path) for name, path in outputs.items()}
    for name, path in files.items():
        if path.is_dir():
            raise UserError(f"{path} is a directory: give the name of a file, as in {path}/out.")
        if is_stream(path) and len(files) > 1:
            raise UserError(
                "Only a job with one output can write to standard output, a device or a pipe: name "
                "files."
            )
        if path.is_symlink() and not is_stream(path):
            files[name] = path.resolve()
    read = [Path(path) for path in reads if str(path) != STANDARD_STREAM]
    for path in read:
        check_readable(path)
    taken = {_identity(path): "which is read" for path in read}
    for path in _written(files.values()):
        identity = _identity(path)
        if identity in taken:
            raise UserError(
                f"This job would write over {path}, {taken[identity]}. Give another name for the "
                f"output."
            )
        taken[identity] = "another output"
    return files


def _written(outputs: Iterable[Path]) -> Iterator[Path]:
    """Yields all names under which a job writes."""
    for number, path in enumerate(each for each in outputs if not is_stream(each)):
        yield from (path, partial_of(path))
        if number == 0:
            yield record_of(path)


def _identity(path: Path) -> object:
    """Returns what two names of one file have in common, also of a hard link."""
    try:
        stat = path.stat()
    except OSError:
        return path.resolve()
    return stat.st_dev, stat.st_ino
