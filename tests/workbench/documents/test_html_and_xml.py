"""HTML and XML: what is between tags of blocks, and all else as it was."""

import pytest
from lxml import etree

from t2t_keras.workbench.documents import read_document
from t2t_keras.workbench.documents.document import format_of

PAGE = """<!DOCTYPE html><html lang=en><head><title>My page</title><style>p {color: red}</style>
<script>if (a<b) "</p>"</script></head><body class='x'><h1><b>Big</b></h1>
<p>This is <a href="x.html" title='a-b'>a <i>link</i></a> and
   more.<br>Second <br/>
<p>Unclosed paragraph
   of two lines. <pre>
 kept as
   it is </pre><ul><li>one<li><code>x</code> 12</ul>
<div translate="no"><p>Not <b>this</b></p></div><p class="a notranslate">nor this</p>
<textarea><p>raw</textarea><p> a < b &amp; c </b> <!-- <p>no</p> --></body></html>
"""


def test_each_block_is_a_unit_and_nothing_else_changes(translated):
    expected = PAGE
    for text in (
        "My page;Big;>This is ;>a <;>link<;and\n   more;Second;Unclosed paragraph\n   of two lines;"
        ">one<; a < b;; c "
    ).split(";"):
        expected = expected.replace(text, text.upper(), 1)
    expected = expected.replace("lang=en", "lang=de")
    assert translated("a.html", PAGE) == expected
    left_out = {"preformatted texts": 1, "attributes such as title and alt": 1}
    assert translated.report.left_out == left_out


def test_units_have_only_the_tags_within_their_text(written):
    units = read_document(written("a.html", PAGE)).units
    actual = [(unit.source, unit.format) for unit in units]
    assert actual[:5] == [
        ("My page", "text"),
        ("Big", "text"),
        (
            "This is <a href=\"x.html\" title='a-b'>a <i>link</i></a> and\n   more.",
            "html",
        ),
        ("Second", "text"),
        ("Unclosed paragraph of two lines.", "text"),
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("R&amp;D", "html"),
        ("R &amp;", "html"),
        ("a  b", "html"),
        ("a<i>b</i>", "html"),
        ("a\n b", "text"),
    ],
)
def test_which_texts_of_pages_are_markup(written, text, kind):
    [unit] = read_document(written("a.html", f"<p>{text}</p>")).units
    assert (unit.source, unit.format) == (text.replace("\n ", " "), kind)


def test_text_is_escaped_and_encoded_as_the_page_is(written):
    for meta in (
        f'<!--{" " * 4_000}--><meta charset="iso-8859-1">',
        "<META CHARSET = 'iso-8859-1'>",
        "<meta http-equiv=Content-Type content='text/html; charset=iso-8859-1'>",
        "<meta charset=iso-8859-1>",
    ):
        page = f"{meta}<p>Caf\xe9 two</p>".encode("latin-1")
        document = read_document(written("a.htm", page))
        document.units[0].set("a < b & č")
        assert document.content() == page.replace(b"Caf\xe9 two", b"a &lt; b &amp; &#269;")


@pytest.mark.parametrize(
    ("page", "languages", "expected"),
    [
        ("<html lang=en-GB>{}", ("en", "de"), "<html lang=de>{}"),
        (
            "<html class='lang=en' LANG='en-GB'>{}",
            ("en", "de"),
            "<html class='lang=en' LANG='de'>{}",
        ),
        ('<html xml:lang="en" lang="EN">{}', ("en-US", "zh-Hans"), None),
        ("<a hreflang=en>{}<i lang=fr>", ("en", "de"), "<a hreflang=en>{}<i lang=fr>"),
        ("<i lang=en translate=no>b</i>{}", ("en", "de"), "<i lang=en translate=no>b</i>{}"),
        ("<html lang=en>{}", ("en", "en-GB"), "<html lang=en>{}"),
        ("<html lang=en>{}", ("", "de"), "<html lang=en>{}"),
        ("<html lang=en>{}", ("en", ""), "<html lang=en>{}"),
    ],
)
def test_a_page_says_in_which_language_it_is(translated, page, languages, expected):
    expected = expected or '<html xml:lang="zh-Hans" lang="zh-Hans">{}'
    output = translated("a.html", page.format("<p>text"), languages)
    assert output == expected.format("<p>TEXT")


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        (("en", "de"), "<a><b xml:lang='de'>ONE</b><b xml:lang=\"fr\">TWO</b>{}</a>"),
        (("en-US", "zh-Hans"), "<a><b xml:lang='zh-Hans'>ONE</b><b xml:lang=\"fr\">TWO</b>{}</a>"),
        (("en", "en-GB"), "<a><b xml:lang='en-GB'>ONE</b><b xml:lang=\"fr\">TWO</b>{}</a>"),
        (("", "de"), "<a><b xml:lang='en-GB'>ONE</b><b xml:lang=\"fr\">TWO</b>{}</a>"),
    ],
)
def test_xml_says_in_which_language_it_is(translated, languages, expected):
    unchanged = '<b translate="no" xml:lang="en">é three</b>'
    content = f"<a><b xml:lang='en-GB'>One</b><b xml:lang=\"fr\">two</b>{unchanged}</a>"
    content, expected = (text.replace("<b ", "<b é='é' ") for text in (content, expected))
    assert translated("a.xml", content, languages) == expected.format(
        unchanged.replace("<b ", "<b é='é' ")
    )


@pytest.mark.parametrize(
    ("tag", "count"),
    [
        ('<img ALT="A rope">', 1),
        ("<input placeholder='Name' aria-label=Name title=\"12 %\">", 2),
        ('<a href="title=x" data-title="One" title = "One">', 1),
        ('<a title="" alt=12>', 0),
    ],
)
def test_attributes_that_a_reader_sees_are_counted(written, tag, count):
    document = read_document(written("a.html", f"<p>{tag} text"))
    assert document.left_out == ({"attributes such as title and alt": count} if count else {})


@pytest.mark.parametrize(
    "page",
    """<!-- never ends <p>a|<a href='never ends><p>b|<script>a|</p a|<|<title>a|<!---->|<!-->a|</>|
    <?php a ?>|<p/a|\ufeff<p>a|<b></i></b>|<!doctype a""".split("|"),
)
def test_malformed_pages_come_back(translated, page):
    assert translated("a.html", page).lower() == page


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *(
            (f"a {tag} b", "html")
            for tag in ("<b>", "</b>", "<br/>", "<x-y z='1'>", "<v.loud Bob>")
        ),
        *((f"a {text} b", "text") for text in ("< b >", "<3", "<12>", "<a<b", "<a", "a>")),
    ],
)
def test_which_texts_have_tags(text, kind):
    assert format_of(text) == kind


def test_a_tag_that_does_not_end_is_counted(written):
    assert read_document(written("a.html", "<p>a <b")).left_out == {"tags that do not end": 1}


XML = """<?xml version="1.0"?>
<!DOCTYPE book SYSTEM "http://example.org/x.dtd" [<!ATTLIST book a CDATA #IMPLIED>]>
<d:book xmlns:d="urn:x" xmlns:its="http://www.w3.org/2005/11/its"><!-- no -->
 <d:title>The &amp;
   "title" &lt;x&gt;</d:title>
 <d:para>
   Some <d:emphasis role="bold>x">text</d:emphasis> with <d:x/> &nbsp; and
   the <!-- comment --> end. <![CDATA[x <e> y]]>
 </d:para>
 <d:item translate="no">Not this</d:item><d:n>12</d:n><s translatable="false">nor this</s>
 <string><![CDATA[<b>One</b> two]]></string><empty/>
</d:book>
"""


def test_the_outermost_elements_with_text_are_units(translated):
    output = translated("a.xml", XML)
    expected = XML
    for text in ("The &", '"title"', "Some ", ">text<", "with <", "; and", "the <!", "end. "):
        expected = expected.replace(text, text.upper(), 1)
    expected = expected.replace("&lt;x&gt;", "&lt;x&gt;").replace(
        "<b>One</b> two", "<b>ONE</b> TWO"
    )
    assert output == expected
    # The translator sees no name and no entity that its reader does not know.
    assert translated.report.translated == 3


def test_xml_units_hold_codes_only(written):
    unit = read_document(written("a.xml", XML)).units[1]
    assert unit.source == (
        'Some <g i="0">text</g> with <x i="1"/> <x i="2"/> and\n   the <x i="3"/> end. <x i="4"/>'
    )
    entity = "<!DOCTYPE a SYSTEM 'x'><a>&b; <c>d</c></a>"
    [unit] = read_document(written("b.xml", entity)).units
    assert unit.source == '<x i="0"/> <g i="1">d</g>'


@pytest.mark.parametrize(
    ("inside", "sources"),
    [
        ("<b translate='no'>a <c>b</c></b>", []),
        ("It&apos;s &quot;a&quot; &lt;", ['It\'s "a" <']),
        ("12 <b>a</b> 3", ["a"]),
        ("a <b>b</b>", ['a <g i="0">b</g>']),
        ("<![CDATA[a]]><![CDATA[b]]>", ['<x i="0"/><x i="1"/>']),
        ("<![CDATA[a]]> b", ['<x i="0"/> b']),
        (" \n a \t", ["a"]),
        ("a&#9;b", ["a&#9;b"]),
        ("a\n b", ["a b"]),
    ],
)
def test_which_texts_of_xml_are_units(written, inside, sources):
    document = read_document(written("a.xml", f"<r>{inside}</r>"))
    assert [unit.source for unit in document.units] == sources


def test_text_that_xml_has_signs_for_is_escaped(written):
    document = read_document(written("a.xml", "<r><a>x</a><b><![CDATA[y]]></b></r>"))
    for unit in document.units:
        unit.set("< & ]]>")
    root = etree.fromstring(document.content())
    assert [element.text for element in root] == ["< & ]]>"] * 2


def test_an_encoding_without_the_characters_gets_references(written):
    content = '<?xml version="1.0" encoding="iso-8859-1"?><a>\xe9</a>'.encode("latin-1")
    for text in (content, content.replace(b"\xe9", b"<![CDATA[\xe9]]>")):
        document = read_document(written("a.xml", text))
        document.units[0].set("č <")
        assert document.content() == content.replace(b"\xe9", b"&#269; &lt;")
    utf16 = '<?xml version="1.0" encoding="utf-16"?><a>e</a>'.encode("utf-16")
    document = read_document(written("b.xml", utf16))
    document.units[0].set("č")
    assert document.content() == utf16.decode("utf-16").replace(">e<", ">č<").encode("utf-16")
