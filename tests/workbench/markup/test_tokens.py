"""Tokens put together are the text; what is malformed XML is what expat finds malformed."""

import random
import xml.parsers.expat

import pytest
from refusals import refused

from t2t_keras.errors import UserError
from t2t_keras.workbench.markup.tokens import check_xml, html_tokens, match_html, xml_tokens

PIECES = (
    "<b> </b> <i\n a='x>y'> </i> <br> <br/> <img\tsrc=\"a'b\"> text &amp; & &nbsp; "
    "<!--\nc\n--> <!-- --> \n<![CDATA[x<y]]> <?php\nx?> </> <p> ' \" , > <script> </script> "
    "<title> é <a\nhref=x = "
    "<u:v\nk='é'/> &#65; ]]> <a\nb='1'\nb='2'> </a\n> -- &#0; <1> <é> </é> <!--c---> <i\na='&x'/> <"
).split(" ")


def is_well_formed(text):
    parser = xml.parsers.expat.ParserCreate()
    parser.UseForeignDTD(True)
    parser.ExternalEntityRefHandler = lambda *names: 1
    try:
        parser.Parse(f"<r xmlns:u='u'>{text}</r>", True)
    except xml.parsers.expat.ExpatError:
        return False
    return True


@pytest.mark.parametrize("text", ["<a>\n\n<b\nc='&x'/>", "\n\n<a>\n&x</a>", "\n\n\n</1>"])
def test_a_fault_of_xml_is_named_with_its_line(text):
    with refused("malformed_xml", " 4:"):
        check_xml(text)


def test_xml_is_refused_where_expat_refuses_it():
    draw, accepted = random.Random(1), 0
    for _ in range(8000):
        text = "".join(draw.choices(PIECES, k=draw.randint(0, 7)))
        try:
            check_xml(text)
            assert "".join(token.raw for token in xml_tokens(text)) == text
            actual = True
        except UserError:
            actual = False
        assert actual == is_well_formed(text), text
        accepted += actual
    assert accepted > 500


def test_html_is_taken_apart_whatever_it_is():
    draw = random.Random(2)
    for _ in range(3000):
        text = "".join(draw.choices(PIECES, k=draw.randint(0, 9)))
        tokens = list(html_tokens(text))
        assert "".join(token.raw for token in tokens) == text
        partners, _ = match_html(tokens)
        pairs = [(i, other) for i, other in enumerate(partners) if other is not None and i < other]
        for i, other in pairs:
            assert tokens[i].name == tokens[other].name
            assert all((j > i) == (k < other) for j, k in pairs if i < j < other or i < k < other)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a < b <c d='>'>e</c>", "text open text close"),
        ("<script>if (a<b) '</b>'</script>x", "open other close text"),
        ("<title>a <b></title>", "open text close"),
        ("a <b c", "text other"),
        ("a <b c='>", "text other"),
        ("<!-- a --!> b<!--> c<!---> d<!-- - -- > e", "other text other text other text other"),
        ("<svg><![CDATA[>a]]><b><![CDATA[>c]]>", "open other open other text"),
        ("<!doctype html><!-- <b> --><br/></ x>", "other other empty other"),
        ("</svg><svg><![CDATA[>]]>", "close open other"),
        ("<a b= '>'><i>c<a d'>e", "open open text open text"),
        (
            "</svg><svg><br><title>a <i></title><math><![CDATA[>]]>",
            "close open empty open text close open other",
        ),
        *(
            (f"<{name}>a <i></{name.upper()}>", "open other close")
            for name in "script style textarea iframe noembed noframes xmp".split()
        ),
    ],
)
def test_html_is_read_by_its_standard(text, kinds):
    assert [token.kind for token in html_tokens(text)] == kinds.split()


@pytest.mark.parametrize(
    "piece", ["<", "<a", '<a "', '<a b="', "<!--", "</b>", "<b>", "<script>", "&", "<!", "<p></b>"]
)
def test_time_is_in_proportion_to_the_length(piece):
    tokens = list(html_tokens(piece * 50_000))
    match_html(tokens)
    assert sum(len(token.raw) for token in tokens) == 50_000 * len(piece)


def test_a_document_type_is_kept_and_not_used():
    bomb = '<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;"> <!-- ]> it\'s -->]>'
    text = f"{bomb}<a>&d;</a>"
    check_xml(text)
    first, *_ = xml_tokens(text)
    assert first.raw == bomb
    for text in (
        "\n<!DOCTYPE a [<!ENTITY b 'c>",
        "<!DOCTYPE a>\n<!DOCTYPE a><a/>",
        "<a/>\n<!DOCTYPE a>",
        "text\n<!DOCTYPE a><a/>",
    ):
        with refused("malformed_xml", " 2: ", "DOCTYPE"):
            check_xml(text)
