"""Subtitles, read again by the srt library."""

import pytest
import srt

from t2t_keras.documents import read_document
from t2t_keras.errors import UserError

TEXT = """1
00:00:01,000 --> 00:00:02,000
{\\an8}<i>Hello there, my
old friend.</i>

2
00:00:02,500 --> 00:00:04,000
This is a long sentence
that goes

3
00:00:04,100 --> 00:00:05,000
over several subtitles.

4
00:00:06,000 --> 00:00:08,000 X1:5
- Who are you?
- <b>Me</b>, sir.

5
00:00:09,000 --> 00:00:10,000

6
00:00:11,000 --> 00:00:12,000
2024
"""


@pytest.mark.parametrize("text", [TEXT, "\ufeff" + TEXT.replace("\n", "\r\n")])
def test_only_what_is_said_changes(translated, text):
    found = translated("a.srt", text.encode()).decode("utf-8-sig")
    old, new = (list(srt.parse(each)) for each in (text.lstrip("\ufeff"), found))
    for before, after in zip(old, new, strict=True):
        assert (before.index, before.start, before.end) == (after.index, after.start, after.end)
        content = before.content.upper().replace("\\AN8", "\\an8")
        assert after.content == content.replace("<I>", "<i>").replace("</I>", "</i>").replace(
            "<B>ME</B>", "<b>ME</b>"
        )


def test_a_sentence_of_two_subtitles_is_one_unit(written):
    document = read_document(written("a.srt", TEXT))
    assert [unit.source for unit in document.units] == [
        "Hello there, my old friend.",
        "This is a long sentence that goes over several subtitles.",
        "Who are you?",
        "<b>Me</b>, sir.",
    ]
    document.units[1].set("Kurz")
    cues = list(srt.parse(document.content().decode()))
    assert [cues[1].content, cues[2].content] == ["Kurz", ""]


def test_a_pause_or_an_end_of_a_sentence_separates(written):
    other = TEXT.replace("00:00:04,100", "00:00:05,100").replace("that goes", "that goes.")
    assert len(read_document(written("a.srt", other)).units) == 5


def test_other_text_is_refused(written):
    with pytest.raises(UserError, match="expected subtitles"):
        read_document(written("a.srt", "Hello\n"))
