"""A model that changes nothing changes nothing in a file; capitals change letters only."""

import random
import re
from xml.sax.saxutils import escape

import pytest
from echo import echo, upper_case
from lxml import etree

from t2t_keras.workbench.documents import read_document, translate_document
from t2t_keras.workbench.documents.po import entries_of, field_lines

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
        actual = document.content().decode()
        assert (actual, actual.upper()) == (actual if change is upper_case else text, text.upper())


WORDS = (
    "the boat Straße naïve R&D 5 %s {name} %(n)s %hours% :attribute $x &nbsp; <b> < > 50% "
    "C:\\new\\x http://a.org/b?c=d&e. a@b.org “quoted” (so) one-two it's — … 1.5 日本語 {{c}}"
).split()
CODES = (
    "<x id='{n}'/>",
    "<ph id='{n}'>&lt;br/&gt;</ph>",
    "<ph id='{n}'>%s</ph>",
    "%<x id='{n}'/>%\\bin",
    "<g id='{n}' ctype='bold'>bold words</g>",
    "48m<g id='{n}' ctype='x-superscript'>2</g>",
    "<bpt id='{n}'>&lt;i&gt;</bpt>it<ept id='{n}'>&lt;/i&gt;</ept>",
    "(<x id='{n}'/>)",
)
OF_TWO = {"<x ": "<ph ", "<g ": "<pc ", "</g>": "</pc>", "ctype=": "subType=", "x-super": "a:super"}


def texts(seed, count=12):
    draw = random.Random(seed)
    for _ in range(count):
        words = draw.choices(WORDS, k=draw.randint(1, 14))
        yield "".join(
            word + draw.choice((" ", " ", " ", "  ", ", ", ". ")) for word in words
        ).strip()


def sources(seed):
    """XML of sources: plain text, HTML of a message, and text with codes."""
    draw = random.Random(seed)
    for text in texts(seed):
        words = escape(text).split(" ")
        for number in range(draw.choice((0, 0, 1, 3))):
            place = draw.randrange(len(words) + 1)
            words.insert(place, draw.choice(CODES).format(n=number))
        yield " ".join(words)


def of_version_2(source):
    source = re.sub(r"<[be]pt.*?</[be]pt>", "", source)
    for old, new in OF_TWO.items():
        source = source.replace(old, new)
    return re.sub(r"<ph id='(\d+)'>.*?</ph>", r"<ph id='\1'/>", source)


def xliff_1(seed):
    rows = (
        f"<trans-unit id='u'><source>{source}</source></trans-unit>" for source in sources(seed)
    )
    body = f"<body>{''.join(rows)}</body>"
    return f"<xliff version='1.2'><file source-language='en'>{body}</file></xliff>"


def xliff_2(seed):
    rows = (
        f"<unit id='u'><segment><source>{of_version_2(source)}</source></segment></unit>"
        for source in sources(seed)
    )
    return f"<xliff version='2.0' srcLang='en'><file id='f'>{''.join(rows)}</file></xliff>"


def tmx(seed):
    rows = (
        "<tu><tuv xml:lang='en'><seg>"
        + re.sub("<(/?)g[^>]*>", r"<\1hi>", source.replace("<x id", "<ph x"))
        + "</seg></tuv></tu>"
        for source in sources(seed)
    )
    return f"<tmx version='1.4'><header srclang='en'/><body>{''.join(rows)}</body></tmx>"


def po(seed):
    rows = ["\n".join([*field_lines("msgid", text), 'msgstr ""', ""]) for text in texts(seed)]
    return "\n".join(rows)


def pairs_of(name, content):
    """The XML, or the strings, of sources and translations."""
    if name == "a.po":
        return [(entry.source, entry.targets[None]) for entry in entries_of(content)][1:]
    if name == "a.tmx":
        matches = re.findall("<seg>(.*?)</seg>", content)
        return list(zip(matches[::2], matches[1::2], strict=True))
    etree.fromstring(content)
    return re.findall(r"<source>(.*?)</source>\s*<target[^>]*>(.*?)</target>", content)


FORMATS = {"a.po": po, "a.xlf": xliff_1, "a.xliff": xliff_2, "a.tmx": tmx}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("seed", range(8))
def test_generated_files(written, name, seed):
    path = written(name, FORMATS[name](seed))
    for change in (str, upper_case):
        document = read_document(path, "en", "de")
        assert document.content() == path.read_bytes()
        translate_document(document, echo(change))
        pairs = pairs_of(name, document.content().decode())
        assert len(pairs) == len(document.units) >= 12 - sum(document.left_out.values())
        for source, target in pairs:
            if change is str:
                assert target == source
            else:
                assert target.casefold() == source.casefold()


@pytest.mark.parametrize("name", ["po/gnome-boxes.de.po", "xliff/kget.de.xlf", "tmx/kget.de.tmx"])
def test_real_files(shared_data, name):
    document = read_document(shared_data / "localisation" / name, "en", "de")
    translate_document(document, echo(), everything=True)
    assert [unit.target for unit in document.units] == [unit.source for unit in document.units]
