"""Plain text: paragraphs, with empty lines between them."""

import re
from pathlib import Path

from t2t_keras.workbench.documents.document import Unit
from t2t_keras.workbench.documents.spans import SpanDocument, decoded

# From the first character of a paragraph that is no white space to the end of its last line.
_PARAGRAPH = re.compile(r"\S[^\r\n]*(?:(?:\r\n|\r|\n)[^\S\r\n]*\S[^\r\n]*)*")


def read(path: Path, languages: tuple[str, str], content: bytes) -> SpanDocument:
    """Returns a document with a unit for each paragraph."""
    document = SpanDocument(path, languages, decoded(path, content))
    for match in _PARAGRAPH.finditer(document.read.text):
        paragraph = match[0].rstrip()
        document.add(match.start(), match.start() + len(paragraph), Unit(paragraph))
    return document
