"""Word documents (.docx): paragraphs, in which runs of other formatting are inline codes."""

import copy
import io
import lzma
import re
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

from lxml import etree

from t2t_keras.errors import UserError
from t2t_keras.text.files import has_letters
from t2t_keras.workbench.documents.document import Document, check_counts
from t2t_keras.workbench.documents.formats.word_paragraphs import PARAGRAPHS, WORDS, Paragraph

_PARTS = re.compile(r"word/(?:document|header|footer|footnotes|endnotes|comments)\d*\.xml")
# Parts whose text is left out: (names, pattern to count, reason in the report).
_OTHER_PARTS = (
    (
        r"word/(?:charts/chart|diagrams/data)\d*\.xml",
        rb"<(?:a:t|c:v)>[^<]*?[A-Za-z\x80-\xff]",
        "texts of charts",
    ),
    (r"word/glossary/document\.xml", rb"<w:t[ >]", "texts of building blocks"),
    (r"word/(?:embeddings|afchunk)/?[^/]+", rb"\A", "embedded files"),
)
# Texts of drawings in the parts that are looked into.
_DRAWN = "{http://schemas.openxmlformats.org/drawingml/2006/main}t"
_TRANSITIONAL = b'="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_STRICT = b'="http://purl.oclc.org/ooxml/wordprocessingml/main"'
_NAMESPACE = re.compile(rb"""\sxmlns[^\s=]*\s*=\s*("[^"]*"|'[^']*')""")
_MAX_NAMESPACES_BYTES = 10_000
# Of the parts with text together.
_MAX_TEXT_BYTES = 1 << 25
_MAX_BYTES = 1 << 28
_MAX_FILES = 10_000
# What reading an archive raises; RuntimeError is for encryption.
_DAMAGES = (
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)


def read(path: Path, languages: tuple[str, str], content: bytes) -> "WordDocument":
    """Returns a document with a unit for each paragraph, of headers, notes and tables as well."""
    return WordDocument(path, languages, content)


class _Part(NamedTuple):
    tree: etree._ElementTree
    paragraphs: list[Paragraph]
    is_strict: bool  # is it of the stricter of the two standards

    def written(self) -> bytes:
        content = etree.tostring(self.tree, xml_declaration=True, encoding="UTF-8", standalone=True)
        return content.replace(_TRANSITIONAL, _STRICT) if self.is_strict else content


class WordDocument(Document):
    """A Word document. Parts without translations are written as they were."""

    def __init__(self, path: Path, languages: tuple[str, str], content: bytes):
        super().__init__(path, languages)
        self._content = content
        self._format_bytes = 0
        self._parts: dict[str, _Part] = {}
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                self._check(archive)
                # Copying a damaged file would fail after all the work.
                if (damaged := archive.testzip()) is not None:
                    raise zipfile.BadZipFile(f"{damaged} is damaged")
                for name in filter(_PARTS.fullmatch, archive.namelist()):
                    self._parts[name] = self._read(name, archive.read(name))
                self._count_others(archive)
        except _DAMAGES as error:
            raise UserError(
                f"{path} is no Word document, or is cut off: {error}. Get it again.",
                code="not_a_word_document",
            ) from error
        if not self._parts:
            raise UserError(
                f"{path}: expected a Word document, got another kind of archive. Save it as .docx.",
                code="not_a_word_document",
            )

    def _check(self, archive: zipfile.ZipFile) -> None:
        """Raises `UserError` for an archive that a word processor would not have written."""
        files = archive.infolist()
        size = sum(member.file_size for member in files)
        if len(files) > _MAX_FILES or size > _MAX_BYTES:
            raise UserError(
                f"{self.path}: expected at most {_MAX_FILES:,} files of {_MAX_BYTES:,} bytes, "
                f"got {len(files):,} of {size:,}.",
                code="file_too_large",
            )
        if len({member.filename for member in files}) < len(files):
            raise UserError(f"{self.path}: a file comes twice in it.", code="given_twice")
        for member in files:
            if member.filename.startswith(("/", "\\")) or ".." in re.split(
                r"[/\\]", member.filename
            ):
                raise UserError(
                    f"{self.path}: a file in it is named {member.filename!a}.",
                    code="unsafe_archive",
                )
        size = sum(member.file_size for member in files if _PARTS.fullmatch(member.filename))
        if size > _MAX_TEXT_BYTES:
            raise UserError(
                f"{self.path}: expected at most {_MAX_TEXT_BYTES:,} bytes of text, got {size:,}. "
                f"Split it.",
                code="file_too_large",
            )

    def _count_others(self, archive: zipfile.ZipFile) -> None:
        size = 0
        for names, text, reason in _OTHER_PARTS:
            for member in archive.infolist():
                if re.fullmatch(names, member.filename):
                    size += member.file_size
                    content = archive.read(member) if size < _MAX_TEXT_BYTES else b""
                    if count := len(re.findall(text, content)):
                        self.left_out[reason] += count

    def _read(self, name: str, content: bytes) -> _Part:
        check_counts(self.path, content)
        # Each run that is read or written has them all.
        if sum(map(len, set(_NAMESPACE.findall(content)))) > _MAX_NAMESPACES_BYTES:
            raise UserError(
                f"{self.path}: expected at most {_MAX_NAMESPACES_BYTES:,} bytes of namespaces in "
                f"{name}, got more.",
                code="file_too_large",
            )
        # The stricter of the two standards has the same elements in another namespace.
        is_strict = _STRICT in content
        content = content.replace(_STRICT, _TRANSITIONAL)
        # In no other encoding, for tags and namespaces to be what they seem.
        parser = etree.XMLParser(
            encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False
        )
        try:
            tree = etree.ElementTree(etree.fromstring(content, parser))
        except etree.XMLSyntaxError as error:
            raise UserError(
                f"{self.path}: {name} is not well-formed XML ({error.msg}).", code="malformed_xml"
            ) from error
        if tree.docinfo.doctype:
            raise UserError(
                f"{self.path}: {name} declares a document type, which no Word file has.",
                code="unsafe_xml",
            )
        if not tree.getroot().tag.startswith(WORDS):
            raise UserError(
                f"{self.path}: expected {name} to be a part of a Word document, got "
                f"<{etree.QName(tree.getroot()).localname}>. Save it anew by a word processor.",
                code="not_a_word_document",
            )
        paragraphs = []
        for element in tree.iter(PARAGRAPHS):
            paragraph = Paragraph(element, self.path)
            self.left_out += paragraph.left_out
            self._format_bytes += paragraph.format_bytes
            if self._format_bytes > _MAX_TEXT_BYTES:
                raise UserError(
                    f"{self.path}: expected at most {_MAX_TEXT_BYTES:,} bytes of formats when runs "
                    f"are divided, got more. Split it.",
                    code="file_too_large",
                )
            if paragraph.has_text:
                paragraphs.append(paragraph)
                self.add_units([paragraph.unit])
        if drawn := sum(has_letters(text.text or "") for text in tree.iter(_DRAWN)):
            self.left_out["texts of drawings"] += drawn
        return _Part(tree, paragraphs, is_strict)

    def content(self) -> bytes:
        """See `Document`."""
        changed = {
            name: part
            for name, part in self._parts.items()
            if sum(paragraph.write() for paragraph in part.paragraphs)
        }
        if not changed:
            return self._content
        written = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(self._content)) as archive,
            zipfile.ZipFile(written, "w") as new,
        ):
            for member in archive.infolist():
                part = changed.get(member.filename)
                content = part.written() if part else archive.read(member)
                new.writestr(copy.copy(member), content)
        return written.getvalue()
