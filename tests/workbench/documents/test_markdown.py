"""Markdown: the rendered structure stays, and so does all that is no text."""

import html
import random
import re

import pytest
from counted_work import work_of
from echo import echo, upper_case
from markdown_it import MarkdownIt
from refusals import refused

from t2t_keras.decoding.translation import Translation
from t2t_keras.workbench.documents import read_document, translate_document

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
    output = translated("a.md", TEXT)
    assert tags_of(output) == tags_of(TEXT)
    unchanged = 'title: front;`code e`;(http://e.e/e "the title");![alt e](e.png);\\*ESCAPED\\*;'
    unchanged += "&nbsp; <br> <http://e.e>.  \n;HARD BREAK\\\nAND;> 1. 1\n;\ncode e\n;|---|:--:|;"
    unchanged += (
        "| CELL A | `x` A |;THE <b>HTML</b> BLOCK;SETEXT\n=;[ref]: http://e.e/e;# THE *TITLE*"
    )
    for word in unchanged.split(";"):
        assert word in output
    assert len(output) == len(TEXT)


@pytest.mark.parametrize(
    "line", ["1. one", "- one", "# one", "> one", "one *", "a_b_ *c* `d` [e](f)"]
)
def test_what_markdown_would_take_for_syntax_is_escaped(written, line):
    for text in ("First\n", "> First\n> second\n", "# First\n", "| First |\n|---|\n"):
        document = read_document(written("a.md", text))
        document.units[0].set(line)
        content = document.content().decode()
        assert tags_of(content) == tags_of(text)
        rendered = MarkdownIt("commonmark").enable("table").render(content)
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
    assert [unit.source for unit in document.units] == [
        'R&amp;D<x i="0" ctype="lb"/>is',
        '<g i="0">so</g>',
    ]


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("a <b>red *c* d</b> e", 'a <g i="0">red <g i="1">c</g> d</g> e'),
        ("a <kbd>Up *c*</kbd> <i translate='no'>x</i>", 'a <x i="0"/> <x i="1"/>'),
        ("a ~~b~~ c", 'a <g i="0">b</g> c'),
        ("<b>a *b</b> c*", '<x i="0"/>a <g i="1">b<x i="2"/> c</g>'),
        ("*a</b>* <b>c <i>d</b> e", '<g i="0">a<x i="1"/></g> <g i="2">c <x i="3"/>d</g> e'),
        *(
            (f"See {mark} and", 'See <x i="0"/> and')
            for mark in "[^1] [[A_b]] :smile: $$a$$ $a$ {{a}} {%a%} {#a} {.a} {:a} {%a}".split()
        ),
        ("see ![a][a] and [^1]\n\n[a]: x.png\n", 'see <x i="0"/> and <x i="1"/>'),
        ("See [ `c` ](u) and [a `c` ](v).", 'See <x i="0"/> and <g i="1">a <x i="2"/> </g>.'),
        ("As said[1](a)[2](b), we **5** go.", 'As said<x i="0"/><x i="1"/>, we <g i="2">5</g> go.'),
        ("Icon \U000f0001 of \U000f0003 *x*", 'Icon <x i="0"/> of <x i="1"/> <g i="2">x</g>'),
    ],
)
def test_codes_of_inline_html_and_of_names(written, text, source):
    document = read_document(written("a.md", text))
    [unit] = document.units
    assert unit.source == source
    unit.set(source.replace("and", "und"))  # Not the source, which would stay as it is.
    assert document.content().decode() == text.replace("and", "und")


def test_many_tags_take_time_in_proportion(written):
    tags = "<a>" * 15_000 + "</b>" * 12_000  # Quadratic time would be a minute.
    assert read_document(written("a.md", f"text {tags}")).units


@pytest.mark.parametrize(
    ("link", "text", "expected"),
    [
        ("[the guide][g]", "das Buch", "[das Buch][g]"),
        ("[the `e`\n  guide][]", 'das <x i="1"/> Buch', "[das `e`\n  Buch][the `e` guide]"),
        ("[Up]", "Auf", "[Auf][Up]"),
        ("[Up][]", "UP", "[UP][]"),
        ("[Up]", "UP", "[UP]"),
    ],
)
def test_links_keep_the_names_of_what_they_refer_to(written, link, text, expected):
    definitions = "\n\n[g]: g.md\n[the `e` guide]: e.md\n> [up]: u.md\n"
    document = read_document(written("a.md", f"See {link} and [no].{definitions}"))
    document.units[0].set(f'Siehe <g i="0">{text}</g> und [no].')
    assert document.content().decode() == f"Siehe {expected} und [no].{definitions}"


# Of each: the source, and what stays of it as it is; all else is letters that change.
SYNTAX = [
    (r"\*not bold\* \A and Open C:\new\tools now, \d+, \alpha", ""),
    (r"Ropes \& dogs &amp; cats & all, `` a ` b ``", "&amp;;`` a ` b ``"),
    (r"1\. no list", ""),
    ("> [!NOTE]\n> Some text\n>\n> [!tip]+ A title\n> More", "[!NOTE];[!tip]+ A title"),
    ("::: note\nSome text\n:::\nMore", "::: note"),
    ('!!! note "Title"\n    Some text\n    - more\n\nEnd', '!!! note "Title"'),
    ('=== "Tab"\n\n    Some text', '=== "Tab"'),
    ('===! "Tab"\n\n    Some text', '===! "Tab"'),
    ('???+ note "Title"\n    Some text', '???+ note "Title"'),
    ("> [!note]- A title\n> Some text", "[!note]- A title"),
    ("[toc]\n\nSome text\n\n[[_toc_]]", "[toc];[[_toc_]]"),
    ("{# x #}\n\nSome text\n\n{:: y}", "{# x #};{:: y}"),
    ("Some $a^2 + b_1$ and $$E = mc^2$$ for $5 or $6", "a^2 + b_1;E = mc^2"),
    ("$$\na = b\n- c\n$$\nSome text", "a = b\n- c"),
    ("[[toc]]\n\nSee [[A page|there]] :smile: at 12:30:15", "[[toc]];[[A page|there]];:smile:"),
    ("Ropes[^a] are old.\n\n[^a]: A note\n[^b]: Two\n\n    More", "[^a];[^b]"),
    ("[^a]: A note\n\n     More", "[^a]"),
    ("Term\n: Its meaning", ""),
    ("- [ ] Paint\n- [x] Sail", "[x]"),
    (
        "# Head {#head}\n{: .class}\n{% if x %}\nA {{ name }}",
        "{#head};{: .class};{% if x %};{{ name }}",
    ),
    ("| A | <ul><li>one</li><li>*two*</li></ul> |\n|---|---|", "<ul><li>;</li><li>;</li></ul>"),
    ("1\\. Intro\n===\n\n# Learn C \\#\n\n\\> Foo\n---", ""),
    (
        "See [ `code` ](u)[a `b` ](v). Hello\\![docs][d]\n\n[d]: x",
        "[ `code` ](u);`b` ](v);[d];]: x",
    ),
    ('<div id="a"\n*hi*', '<div id="a"\n*hi*'),
    ("> <div>\n> Some text</div>", "<div>\n> Some text</div>"),
    ("Icons \U000f0001 are *here*", ""),
    ("Line *one* \ntwo\\\nthree  \n  four", ""),
]


@pytest.mark.parametrize(("text", "stays"), SYNTAX)
@pytest.mark.parametrize(("begin", "lines"), [("", "\n"), ("> ", "\n> "), ("1. ", "\r\n   ")])
def test_only_letters_change(translated, text, stays, begin, lines):
    source, stays = (f"{begin}{text}\n".replace("\n", lines), stays.replace("\n", lines))
    expected = source.upper()
    for piece in filter(None, stays.split(";")):
        expected = expected.replace(piece.upper(), piece)
    assert translated("a.md", source) == expected


def test_a_model_changes_only_letters(written):
    text = "\n\n".join(text for text, _ in SYNTAX) + "\n"
    document = read_document(written("a.md", text), "en", "de")
    report = translate_document(document, echo(upper_case))
    assert report.unsafe == 0
    assert document.content().decode().lower() == text.lower()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("> [!tip] A title", "lines of extensions"),
        ('!!! note "A title"', "lines of extensions"),
        ("> <div>Text</div>", "HTML in quotations"),
        ('<div id="a"\ntext', "HTML with a tag that does not end"),
        ("> " * 21 + "text", "blocks in over 20 others"),
        ("Te\0xt", "texts whose place was not found"),
    ],
)
def test_what_is_not_translated_is_counted(translated, text, reason):
    text = f"{text}\n\n{text}"
    assert translated("a.md", text) == text
    assert translated.report.left_out == {reason: 2}


@pytest.mark.parametrize(("size", "is_read"), [(99_999, True), (100_000, True), (100_001, False)])
def test_paragraphs_of_at_most_100_000_characters(written, size, is_read):
    path = written("a.md", "> " + "a" * size)
    if is_read:
        assert read_document(path).units
    else:
        with refused("long_paragraph", "100,001"):
            read_document(path)


def test_blocks_in_20_others_are_translated(translated):
    assert translated("a.md", "> " * 19 + "text") == "> " * 19 + "TEXT"


def test_unwritable_translations_keep_the_source_and_are_counted(written, translator):
    document = read_document(written("a.md", "A *b* c\n\nTwo\n"))
    translator.translate = lambda lines, format="text": [  # noqa: A006
        Translation(line.replace("b", "").replace("o", "a"), 0.0) for line in lines
    ]
    report = translate_document(document, translator)
    assert (report.translated, report.unsafe) == (2, 1)
    assert document.content() == b"A *b* c\n\nTwa\n"


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ("A *b* c", 'a d<g i="0">"b"</g>c', 'a d *"b"* c'),
        ("A _b_ c", 'a d<g i="0">b</g>c', "a d *b* c"),
        ("A __b__ c", 'a d<g i="0"> b </g>c', "a d **b** c"),
        ("A __b__ c", 'a<g i="0"> b </g>c', "a __b__ c"),
        ("A __b__ c", 'a<g i="0"> b </g>, c', "a **b**, c"),
        ("A [b](c) d", 'e !<g i="0">b</g>(d)', r"e \![b](c)\(d)"),
        ("A [b] d\n\n[b]: e", 'a d <g i="0">b</g>(d)', "a d [b]\\(d)\n\n[b]: e"),
        ("[b] d\n\n[b]: e", '<g i="0">b</g>: d', "[b]\\: d\n\n[b]: e"),
        ("A `b` c", 'a *c* <x i="0"/>', "a \\*c\\* `b`"),
        (r"A \* b", "* a * b", r"\* a * b"),
        ("A &amp; b", "a & b & c", "a &amp; b & c"),
        ("One\n===", "1. One", "1\\. One\n==="),
        ("# One", "One #", "# One \\#"),
        ("One", ":smile: $a$ {{ b }} &copy; \\*", r"\:smile: \$a\$ \{\{ b }} \&copy; \\\*"),
        ("One", "One\n\nTwo", "One Two"),
        ("R&amp;D *w*ord", '<g i="0">R&amp;D WO</g>RD', "R&amp;D *W*ORD"),
        *(
            ("One", line, f"\\{line}")
            for line in ('+ b|~~~ b|::: b|: b|!!! b|??? b|???+ b|=== "b"|{% b %}|{: .b}'.split("|"))
        ),
        ("One", "1) b", "1\\) b"),
        ("One", "b :c: d", "b \\:c: d"),
        ("One *x*", '- <g i="0">x</g> 1', "\\- *x* 1"),
        ("One *x*", '- a_b <g i="0">x</g>', "\\- a_b *x*"),
        ("One _x_ 1", '*a* <g i="0">x</g>', r"\*a\* _x_"),
        ("One two\nthree four", "eins zwei - drei vier", "eins zwei\n\\- drei vier"),
    ],
)
def test_a_translation_is_read_as_it_is(written, text, translation, expected):
    document = read_document(written("a.md", text))
    document.units[0].set(translation)
    assert document.content().decode() == expected
    [unit, *_] = read_document(written("a.md", expected)).units
    texts = ["".join(re.sub("<[^<>]*>", "", text).split()) for text in (unit.source, translation)]
    assert texts[0] == texts[1]


def test_a_translation_defines_no_name_of_a_link(written):
    document = read_document(written("a.md", "One\n\nTwo\n"))
    for unit, text in zip(document.units, ("[x]: y", "[x] z"), strict=True):
        unit.set(text)
    assert document.content().decode() == "\\[x\\]: y\n\n[x] z\n"


def test_a_text_within_a_line_begins_none(written):
    document = read_document(written("a.md", "a<br>b\n\na  \n \tb\n"))
    for unit in document.units[1::2]:
        unit.set("1. c")
    assert document.content().decode() == "a<br>1. c\n\na  \n \t1\\. c\n"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("[[a]] b\n\n[a]: x", '[<g i="0">a</g>] b'),
        ("[^a] b\n\n[^a]: x y", '<x i="0"/> b'),
        ("at 12:ab:15, a:b: and std::vec::x", "at 12:ab:15, a:b: and std::vec::x"),
        ("for $5, $6 or US$5/US$6", "for $5, $6 or US$5/US$6"),
        ("one \ntwo", "one two"),
        ("*one  \ntwo*", '<g i="0">one<x i="1" ctype="lb"/>two</g>'),
        ("one\n\n    ::: two\n", "one"),
        *((f"one\n    {mark} two", f"one {mark} two") for mark in (":::", "!!!", "???")),
        ("[!note](x) y", '<g i="0">!note</g> y'),
        ("- [x]one", "[x]one"),
    ],
)
def test_what_only_looks_like_a_mark(written, text, source):
    document = read_document(written("a.md", text))
    assert document.units[0].source == source
    assert not document.left_out


@pytest.mark.parametrize(
    "mark",
    "::: a|::::a|[!NOTE]|[!tip]- A|[toc]|[[_TOC_]]|{% if a %}|{: .a}|!!! a|??? a|???+ a|=== 'A'|"
    '===! "A"|===+ "A"|$$ a $$|$$\na\n$$'.split("|"),
)
def test_lines_of_marks_are_no_text(written, mark):
    document = read_document(written("a.md", f"{mark}\n\nOne\n"))
    assert [unit.source for unit in document.units] == ["One"]
    assert sum(document.left_out.values()) == 1


def test_codes_alone_are_no_text(written):
    assert not read_document(written("a.md", "`code` ![an image](a) **12** <kbd>Up</kbd>\n")).units


@pytest.mark.parametrize("box", ["[ ] ", "[x] ", "[X] ", "[X]\t "])
def test_the_box_of_a_task_is_no_text(written, box):
    assert [unit.source for unit in read_document(written("a.md", f"* {box}One")).units] == ["One"]


@pytest.mark.parametrize("mark", ["---", "+++"])
def test_front_matter_stays(translated, mark):
    text = f"{mark} \na: b{mark}\nc: d\n{mark}"
    assert translated("a.md", text) == text
    assert translated("a.md", f"{text}\nOne\n") == f"{text}\nONE\n"


def test_html_in_lists(translated):
    text = "- <div>\n  Some text</div>\n- <b>Bold</b> end\n"
    assert translated("a.md", text) == "- <div>\n  SOME TEXT</div>\n- <b>BOLD</b> END\n"


def test_html_with_nul_in_the_first_line(translated):
    assert translated("a.md", "<p>a\0b</p>\n") == "<p>A\0B</p>\n"


@pytest.mark.parametrize("wrong", ["A c", "A <g i='0'>b</g> c", 'A <g i="0">b</g><g i="0">b</g> c'])
def test_codes_come_once_each(written, wrong):
    document = read_document(written("a.md", "A *b* c\n"))
    document.units[0].set(wrong)
    with refused("inline_codes_differ"):
        document.content()


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


PIECES = """word|*em*|__strong__|***both***|`code`|[link](u 't')|![img](i)|<b>x</b>|<br>|&amp;|12
&copy;|&#35;|\\*|\\x|\\\\|$x$|[^1]|~~s~~|<http://e.e>|[ref]|[ref][]|[text][ref]|a_b_|**|`|``|[|]|(
)|!|#|- |> |1. |1) |=|\t|:x:|{{ v }}|<i>|</i>|<!-- c -->|~|_|$|:|"|+|a|a &"""
PIECES = [*re.split(r"[|\n]", PIECES), "word  \n", "\\\n", "\n", "\n"]
FRAMES = [
    "{}",
    "# {}",
    "## {} ##",
    "{}\n===",
    "- {}\n\n  {}",
    "> {}\n> 1. {}",
    "[^1]: {}",
    "| {} | {} |\n|-|-|\n| {} |",
]


@pytest.mark.parametrize("seed", range(40))
def test_only_letters_change_in_generated_pages(translated, seed):
    draw = random.Random(seed)
    blocks = []
    for frame in draw.sample(FRAMES, 4):
        texts = []
        for _ in range(frame.count("{}")):
            text = draw.choice(["", " "]).join(draw.choices(PIECES, k=15))
            texts.append(text if frame.startswith(("{}", "[")) else text.replace("\n", " "))
        blocks.append(frame.format(*texts))
    text = "\n\n".join([*blocks, "[ref]: r\n"])
    output = translated("a.md", text)
    assert output.lower() == text.lower()
    assert output != text
    assert translated.report.unsafe == 0
    assert [tag.lower() for tag in tags_of(output)] == [tag.lower() for tag in tags_of(text)]


@pytest.mark.parametrize(
    ("name", "motifs"),
    [
        (
            "a.md",
            "_a_ |[^a]: b\n|&amp;|a<br>|> a\n\n|:::\n|[|$a |$$a\n|[a |*a **|`` ` |\\*|[a]\n",
        ),
        ("a.srt", "♪ a |- a\n|> a\n|{\\an8}a|{\\|[a] |<i>a|a\\N|# |A: "),
    ],
)
def test_work_is_in_proportion_to_the_length(written, translator, name, motifs):
    head = "1\n00:00:01,000 --> 00:00:02,000\n" if name.endswith("srt") else ""
    for motif in motifs.split("|"):
        counts = [
            work_to_translate(written(name, head + motif * (size // len(motif))), translator)
            for size in (100, 300, 1200)  # The first imports what it needs.
        ][1:]
        assert counts[1] < 4 * 4**0.2 * counts[0], motif


def work_to_translate(path, translator):
    def translate():
        document = read_document(path, "en", "de")
        translate_document(document, translator)
        document.content()

    return work_of(translate)


def test_the_pages_of_this_project_come_back(root, written, translator):
    for path in sorted((root / "docs").glob("**/*.md")):
        document = read_document(path)
        translate_document(document, translator)
        assert document.content().decode().lower() == path.read_text().lower(), path
