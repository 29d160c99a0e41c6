"""Plain text: its paragraphs, and nothing else."""

import codecs

import pytest
from refusals import refused

from t2t_keras.workbench.documents import read_document


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("one\n  two\n\nthree", ["one\n  two", "three"]),
        ("\n\n  one \t\r\n \t\r\n two\r\n", ["one", "two"]),
        ("one\rtwo\r\rthree", ["one\rtwo", "three"]),
        ("one\u2028two\x0bthree\x85four\x0c", ["one\u2028two\x0bthree\x85four"]),
        ("set Max_size to _5 &sons", ["set Max_size to _5 &sons"]),
        (" \n\t\n", []),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"])
def test_only_paragraphs_change(translated, written, text, sources, encoding):
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}.get(encoding, b"")
    document = read_document(written("b.txt", mark + text.encode(encoding)))
    assert [unit.source for unit in document.units] == sources
    assert translated("a.txt", mark + text.encode(encoding)) == mark + text.upper().encode(encoding)


def test_a_translation_that_is_no_text_is_refused(written):
    document = read_document(written("a.txt", "One"))
    document.units[0].set("a\ud800")
    with refused("not_encodable", "utf-8", r"'\ud800'"):
        document.content()
