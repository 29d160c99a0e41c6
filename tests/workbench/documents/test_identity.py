"""Pages and XML come back byte for byte, or with other letters only."""

import random

import pytest
from echo import echo, upper_case

from t2t_keras.workbench.documents import read_document, translate_document

PIECES = {
    ".html": (
        "One word. |two |\n  |<b>|</b>|<p>|</p>|<td>|&copy 2020|&eacute;|&|<|'|&quot;|\"|<br/>|"
        "<img alt=a>|<!-- [if IE]> a <![endif] -->|<![if !IE]>|<TITLE>|</TITLE>|<pre>a\n b</pre>|"
        "<svg><text>A</text></svg>|<ruby>b<rt>c</rt></ruby>|<p translate=no>|<noscript>|"
        "<template>|<x-y z=1>|<textarea>|\x00|<a"
    ),
    ".xml": (
        'One word. |two |\n  |<b>{}</b>|<p>{} a</p>|<p>a {}\n b</p>|&amp;|&quot;|&apos;|"|>|'
        "<x a='>'/>|<!-- a -->|<![CDATA[<b>A</b> one]]>|<?p x?>|Word<fn>A note. Two.</fn>|"
        '<i>Red</i><i>Blue</i>|&#0000000009;|<q translate="no">a</q>'
    ),
}


@pytest.mark.parametrize("change", [str, upper_case])
@pytest.mark.parametrize("extension", PIECES)
def test_documents_change_letters_only(written, extension, change):
    draw, translator = random.Random(5), echo(change)
    pieces = PIECES[extension].split("|")
    if change is upper_case:
        pieces = [piece for piece in pieces if "&eacute;" not in piece]
    for _ in range(120):
        text = "".join(draw.choices(pieces, k=draw.randint(1, 9)))
        while "{}" in text:
            text = text.replace("{}", "".join(draw.choices(pieces[:3], k=draw.randint(0, 2))), 1)
        text = f"<r>{text}</r>" if extension == ".xml" else text
        document = read_document(written(f"a{extension}", text), "en", "en")
        translate_document(document, translator)
        found = document.content().decode()
        assert (found, found.upper()) == (found if change is upper_case else text, text.upper())
