"""Word documents (.docx): paragraphs, of which runs of other formatting are inline codes."""

import copy
import io
import re
import zipfile
from pathlib import Path

from lxml import etree

from t2t_keras.documents.document import Document
from t2t_keras.documents.formats.word_paragraphs import PARAGRAPH, Paragraph
from t2t_keras.errors import UserError

_PARTS = re.compile(r"word/(?:document|header|footer|footnotes|endnotes|comments)\d*\.xml")
_MAX_PART_BYTES = 1 << 25
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
        for _, paragraphs in self._parts.values():
            self.add_units(each.unit for each in paragraphs)

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
            if _PARTS.fullmatch(each.filename) and each.file_size > _MAX_PART_BYTES:
                raise UserError(
                    f"{self.path}: expected at most {_MAX_PART_BYTES:,} bytes in {each.filename}, "
                    f"got {each.file_size:,}. Split the document."
                )

    def _read(self, name: str, content: bytes) -> tuple[etree._ElementTree, list[Paragraph]]:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
        try:
            tree = etree.ElementTree(etree.fromstring(content, parser))
        except etree.XMLSyntaxError as error:
            raise UserError(f"{self.path}: {name} is not well-formed XML ({error.msg}).") from error
        if tree.docinfo.doctype:
            raise UserError(
                f"{self.path}: {name} declares a document type, which no Word file has."
            )
        found = [Paragraph(element, self.path) for element in tree.iter(PARAGRAPH)]
        if fields := sum(each.fields for each in found):
            self.left_out["fields, as page numbers"] += fields
        return tree, [each for each in found if each.has_text]

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
