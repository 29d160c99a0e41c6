"""By a translator that writes what it reads, markup comes back byte for byte."""

import random
import re

import pytest
from counted_work import work_of
from echo import echo, upper_case

from t2t_keras.decoding.markup import translate_markup
from t2t_keras.text.files import normalized

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
    for source, found in zip(sources, translate_markup(echo(), sources, form), strict=True):
        assert found.text == source


@pytest.mark.parametrize(("form", "pieces"), [("html", HTML_PIECES), ("xml", XML_PIECES)])
def test_capitals_change_letters_only(form, pieces):
    # Those are of letters, or become parts of placeholders where they stand beside words.
    skipped = re.compile("&#|%s|www|[{]name")
    sources = [each for each in pages(pieces, 400) if not skipped.search(each)]
    translations = translate_markup(echo(upper_case), sources, form)
    for source, found in zip(sources, translations, strict=True):
        assert normalized(found.text).upper() == normalized(source).upper()


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
