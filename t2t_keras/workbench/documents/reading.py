"""`read_document`: a document of any format, which nobody needs to trust."""

import contextlib
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

from t2t_keras.environment import expanded
from t2t_keras.errors import UserError, nearest
from t2t_keras.text.files import MAX_LINE_BYTES
from t2t_keras.workbench.documents.document import Document

# The module of each format.
EXTENSIONS = {
    ".docx": "formats.word",
    ".htm": "formats.html",
    ".html": "formats.html",
    ".md": "formats.markdown",
    ".po": "exchange.po",
    ".pot": "exchange.po",
    ".txt": "formats.plain",
    ".xlf": "exchange.xliff",
    ".xml": "formats.xml",
    ".xliff": "exchange.xliff",
    ".srt": "formats.subtitles",
    ".tmx": "exchange.tmx",
    ".vtt": "formats.subtitles",
}
_BINARY = ("formats.word",)
MAX_BYTES = 1 << 26
_LONG_LINE = re.compile(rb"[^\r\n]{%d}" % MAX_LINE_BYTES)


@contextlib.contextmanager
def needed_for(what: str) -> Iterator[None]:
    """Raises `UserError` if a package imported in the block is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("t2t_keras"):
            raise
        raise UserError(
            f"{what} needs {error.name}, which is not installed: "
            f"pip install 't2t-keras[documents]'",
            code="missing_package",
        ) from error


def read_document(path: str | Path, source: str = "", target: str = "") -> Document:
    """Returns the document in a file; the extension tells the format.

    Args:
      path: the file.
      source: code of the language it is in, "" = what the file says.
      target: code of the language it is translated to, "" = what the file says.

    Raises:
      UserError: the format is unknown, the file cannot be read, is no such format, is for other
        languages, is larger than 64 MB, has a line of over 16 MB, or attacks its reader; or a
        package is not installed.
    """
    path = Path(expanded(path))
    extension = path.suffix.lower()
    if extension not in EXTENSIONS:
        raise UserError(
            f"{path}: expected the extension of a format that can be translated, one of "
            f"{', '.join(EXTENSIONS)}; got '{extension}'.{nearest(extension, EXTENSIONS)}",
            code="unknown_extension",
        )
    name = EXTENSIONS[extension]
    content = _bounded(path, name not in _BINARY)
    with needed_for(f"{path}: reading {extension}"):
        module = importlib.import_module(f"t2t_keras.workbench.documents.{name}")
    return module.read(path, (source, target), content)


def translated_name(name: str | Path) -> Path:
    """Returns the name for a document's translation: what is translated is no template (.pot)."""
    path = Path(name)
    return path.with_suffix(".po") if path.suffix.lower() == ".pot" else path


def _bounded(path: Path, has_lines: bool) -> bytes:
    """Returns the bytes of a file, of bounded size and lines."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.", code="not_read") from error
    if len(content) > MAX_BYTES:
        raise UserError(
            f"{path}: expected at most {MAX_BYTES:,} bytes, got more. Split it.",
            code="file_too_large",
        )
    if has_lines and (found := _LONG_LINE.search(content)):
        number = content.count(b"\n", 0, found.start()) + 1
        raise UserError(
            f"{path}:{number}: expected lines of less than "
            f"{MAX_LINE_BYTES:,} bytes, got a longer one. Is this text?",
            code="too_long",
        )
    return content
