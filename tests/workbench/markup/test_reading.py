"""What is read is written again, byte for byte; what is translated is what a reader reads."""

import numpy as np
import pytest
from refusals import refused

from t2t_keras.text.sentences import sentences
from t2t_keras.workbench.markup import read_fragment
from t2t_keras.workbench.markup.reading import MAX_CHARACTERS
from t2t_keras.workbench.markup.segments import divide, join_markup
from t2t_keras.workbench.markup.tokens import NO_TAGS, read_characters, write_characters
from t2t_keras.workbench.markup.translated import TranslatedSentence


def segments(markup, form="html", **options):
    return [segment.text for segment in read_fragment(markup, form, **options).segments]


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<p>Two <b>red</b>\n dogs.<br>One &amp; all<li>x</p>", "Two red dogs.|One & all|x"),
        ("<pre>a  b\n c d</pre><pre><b>e</b> f", ""),
        ("<pre class='t2t-lines'>a  b\n c d</pre>", "a|b|c d"),
        ("<td>x</td><script>if (a<b) c</script><style>p {}</style>y", "x|y"),
        ("<div translate=no>a<p>b</p></div>c <i class='x notranslate'>d e</i>", "c d e"),
        ("<p translate='no'>a<p>b", "b"),
        ("<b> a</b> c", "a c"),
        ("<title>a <b></title>1 2 <b>3</b>!", "a <b>"),
        ("a <code>x</code> <code>one two three four five six</code> b", "a x b"),
        ("a <code>one two three four five</code> b", "a one two three four five b"),
        (f"a <code>{'x' * 60}</code> b", f"a {'x' * 60} b"),
        (f"a <code>{'x' * 61}</code> b", "a b"),
        ("<div TRANSLATE=NO>a</div><div translate=nob>b</div><div translate=yes>c</div>", "b|c"),
        ("<div class='notranslate'>a</div><div class='notranslated'>b</div>", "b"),
        ("&Ccedillax &notit; &frac12x &copx;", "Çlax ¬it; ½x &copx;"),
        ("&eacute;&#233; &copy; AT&T &unknown; x", "éé © AT&T &unknown; x"),
        ("<textarea>b</textarea><math><mi>c</mi></math>", ""),
        ("<button>unclosed <i>c <p>d</i></button>", "unclosed c|d"),
        ("<a>Home</a><a>News</a> <select><option>One<option>Two</select>", "Home News|One|Two"),
        ("m<sup>2</sup>, x<sup><i>n</i></sup> <sup>1</sup>H<sub>2</sub>O", "m, x 1H2O"),
        ("m<sup><i>2</i><i></i><!----></sup>, n<sup><i>2</i><i></i><!----><!----></sup>", "m, n2"),
        ("<b>&nbsp;One</b> two", "One two"),
        ("m<sup>2<br></sup> x", "m2|x"),
        ("one <?x y?>two<!x>three", "one|two|three"),
        ("i<b>Phone</b> <b>w</b><a>ord</a>", "iPhone w ord"),
        ("1<sup>st</sup> <sup>2</sup> re<!-- -->wo&shy;rd a<wbr>b", "1st 2 reword ab"),
    ],
)
def test_text_of_html(markup, expected):
    assert "|".join(segments(markup)) == expected


@pytest.mark.parametrize(
    ("element", "end"),
    [
        *(("p", tag) for tag in ("p", "div", "ul", "h2", "hr", "table")),
        *(("dt", "dt"), ("dt", "dd"), ("dd", "dt"), ("dd", "dd"), ("li", "li")),
        *(("td", tag) for tag in ("td", "th", "tr", "tbody", "tfoot")),
        *(("th", tag) for tag in ("td", "th", "tr", "tbody", "tfoot")),
        *(("tr", tag) for tag in ("tr", "tbody", "tfoot")),
        *(("option", "option"), ("option", "optgroup")),
    ],
)
def test_elements_end_without_a_tag_where_html_ends_them(element, end):
    assert segments(f"<{element} translate='no'>a<{end}>b") == ["b"]


def test_blocks_of_html_divide_its_text():
    names = "address article aside blockquote body br button caption dd details dialog div dl dt "
    names += (
        "fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr label legend "
    )
    names += "li main menu nav ol optgroup option p search section select summary table tbody td "
    names += "tfoot th thead tr ul"
    for name in names.split():
        assert segments(f"one<{name}>two") == ["one", "two"], name
    for (
        name
    ) in "a abbr b bdi cite data dfn em i img input ins mark q s small span strong u".split():
        assert len(segments(f"one<{name}>two")) == 1, name


def test_text_is_nfc_and_written_as_it_was():
    markup = "<p title='e\u0301'>A cafe\u0301, <b>nai\u0308ve</b> \u2126</p>"
    fragment = read_fragment(markup, "html")
    [segment] = fragment.segments
    assert segment.text == "A caf\u00e9, na\u00efve \u03a9"
    assert write_characters(segment.text, segment.spellings) == "A cafe\u0301, nai\u0308ve \u2126"


def test_text_of_xml():
    markup = "<?xml version='1.0'?><a><p>one <b/>two</p> <ph>x y</ph> <k>z</k><![CDATA[c]]> &e;</a>"
    assert segments(markup, "xml") == ["one two x y z &e;"]
    assert segments(markup, "xml", blocks=["p"], keep=["k"]) == ["one two"]
    assert segments("a<P/>b <K>c</K>", "xml", blocks=["p"], keep=["k"]) == ["ab c"]
    long = "<k>c d e f g h</k>"
    assert segments(f"a<P>b {long}", blocks=["p"], keep=["K"]) == ["a", "b"]
    lines = "<a xml:space='preserve'>one <b xml:space='preserve'>two</b> three\nfour</a> five\nsix"
    assert segments(lines, "xml") == ["one two three", "four five six"]


@pytest.mark.parametrize(
    "markup",
    [
        "a<br/>b",
        "a <br/> b<x i='1' ctype='lb'/>c",
        "one.<br/>two. <br/>Three.",
        "<i><b>One. </b></i>Two.",
        "<a>x</a><a>y</a>",
        "a &#160; b&#160;c &#160;d",
        "One! See fig. 3 of 1.5. Dr. A. at https://example.com/a.html. me@example.org",
        "garden of m<sup>2</sup>, H<sub>2</sub>O",
        "CO<sub>2</sub>-free SO<sub>4</sub><sup>2-</sup> <i>x</i><sup>2</sup>, %d<sub>1</sub>x",
        "\u9762\u79ef\u662f20m<sup>2</sup>\u7684\u623f\u95f4<sup>1</sup>\u5f88\u5927",
    ],
)
def test_a_sentence_translated_by_itself_comes_back(markup):
    fragment = read_fragment(markup, "xml")
    assert fragment.write([_by_itself(segment) for segment in fragment.segments]) == markup


def _by_itself(segment):
    divided = divide(segment, lambda text: sentences(text, "en"))
    texts = []
    for sentence in divided:
        same = TranslatedSentence(sentence, segment, sentence.text)
        texts.append(same.markup(np.eye(len(same.source_units))))
    return join_markup(divided, texts)


def test_an_outline_of_xml():
    # The example of DeepL's documentation.
    markup = (
        "<document>\n<meta><title>A document's title</title></meta>\n<content>\n"
        "<par>This is <i>the</i> first.</par> <b>So</b> <ph>x</ph><par>Last.</par></content>"
        "</document>"
    )
    actual = segments(markup, "xml", outline=True)
    assert actual == ["A document's title", "This is the first.", "So", "Last."]
    assert segments(markup, "xml", outline=True, inline=["title", "par"]) == [
        "A document's title This is the first.",
        "So",
        "xLast.",
    ]
    assert segments("Press <b>this</b> <i>now</i>", "xml", outline=True) == ["Press this now"]
    fragment = read_fragment(markup, "xml", outline=True)
    assert fragment.write([segment.text for segment in fragment.segments]).count("<par>") == 2


def test_fragments_without_letters_stay():
    markup = "<p>1,234 <b>&nbsp;</b></p> <!-- a -->"
    fragment = read_fragment(markup, "html")
    assert fragment.segments == []
    assert fragment.write([]) == markup


def test_characters_are_spelled_as_they_were():
    spellings = {}
    raw = "&#233;a &lt; b > c & d &quot;&amp;&quot;"
    text = "".join(character.text for character in read_characters(raw, True, spellings))
    assert text == 'éa < b > c & d "&"'
    assert write_characters(text, spellings) == raw.replace("&amp;", "&")
    assert write_characters("&a &copy &#1 <b <", spellings) == "&a &amp;copy &amp;#1 &lt;b &lt;"
    assert write_characters("]]>", {">": ">"}) == "]]&gt;"
    # What follows may make markup of the last sign.
    assert write_characters("a <", {"<": "<"}, "b") == "a &lt;"
    assert write_characters("R&", {"&": "&"}, "lt;") == "R&amp;"
    assert write_characters("R&", {"&": "&"}, " D") == "R&"
    assert write_characters("a\1\2", {"\1": "\1"}) == "a\1\ufffd"
    assert write_characters("a<b &c", {}) == "a&lt;b &amp;c"
    assert write_characters("<b </Title", {NO_TAGS: "", "<": "<"}) == "<b &lt;/Title"
    spellings = {}
    read_characters("&copy 1", True, spellings)
    assert write_characters("\u00a91", spellings) == "&copy;1"
    markup = "a &#38; <ruby>b<rt>c &lt; &amp; d</rt></ruby> e"
    spellings = [segment.spellings for segment in read_fragment(markup, "html").segments]
    assert spellings == [{"&": "&#38;"}, {"<": "&lt;", "&": "&amp;"}]


def test_sentences_have_their_marks():
    [segment] = read_fragment("One <b>two. Three</b> <i>four.</i> <u>Five</u>", "html").segments
    sentences = divide(segment, lambda text: ["One two.", "Three four.", "Five"])
    shown = [
        (sentence.text, "".join(mark.raw for mark in sentence.marks)) for sentence in sentences
    ]
    assert shown == [("One two.", "<b>"), ("Three four.", "</b><i></i>"), ("Five", "<u></u>")]
    [segment] = read_fragment("see <code>a. b</code> c", "html").segments
    assert [
        translation.text for translation in divide(segment, lambda text: ["see a.", "b c"])
    ] == ["see a. b c"]


def test_what_is_refused():
    with refused("bad_value", "text, html or xml", "'sgml'"):
        read_fragment("", "sgml")
    assert segments("x" * MAX_CHARACTERS) == ["x" * MAX_CHARACTERS]
    with refused("too_long", " 4,000,000 ", " 4,000,001."):
        read_fragment("x" * (MAX_CHARACTERS + 1), "html")
    with refused("malformed_xml", " 2: ", "</a>"):
        read_fragment("<a>\n<b></a>", "xml")
