"""Text as sentences, and back as it was laid out."""

import pytest

from t2t_keras.workbench.documents.layout import (
    SentenceGroup,
    divide_by_lengths,
    has_wide_space,
    sentence_groups,
    unwrap,
    with_translations,
    wrap,
)


def sentences_of(text):
    return [
        part.sentences for part in sentence_groups(text, "en") if isinstance(part, SentenceGroup)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t",
        "One.",
        "\n Two words.  Three more words here! \n\n",
        "A first line\nA second line\r\n  and an indented one.\r",
        "This is a line that somebody has wrapped at the\nwidth of a page, and here it ends.",
        "Unicode\u2028separators\x0b\x85stay.\u00a0Here too.",
    ],
)
def test_without_translations_a_text_stays_as_it_is(text):
    assert with_translations(sentence_groups(text, "en"), {}) == text


def test_sentences_are_translated_one_by_one():
    text = "Mr. Smith went home.  He e.g. slept!"
    assert sentences_of(text) == [["Mr. Smith went home.", "He e.g. slept!"]]
    actual = with_translations(sentence_groups(text, "en"), {"He e.g. slept!": "Er schlief!"})
    assert actual == "Mr. Smith went home.  Er schlief!"


def test_sentences_that_chinese_does_not_space_are_apart():
    parts = sentence_groups("你好。再见。", "zh")
    assert with_translations(parts, {"你好。": "Hello.", "再见。": "Bye."}) == "Hello. Bye."


def test_lines_are_texts_of_their_own_unless_they_were_wrapped():
    assert sentences_of("Open file\nclose file") == [["Open file"], ["close file"]]
    wrapped = "This sentence is longer than the page is wide,\n   therefore it has two lines."
    assert sentences_of(wrapped) == [[wrapped.replace("\n   ", " ")]]
    actual = with_translations(
        sentence_groups(wrapped, "en"), {wrapped.replace("\n   ", " "): "a b c d"}
    )
    assert actual == "a b\n   c d"


@pytest.mark.parametrize(
    ("line", "between", "following", "is_one"),
    [
        ("a" * 39, "\n", "and more", False),
        ("a" * 40, "\n", "and more", True),
        ("a" * 40, " \r\n\t", "and more", True),
        ("a" * 40, "\r", "and more", True),
        ("a" * 40, "\n\n", "and more", False),
        ("a" * 40, "\r\r", "and more", False),
        ("a" * 40, "\n", "And more", False),
        ("a" * 40, "\n", "2 more", False),
        *((f"{'a' * 40}{mark}", "\n", "and more", False) for mark in ".!?…:;♪。؟"),
        (f"{'a' * 40}.”)", "\n", "and more", False),
        (f"{'a' * 40},", "\n", "and more", True),
    ],
)
def test_which_lines_continue_in_the_next(line, between, following, is_one):
    assert len(sentences_of(f"{line}{between}{following}")) == (1 if is_one else 2)
    markup = f"{line}{between}{following} <b>x</b>"
    group_line = sentence_groups(markup, is_plain=False, keeps_lines=True)[1].line
    assert (between in group_line) != is_one


def test_lines_of_markup_stay_where_they_count():
    text = "<b>Note</b>\n\tThis line has been wrapped by somebody else\nat its end.\n"
    once = text.replace("\nat", " at")
    actual = sentence_groups(text, "en", is_plain=False, keeps_lines=True)
    assert with_translations(actual, {}) == once
    assert actual[1].line == f'<pre class="t2t-lines" xml:space="preserve">{once.rstrip()}</pre>'
    names = ("pre", "code", "kbd", "samp", "tt", "SCRIPT", "style", "textarea", "xmp")
    for tag in ("<img alt='", "<!-- <b> ", *(f"<{name}>" for name in names)):
        own = f"{tag}This line has been wrapped by somebody else\nat its end'> x"
        assert with_translations(sentence_groups(own, is_plain=False, keeps_lines=True), {}) == own
    assert sentence_groups("<b>x</b> y", is_plain=False, keeps_lines=True)[1].line == "<b>x</b> y"
    for space in "\t\n\r":
        line = sentence_groups(f"<b>x</b>{space}y", is_plain=False, keeps_lines=True)[1].line
        assert line.endswith(f">x</b>{space}y</pre>")


def test_a_text_is_divided_in_proportion():
    assert divide_by_lengths("one two three four", [1, 1]) == ["one two", "three four"]
    assert divide_by_lengths("one two three four", [3, 10]) == ["one", "two three four"]
    assert divide_by_lengths("one", [1, 1, 1]) == ["one", "", ""]
    assert wrap("a", ["\n", "\n"], [1, 1, 1]) == "a"
    # A line has the space as well that its break replaces.
    assert wrap("a bcdef g h", ["\n", "\n"], [7, 1, 1]) == "a bcdef\ng\nh"


def test_white_space_stays_if_the_number_of_words_does():
    line, lay_out = unwrap("One  two\tthree\n   four\r\n\r\nfive")
    assert line == "One two three four five"
    assert lay_out("a bb ccc dddd e") == "a  bb\tccc\n   dddd\r\n\r\ne"
    assert lay_out("a b c d e f") == "a b c d\n   e\r\n\r\nf"
    assert unwrap("One  two")[1]("a b c") == "a b c"
    assert unwrap("One\ftwo")[0] == "One two"
    assert [has_wide_space(f"a{space}b") for space in ("  ", "\t", "\f", " \n\t", " ")] == [
        *[True] * 3,
        *[False] * 2,
    ]


def test_many_lines_take_linear_time():
    # Quadratic time would be minutes.
    assert divide_by_lengths("a " * 100_000, [1] * 100_000)[:2] == ["a", "a"]


def test_a_long_run_of_signs_takes_linear_time():
    # Quadratic time would be minutes.
    text = "\u201c!" * 100_000
    assert with_translations(sentence_groups(text), {}) == text


def test_a_long_run_of_space_takes_linear_time():
    # Quadratic time would be hours.
    assert sentences_of("a" + " " * 1_000_000 + "b\n" + " " * 1_000_000 + "C")[-1] == ["C"]
