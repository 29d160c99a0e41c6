"""Subtitles, read again by the srt library."""

import pytest
import srt
from refusals import refused

from t2t_keras.workbench.documents import read_document

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
    output = translated("a.srt", text.encode()).decode("utf-8-sig")
    old, new = (list(srt.parse(content)) for content in (text.lstrip("\ufeff"), output))
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


@pytest.mark.parametrize(
    ("end", "start", "first", "second", "is_one"),
    [
        ("00:00:04,000", "00:00:05,000", "We sail", "at dawn", True),
        ("00:00:04,000", "00:00:05,001", "We sail", "at dawn", False),
        ("00:00:04,1", "00:00:05,05", "We sail", "at dawn", True),
        ("00:00:04", "00:00:05,001", "We sail", "at dawn", False),
        ("00:59:59,900", "01:00:00,100", "We sail", "at dawn", True),
        ("99:59:59.900", "100:00:00:100", "We sail", "at dawn", True),
        ("00:59:00,000", "01:00:00,000", "We sail", "at dawn", False),
        ("09:59.900", "10:00.100", "We sail", "at dawn", True),
        ("00:00:04,000", "00:00:05,000", "We sail", "At dawn", False),
        ("00:00:04,000", "00:00:05,000", "We sail…”", "at dawn", False),
        ("00:00:04,000", "00:00:05,000", "- Who?\n- We sail", "at dawn", False),
        ("00:00:04,000", "00:00:05,000", "We sail", "- at dawn\n- or at noon", False),
        ("00:00:04,000", "00:00:05,000", "We <i>sail</i>", "at dawn", False),
    ],
)
def test_which_subtitles_continue_in_the_next(written, end, start, first, second, is_one):
    text = f"1\n00:00:00,000 --> {end}\n{first}\n\n2\n{start} --> 02:00:00,000\n{second}\n"
    sources = [unit.source for unit in read_document(written("a.srt", text)).units]
    assert ("We sail at dawn" in sources) == is_one


def test_other_text_is_refused(written):
    for text in ("Hello\n", f"Hello\n\n{TEXT}", "WEBVTTS\n"):
        with refused("not_subtitles"):
            read_document(written("a.srt", text))
    for name, text in (("a.srt", " \n"), ("a.vtt", "WEBVTT")):
        assert read_document(written(name, text)).units == []


# What is said in a subtitle; "|" is an end of a line, and capitals are what stays.
@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("♪ the rope ♪", ["the rope"]),
        ("¶ the rope|that goes on ♫", ["the rope that goes on"]),
        ("# the song #", ["the song"]),
        ("- ♪ one ♪|- ♪ two ♪", ["one", "two"]),
        ("one ♪ two ♫♫ three", ["one", "two", "three"]),
        ("<I>♪ one ♪</I>|♪<B>two</B>♪", ["one", "two"]),
        ("♪♪|12", []),
        ("\u2010 one|>> two|\u2212two", ["one", "two", "two"]),
        ("> one|>>> two|— \u2015two", ["one", "two", "two"]),
        ("<I>- one|- two</I>", ["one", "two"]),
        ("JOHN: one", ["JOHN", "one"]),
        ("[door slams]|(sighs) one (so)", ["door slams", "sighs", "one (so)"]),
        ("(12) one [3]", ["one [3]"]),
        ("mr. smith: one", ["mr. smith: one"]),
        *((f"{name}: one", [name, "one"]) for name in ("JOHN 2 O'HARA-#.&", "A" * 31)),
        (f"{'A' * 32}: one", [f"{'A' * 32}: one"]),
        ("in c# or f#", ["in c# or f#"]),
        ("[a] [b] [c] [d] [e] one", ["a", "b", "c", "d", "[e] one"]),
        ("one||two", ["one two"]),
        (r"{\AN8}one{\I0} two{/I}", ['one<wbr i="0"> two']),
        (r"one\Ntwo<00:00:01.500> {Y:B}", ['one<br i="0">two<wbr i="1">']),
        (r"one two{C:&H0000FF&} three", ['one two<wbr i="0"> three']),
        ("one {X:B}", ["one {X:B}"]),
        ("\u202aone\u202c\u200b", ["one"]),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_signs_around_speech_stay(translated, written, text, sources, end):
    text = f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n\n".replace("|", "\n").replace("\n", end)
    document = read_document(written("b.srt", text))
    assert [unit.source for unit in document.units] == sources
    assert translated("a.srt", text) == text.upper()


def test_no_line_breaks_inside_a_tag(written):
    text = '1\n00:00:01,000 --> 00:00:02,000\none <font color="red blue">{}</font> {}\n'
    document = read_document(written("a.srt", text.format("two\nthree", "four")))
    document.units[0].set('one <font color="red blue">a b c d</font> e')
    assert document.content().decode() == text.format("a\nb c d", "e")


def test_codes_come_once_each(written):
    document = read_document(written("b.srt", TEXT.replace("old", r"o\nl\Nd")))
    assert 'o<br i="0">l<br i="1">d' in document.units[0].source
    document = read_document(written("a.srt", TEXT.replace("old", r"{\b1}old{\b0}\h")))
    document.units[0].set('hallo mein<wbr i="1"> alter Freund<wbr i="0"><wbr i="2">')
    assert "hallo mein{\\b0}\nalter Freund{\\b1}\\h" in document.content().decode()
    for wrong in (
        "alter",
        'a<wbr i="0"><wbr i="0"><wbr i="2">',
        'alter<wbr i="1"> <wbr i="0"><wbr i="0">',
        'alter<wbr i="1"> <wbr i="0">',
    ):
        document.units[0].set(wrong)
        with refused("inline_codes_differ"):
            document.content()


VTT = """WEBVTT - a title
Kind: captions

STYLE
::cue(b) { color: red }

NOTE a note
of two lines

REGION
id:fred

intro
00:01.000 --> 00:02.000 align:start position:10%
- <v Roger>hello &amp; <c.loud>bye</c></v>

NOTE another

01:00:02.500 --> 01:00:04.000
this goes on

2
01:00:05.000 --> 01:00:06.000
in another one
"""


def test_webvtt(written, translated):
    spoken = "hello &amp; <c.loud>bye", "this goes on", "in another one"
    document = read_document(written("b.vtt", VTT))
    assert [unit.source for unit in document.units] == [spoken[0], f"{spoken[1]} {spoken[2]}"]
    expected = VTT
    for text, new in zip(
        spoken, ("HELLO &amp; <c.loud>BYE", *map(str.upper, spoken[1:])), strict=True
    ):
        expected = expected.replace(text, new)
    assert translated("a.vtt", VTT) == expected
    for ending in ("\r\n", "\n"):
        assert translated("a.vtt", "\ufeff" + VTT.replace("\n", ending))[1:] == expected.replace(
            "\n", ending
        )


@pytest.mark.parametrize("empty", ["\n", " \t\n", "\r\n"])
def test_an_empty_line_ends_a_subtitle_of_webvtt(written, empty):
    text = f"WEBVTT\n\n00:01.000 --> 00:02.000\none\n{empty}NOTE a note\n"
    assert [unit.source for unit in read_document(written("a.vtt", text)).units] == ["one"]


def test_a_sentence_of_at_most_four_subtitles_is_divided_as_before(translated, written):
    words = ["Aaaaaaaaaaaaaaaaaaaaaaaa", "b", "c", "d e", "f", "g"]
    text = "".join(
        f"{n}\n00:00:0{n},000 --> 00:00:0{n},900\n{part}\n\n" for n, part in enumerate(words)
    )
    units = read_document(written("b.srt", text)).units
    assert [unit.source for unit in units] == [" ".join(words[:4]), "f g"]
    assert translated("a.srt", text) == text.upper()
