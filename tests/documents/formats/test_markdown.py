"""Markdown: the rendered structure stays, and so does all that is no text."""

import html
import re

import pytest
from markdown_it import MarkdownIt

from t2t_keras.documents import read_document

TEXT = """---
title: front
---
# The *title* here #

Some **bold text** with `code e` and a [link **e**
text](http://e.e/e "the title") ![alt e](e.png)
that goes on; \\*escaped\\* e &nbsp; <br> <http://e.e>.\x20\x20
Hard break\\
and another.

> A quote that
> goes on
> - item one
>   continued
>
> 1. 1

```
code e
```

| Head | Other **e** |
|---|:--:|
| cell a | `x` a |
| 1 | 2 |

<div>
The <b>html</b> block
</div>

Setext
======

- a_b_c ~~gone e~~ x*y

[ref]: http://e.e/e
"""


def tags_of(text):
    return re.findall(r"<[^>]*>", MarkdownIt("commonmark").enable("table").render(text))


def test_only_text_changes(translated):
    found = translated("a.md", TEXT)
    assert tags_of(found) == tags_of(TEXT)
    kept = 'title: front;`code e`;(http://e.e/e "the title");![alt e](e.png);\\*ESCAPED\\*;'
    kept += "&nbsp; <br> <http://e.e>.  \n;HARD BREAK\\\nAND;> 1. 1\n;\ncode e\n;|---|:--:|;"
    kept += "| CELL A | `x` A |;THE <b>HTML</b> BLOCK;SETEXT\n=;[ref]: http://e.e/e;# THE *TITLE*"
    for each in kept.split(";"):
        assert each in found
    assert len(found) == len(TEXT)


@pytest.mark.parametrize(
    "line", ["1. one", "- one", "# one", "> one", "one *", "a_b_ *c* `d` [e](f)"]
)
def test_what_markdown_would_take_for_syntax_is_escaped(written, line):
    for text in ("First\n", "> First\n> second\n", "# First\n", "| First |\n|---|\n"):
        document = read_document(written("a.md", text))
        document.units[0].set(line)
        found = document.content().decode()
        assert tags_of(found) == tags_of(text)
        rendered = MarkdownIt("commonmark").enable("table").render(found)
        shown = html.unescape(re.sub("<[^>]*>", "", rendered))
        assert shown.split() == line.split()


def test_lines_that_are_shown_as_such_are_texts_of_their_own(written):
    text = "> One  \n> two *three\\\n> four*\\\n> five\n> six\n"
    units = read_document(written("a.md", text)).units
    assert [unit.source for unit in units] == [
        "One",
        'two <g i="0">three<x i="1" ctype="lb"/>four</g>',
        "five six",
    ]


def test_entities_are_text_and_breaks_part_words(written):
    document = read_document(written("a.md", "R&amp;D&nbsp;is<br>*so*\n"))
    [unit] = document.units
    assert unit.source == ('R&amp;D<x i="0" ctype="lb"/>is<x i="1" ctype="lb"/><g i="2">so</g>')
    unit.set(unit.source)
    assert document.content() == b"R&D&nbsp;is<br>*so*\n"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("a <b>red *c* d</b> e", 'a <g i="0">red <g i="1">c</g> d</g> e'),
        ("a <kbd>Up *c*</kbd> <i translate='no'>x</i>", 'a <x i="0"/> <x i="1"/>'),
        ("<b>a *b</b> c*", '<x i="0"/>a <g i="1">b<x i="2"/> c</g>'),
        ("*a</b>* <b>c <i>d</b> e", '<g i="0">a<x i="1"/></g> <g i="2">c <x i="3"/>d</g> e'),
        ("see ![a][a] and [^1]\n\n[a]: x.png\n[^1]: http://x.y", 'see <x i="0"/> and <x i="1"/>'),
    ],
)
def test_codes_of_inline_html_and_of_names(written, text, source):
    document = read_document(written("a.md", text))
    [unit] = document.units
    assert unit.source == source
    unit.set(source)
    assert document.content().decode() == text


def test_many_tags_take_time_in_proportion(written):
    tags = "<a>" * 15_000 + "</b>" * 12_000  # Quadratic time would be a minute.
    assert read_document(written("a.md", f"text {tags}")).units


def test_links_keep_the_names_of_what_they_refer_to(translated):
    links = "See [the guide][g], [the `e`\n  guide][], [Up] and [no]."
    definitions = "\n\n[g]: g.md\n[the `e` guide]: e.md\n> [up]: u.md\n"
    expected = "SEE [THE GUIDE][g], [THE `e`\nGUIDE][the `e` guide], [UP][Up] AND [NO]."
    found = translated("a.md", links + definitions)
    assert found.split() == (expected + definitions).split()
    assert tags_of(found) == tags_of(links + definitions)


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_lines_end_as_they_do_elsewhere(translated, end):
    text = f"---{end}title: x{end}---{end}One{end}two *e{end}e*{end}{end}- three\n{end}four{end}"
    assert translated("a.md", text) == text.upper().replace("TITLE: X", "title: x")


def test_a_cell_keeps_its_bars(written, translated):
    row = "| a \\| *b* `x\\|y` c | `x\\|` b | 1 | a |\n|---|---|---|---|\n"
    assert translated("b.md", row) == row.upper().replace("`X\\|Y`", "`x\\|y`").replace(
        "`X\\|`", "`x\\|`"
    )
    document = read_document(written("a.md", "| One | Two |\n|---|---|\n"))
    document.units[0].set("a | b")
    assert document.content().decode() == "| a \\| b | Two |\n|---|---|\n"


def test_lines_break_where_they_did_by_length(written):
    document = read_document(written("a.md", "> one two three\n> four five six\n"))
    document.units[0].set("eins zwei drei vier fünf sechs")
    assert document.content().decode() == "> eins zwei drei\n> vier fünf sechs\n"


def test_the_pages_of_this_project_come_back(root, written, translator):
    from t2t_keras.documents import translate_document

    translator.translate = lambda lines, format="text": [  # noqa: A006
        type("Same", (), {"text": line}) for line in lines
    ]
    for path in sorted((root / "docs").glob("**/*.md")):
        document = read_document(path)
        translate_document(document, translator)
        assert document.content() == path.read_bytes(), path
