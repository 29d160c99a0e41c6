"""A translator that puts words into capitals, and leaves tags and placeholders alone."""

import re
from pathlib import Path

import pytest

from t2t_keras.decoding.translation import Translation
from t2t_keras.workbench.documents import read_document, translate_document

_WORD = re.compile(r"<[^<>]*>|&#?\w+;|%(?:\(\w+\))?\w|\{[^{}]*\}|(\w+)")


class Capitals:
    """See above; `calls` are the texts and the format of each call."""

    def __init__(self, broken=()):
        self.calls = []
        self.broken = broken
        self.translator = self

    def translate(self, lines, format="text"):  # noqa: A002
        self.calls.append((list(lines), format))
        return [
            Translation(
                capitals(line), -1.0, notes={"placeholders": 1} if line in self.broken else {}
            )
            for line in lines
        ]


def capitals(text):
    return _WORD.sub(lambda match: match[0].upper() if match[1] else match[0], text)


@pytest.fixture
def capitals_of():
    return capitals


@pytest.fixture
def translator():
    return Capitals()


@pytest.fixture
def written(tmp_path):
    """written(name, content): the path of a new file."""

    def written(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


@pytest.fixture
def translated(written, translator):
    """translated(name, content, **options): the translated content, as it is saved.

    Before that the file must come back as it is.
    """

    def translated(name, content, languages=("en", "de"), **options):
        path = written(name, content)
        document = read_document(path, *languages)
        assert document.content() == path.read_bytes()
        assert not any(unit.needs_review for unit in document.units)
        translated.report = translate_document(document, translator, **options)
        output = Path(path.parent / f"new_{name}")
        output.unlink(missing_ok=True)
        document.save(output)
        actual = output.read_bytes()
        return actual if isinstance(content, bytes) else actual.decode()

    return translated
