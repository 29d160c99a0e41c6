"""Word documents (.docx): paragraphs, of which runs of other formatting are inline codes."""

import copy
import io
import re
import zipfile
from pathlib import Path

from lxml import etree

from t2t_keras.documents.document import Document, check_counts
from t2t_keras.documents.formats.word_paragraphs import PARAGRAPH, Paragraph
from t2t_keras.errors import UserError

_PARTS = re.compile(r"word/(?:document|header|footer|footnotes|endnotes|comments)\d*\.xml")
_NAMESPACE = re.compile(rb"""\sxmlns[^\s=]*\s*=\s*("[^"]*"|'[^']*')""")
_MAX_NAMESPACES_BYTES = 10_000
# Of the parts with text together.
_MAX_TEXT_BYTES = 1 << 25
_MAX_BYTES = 1 << 28
_MAX_FILES = 10_000


def read(path: Path, languages: tuple[str, str], content: bytes) -> "WordDocument":
    """Returns a document with a unit for each paragraph, of headers, notes and tables as well."""
    return WordDocument(path, languages, content)


class WordDocument(Document):
    """A Word document. Parts without translations are written as they were."""

    def __init__(self, path: Path, languages: tuple[str, str], content: bytes):
        super().__init__(path, languages)
        self._content = content
        self._format_bytes = 0
        self._parts: dict[str, tuple[etree._ElementTree, list[Paragraph]]] = {}
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                self._check(archive)
                for name in filter(_PARTS.fullmatch, archive.namelist()):
                    self._parts[name] = self._read(name, archive.read(name))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
            raise UserError(f"{path} is no Word document, or is cut off: {error}.") from error
        if not self._parts:
            raise UserError(f"{path}: expected a Word document, got another kind of archive.")

    def _check(self, archive: zipfile.ZipFile) -> None:
        """Raises `UserError` for an archive that a word processor would not have written."""
        files = archive.infolist()
        size = sum(each.file_size for each in files)
        if len(files) > _MAX_FILES or size > _MAX_BYTES:
            raise UserError(
                f"{self.path}: expected at most {_MAX_FILES:,} files of {_MAX_BYTES:,} bytes, "
                f"got {len(files):,} of {size:,}."
            )
        if len({each.filename for each in files}) < len(files):
            raise UserError(f"{self.path}: a file comes twice in it.")
        for each in files:
            if each.filename.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", each.filename):
                raise UserError(f"{self.path}: a file in it is named {each.filename!a}.")
        size = sum(each.file_size for each in files if _PARTS.fullmatch(each.filename))
        if size > _MAX_TEXT_BYTES:
            raise UserError(
                f"{self.path}: expected at most {_MAX_TEXT_BYTES:,} bytes of text, got {size:,}. "
                f"Split it."
            )

    def _read(self, name: str, content: bytes) -> tuple[etree._ElementTree, list[Paragraph]]:
        check_counts(self.path, content)
        # Each run that is read or written has them all.
        if sum(map(len, set(_NAMESPACE.findall(content)))) > _MAX_NAMESPACES_BYTES:
            raise UserError(
                f"{self.path}: expected at most {_MAX_NAMESPACES_BYTES:,} bytes of namespaces in "
                f"{name}, got more."
            )
        # In no other encoding, for tags and namespaces to be what they seem.
        parser = etree.XMLParser(
            encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False
        )
        try:
            tree = etree.ElementTree(etree.fromstring(content, parser))
        except etree.XMLSyntaxError as error:
            raise UserError(f"{self.path}: {name} is not well-formed XML ({error.msg}).") from error
        if tree.docinfo.doctype:
            raise UserError(
                f"{self.path}: {name} declares a document type, which no Word file has."
            )
        paragraphs = []
        for element in tree.iter(PARAGRAPH):
            paragraph = Paragraph(element, self.path)
            if paragraph.fields:
                self.left_out["fields, as page numbers"] += paragraph.fields
            self._format_bytes += paragraph.format_bytes
            if self._format_bytes > _MAX_TEXT_BYTES:
                raise UserError(
                    f"{self.path}: expected at most {_MAX_TEXT_BYTES:,} bytes of formats when runs "
                    f"are divided, got more. Split it."
                )
            if paragraph.has_text:
                paragraphs.append(paragraph)
                self.add_units([paragraph.unit])
        return tree, paragraphs

    def content(self) -> bytes:
        """See `Document`."""
        changed = {
            name: tree
            for name, (tree, paragraphs) in self._parts.items()
            if sum(each.write() for each in paragraphs)
        }
        if not changed:
            return self._content
        written = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(self._content)) as archive,
            zipfile.ZipFile(written, "w") as new,
        ):
            for each in archive.infolist():
                tree = changed.get(each.filename)
                content = archive.read(each) if tree is None else _written(tree)
                new.writestr(copy.copy(each), content)
        return written.getvalue()


def _written(tree: etree._ElementTree) -> bytes:
    return etree.tostring(tree, xml_declaration=True, encoding="UTF-8", standalone=True)
