"""By a translator that writes what it reads, markup comes back byte for byte."""

import dataclasses
import random
import re

import pytest
from counted_work import work_of
from echo import echo, upper_case

from t2t_keras.data.problem import Problem
from t2t_keras.text.files import normalized
from t2t_keras.workbench.markup.translator import translate_markup

HTML_PIECES = (
    "word|Two words. |A sentence ends. |1<sup>st</sup>|<b>|</b>|<i\n x='>'>|</i>|<p>|</p>|<br>|"
    "<br/>| |\n  |\t|&amp;|&|&copy|&nbsp;|&nbsp|&#65;|&#x41|&unknown;|&notit;|&NotSubset;|"
    "&shy;|<|<3|>|\"|'|<!-- c -->|<!-->|<img alt='a'>|<a href=x>|</a>|<code>f(x)</code>|<CODE>|"
    "</Code>|<pre>a\n b</pre>|<script>if (a<b) </script>|<style>|</style>|<title>|</title>|"
    "<svg><text>Text</text><path/></svg>|<svg>|</svg>|<math><mi>x</mi></math>|"
    "<ruby>Base<rt>note</rt></ruby>|<rt>|<![CDATA[x]]>|<?php x ?>|</>|</ x>|<!doctype html>|"
    "<x-y>|</x-y>|<template>|</template>|<noscript>|<textarea>a</textarea>|<option>|<button>|"
    "</button>|<span translate='no'>|</span>|<td>|\x00|\xa0|\u200b|e\u0301|\u6587\u5b57\u3002|"
    "%s|{name}|5&nbsp;km|www.a.org|--|- |(|)|.|,|<tag|\r\n|<wbr>|<sub>2</sub>|</p|<b"
).split("|")
XML_PIECES = (
    "word|Two words. |A sentence ends. |<b>{}</b>|<i x='>'>{}</i>|<x/>|<c a=\"&lt;'\"/>| |\n  |"
    "\t|&amp;|&#65;|&#0000000009;|&unknown;|>|\"|'|<!-- c -->|<![CDATA[x <b>]]>|<?p x?>|"
    "<fn>A note. Two.</fn>|<ph>{{</ph>|<s>{}{}</s>|e\u0301|\u6587\u3002|%s|5&#160;km|"
    "<g ctype='lb'/>|<g translate='no'>a</g>|]]&gt;"
).split("|")


def pages(pieces, count):
    draw = random.Random(7)
    for _ in range(count):
        page = "".join(draw.choices(pieces, k=draw.randint(1, 12)))
        while "{}" in page:
            page = page.replace("{}", "".join(draw.choices(pieces[:3], k=draw.randint(0, 2))), 1)
        yield page


@pytest.mark.parametrize(("form", "pieces"), [("html", HTML_PIECES), ("xml", XML_PIECES)])
def test_identity_returns_markup_byte_for_byte(form, pieces):
    sources = list(pages(pieces, 400))
    for source, translation in zip(sources, translate_markup(echo(), sources, form), strict=True):
        assert translation.text == source


@pytest.mark.parametrize(("form", "pieces"), [("html", HTML_PIECES), ("xml", XML_PIECES)])
def test_capitals_change_letters_only(form, pieces):
    # Those are of letters, or become parts of placeholders where they stand beside words.
    skipped = re.compile("&#|%s|www|[{]name")
    sources = [page for page in pages(pieces, 400) if not skipped.search(page)]
    translations = translate_markup(echo(upper_case), sources, form)
    for source, translation in zip(sources, translations, strict=True):
        assert normalized(translation.text).upper() == normalized(source).upper()


@pytest.mark.parametrize(
    ("form", "source", "texts"),
    [
        ("xml", "<s>Text here<i>Red dog</i><i>Blue cat</i></s>", "Text here Red dog Blue cat"),
        ("xml", "<i>red</i><k>dog</k>", "red dog"),
        ("xml", "a<tab/>b<x subType='xlf:lb'/>c<x type='lb'/>d", "a b c d"),
        ("xml", "Word<fn>A note.</fn> ends", "Word ends|A note."),
        ("xml", "Word<d:footnote><p>See</p></d:footnote> ends", "Word ends|See"),
        ("xml", "Word<k>This is one.</k> ends", "Word ends|This is one."),
        # A sentence ends with the marks of its script, as Armenian's, and marks of notes.
        ("xml", "Բառ<k>Նոր միտք\u0589</k> էլ", "Բառ էլ|Նոր միտք\u0589"),
        ("xml", "Word<k>This is one.[2]</k> ends", "Word ends|This is one.[2]"),
        ("xml", "Word<k>this is one.</k> Ends", "Wordthis is one.|Ends"),
        ("xml", "Word <k>This is one.</k> ends", "Word This is one.|ends"),
        ("xml", "Go <g ctype='x-note'>see it</g> on", "Go on|see it"),
        ("html", "<span>Name</span><span>Value</span>", "Name Value"),
        ("html", "<span>name</span><span>value</span>", "name value"),
        ("html", "<b>w</b>ord <b>w</b><i>ord</i> pre<b>fix</b>", "word word prefix"),
        (
            "html",
            "<b>Note.</b>This (<b>and</b>) <b>b</b>, McDonald",
            "Note.|This (and) b, McDonald",
        ),
        # Only the tags between two texts say whether they are two.
        ("html", "<a>Un</a>happi<a>ness</a>", "Unhappiness"),
        ("html", "the <ruby>Base<rp>(</rp><rt>note</rt></ruby> form", "the Base form|note"),
        ("html", "<ruby>a<rt>b<rb>c</ruby> d", "ac d|b"),
        (
            "html",
            "<svg><title>Icon</title><g>no</g><text>One</text><text>Two</text></svg>",
            "Icon|One|Two",
        ),
        ("html", "Go <svg><text>home</text><path d='a'/></svg> now", "Go now|home"),
        ("html", "<svg><style>p</style><foreignObject><p>One</p></foreignObject></svg>", "One"),
        ("html", "<svg><path/></svg> a <i class=x><svg></svg></i> b", "a b"),
        ("html", "<p>a<svg><p>b", "a|b"),
        ("html", "a&nbsp5 b&copy 2020 &#0000000065", "a 5 b\u00a9 2020 A"),
        ("html", "<p>a</p><pre>b <i>c</i></pre><listing>d</listing><plaintext>e", "a"),
    ],
)
def test_what_a_reader_sees_as_two_reaches_the_model_as_two(form, source, texts):
    translator = echo()
    [translation] = translate_markup(translator, [source], form)
    assert translation.text == source
    assert sorted(translator.engine.seen) == sorted(texts.split("|"))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Marks -- are <code>-</code> now.", "MARKS -- ARE <code>-</code> NOW."),
        ("1<sup>st</sup> of <b>w</b>ord", "1<sup>ST</sup> OF <b>W</b>ORD"),
        ("co<sub>2</sub>\u2010free", "co<sub>2</sub>\u2010FREE"),
        ("mask_<wbr>cmp_<wbr>epi8 is f<wbr>(x)", "MASK_<wbr>CMP_<wbr>EPI8 IS F<wbr>(X)"),
        ('48m<g ctype="x-superscript">2</g> big', '48M<g ctype="x-superscript">2</g> BIG'),
        (
            "<a href='1'><code>a</code></a> or <a href='2'><code>b</code> <code>a</code></a>.",
            "<a href='1'><code>a</code></a> OR <a href='2'><code>b</code> <code>a</code></a>.",
        ),
        ("<title>a <b> c</title>", "<title>A <b> C</title>"),
        ('a &copy b &quot;c" AT&T', 'A &copy B &quot;C" AT&T'),
    ],
)
def test_codes_and_parts_of_words_stay_in_place(source, expected):
    [translation] = translate_markup(echo(upper_case), [source], "html")
    assert translation.text == expected


KEPT = {
    "html": "code kbd samp var tt pre listing script style textarea iframe noembed noframes object "
    "xmp math svg",
    "xml": "bpt ept it ph",
}


@pytest.mark.parametrize("form", KEPT)
def test_what_is_no_text_of_a_language_stays(form):
    sources = [f"one <{name}>b c</{name}> two" for name in KEPT[form].split()]
    for source, translation in zip(
        sources, translate_markup(echo(upper_case), sources, form), strict=True
    ):
        assert translation.text == source.replace("one", "ONE").replace("two", "TWO")


def test_a_code_without_a_place_comes_once():
    source = "<b>x</b> " * 500 + "see <code>f</code> and <code>g</code>."
    [translation] = translate_markup(echo(), [f"see <code>g</code> {source}"], "html")
    assert [translation.text.count(f"<code>{name}</code>") for name in "fg"] == [1, 2]
    words = re.sub("<[^>]*>", " ", translation.text).replace(".", "").split()
    assert sorted(words) == sorted(["see", "g", *["x"] * 500, "see", "f", "and", "g"])


def test_settings_of_the_translator():
    translator, seen = echo(), {}
    outputs, decode = translator.engine.outputs, translator.tokenizer.decode

    def numbered(sources, prefixes, numbers):
        seen.update(zip(decode(sources), numbers, strict=True))
        return outputs(sources, prefixes, numbers)

    translator.engine.outputs = numbered
    translator.config = dataclasses.replace(translator.config, lines_at_once=2, max_input_length=6)
    translations = translate_markup(translator, ["<p>a<p>b c d e f g<p>c d e f g h", "d"], "html")
    assert [translation.cut for translation in translations] == [2, 0]
    # Draws are by these numbers, and no two sentences have the same.
    assert seen == {"a": 0, "b c d e f": 1, "c d e f g": 2, "d": 3}
    translator.config = dataclasses.replace(translator.config, split_long=True)
    unchanged = "<b>One</b> <code>is it. Now</code> b c"
    [translation] = translate_markup(translator, [unchanged], "html")
    assert (translation.cut, translation.text) == (0, unchanged)
    changed = translate_markup(echo(lambda piece: "x"), ["<p>%s a<p>%d b", "c"], "html")
    assert [translation.notes for translation in changed] == [{"placeholders": 2}, {}]
    translator.problem = Problem(source_language="de", target_language="en")
    translate_markup(translator, ["See Abb. 3"], "html")
    assert "See Abb. 3" in seen


# Each was more than linear, or is read by a part of its own.
MOTIFS = (
    "<b>|<p>use <code>f#</code></p>|A word. |<b><sup>1</sup>|5&nbsp;km |H<sub>2</sub>O |&amp|"
    'x <a "|x</b>|<ruby>a<rt>|<svg>|a <i translate=no>b|a<i>B|www.;<b |!-'
).split("|")


@pytest.mark.parametrize("motif", MOTIFS)
def test_work_is_in_proportion_to_the_length(motif):
    def work(count):
        page = "Text " + "".join(motif.replace("#", str(number)) for number in range(count))
        return work_of(lambda: translate_markup(echo(), [page], "html"))

    count = 2000 // len(motif)
    assert work(2 * count) < 2.4 * work(count)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "Open <a href='x'>http://localhost:80/</a><code>ID</code>",
            "OPEN <a href='x'>http://localhost:80/</a><code>ID</code>",
        ),
        ("<b>%s</b>file<code>x</code>", "<b>%sfile</b><code>x</code>"),
    ],
)
def test_a_kept_piece_ends_the_placeholder_before_it(source, expected):
    [translation] = translate_markup(echo(upper_case), [source], "html")
    assert translation.text == expected
