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


def test_a_cell_keeps_its_bars(written):
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
