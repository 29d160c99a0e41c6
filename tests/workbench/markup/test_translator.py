"""HTML and XML come back with all their tags around the text's translation."""

import collections
import html
import random
import re
import xml.parsers.expat

import numpy as np
import pytest
from refusals import refused

from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translator import Translator
from t2t_keras.serving.formats import write_format
from t2t_keras.workbench.markup.tokens import TEXT, html_tokens, match_html, xml_tokens
from t2t_keras.workbench.markup.translator import translate_markup
from t2t_keras.workbench.terms.glossary import Glossary
from t2t_keras.workbench.terms.stage import with_terms

WORDS = "the small dog sees a man in house , red tree".split()
TAGS = [("b", ""), ("i", ' x="a>b"'), ("a", "\n href='q &amp; r'"), ("u", ' id = "1"')]
SETTINGS = dict(beam_size=2, extra_length=4, max_input_length=60)


@pytest.fixture(scope="module")
def translators(tokenizer, model, tmp_path_factory):
    """By engine, with the same model."""
    problem = make_problem("translate_ende_toy")
    ours = Translator(model, tokenizer, DecodeConfig(**SETTINGS), problem=problem)
    folder = write_format("ctranslate2", ours, tmp_path_factory.mktemp("export") / "1", "float32")
    other = Translator.from_run(folder, None, SETTINGS, engine="ctranslate2")
    several = Translator.from_run(
        folder, None, SETTINGS | dict(return_beams=True), engine="ctranslate2"
    )
    return {"keras": ours, "ctranslate2": other, "several": several}


def nested(draw, depth=0):
    """A fragment with tags around some of its words."""
    parts = []
    for _ in range(draw.randint(1, 4)):
        kind = draw.random()
        if kind < 0.5 or depth > 3:
            parts.append(" ".join(draw.choices(WORDS, k=draw.randint(1, 3))))
        elif kind < 0.9:
            name, attributes = draw.choice(TAGS)
            parts.append(f"<{name}{attributes}>{nested(draw, depth + 1)}</{name}>")
        else:
            parts.append(draw.choice(["<img src='a'/>", "<!-- <b> -->", "<i></i>", "<u> </u>"]))
    return draw.choice([" ", " ", "\n "]).join(parts)


def tags(text, read=html_tokens):
    return collections.Counter(token.raw for token in read(text) if token.kind != TEXT)


def text_of(markup):
    return " ".join(
        re.sub(r"<!--.*?-->|</?\w+(?:\"[^\"]*\"|'[^']*'|[^'\">])*>", "", markup).split()
    )


def spaceless(text):
    return re.sub(r"\s", "", html.unescape(text))


@pytest.mark.parametrize("engine", ["keras", "ctranslate2"])
def test_nested_fragments(translators, engine):
    translator, draw = translators[engine], random.Random(5)
    fragments = [nested(draw) for _ in range(40)]
    translations = translate_markup(translator, fragments, "html")
    plain = translator.translate([text_of(fragment) for fragment in fragments])
    for fragment, translation, alone in zip(fragments, translations, plain, strict=True):
        assert tags(translation.text) == tags(fragment)
        tokens = list(html_tokens(translation.text))
        partners, _ = match_html(tokens)
        unmatched = {t.name for t, p in zip(tokens, partners, strict=True) if p is None}
        assert unmatched <= {"", "img", "!--"}, "well nested"
        assert spaceless(text_of(translation.text)) == spaceless(alone.text)
        assert translation.score == pytest.approx(alone.score, abs=1e-4)
        assert (translation.notes, translation.rank) == ({}, 0)
    assert translate_markup(translator, fragments, "xml")[0].text == translations[0].text
    assert translate_markup(translator, [], "html") == []


def test_what_is_no_text_stays(translators):
    source = (
        "<?xml version='1.0'?>\n<!DOCTYPE a [<!ENTITY e 'x'>]><a k='&e;'>the <b/>dog &e; sees"
        "<![CDATA[ <x> ]]> <ph>{</ph> &lt; a man<!-- c --></a>\n"
    )
    [translation] = translate_markup(translators["ctranslate2"], [source], "xml")
    assert tags(translation.text, xml_tokens) == tags(source, xml_tokens)
    assert translation.text.count("&e;") == 2
    xml.parsers.expat.ParserCreate().Parse(translation.text.encode(), True)
    page = "<p>the dog<script>if (a<b) x</script> <pre>\n  a  man\n\tdog</pre> &nbsp; <i>12</i>"
    [actual] = translate_markup(translators["ctranslate2"], [page], "html")
    assert re.sub("[a-z]+", "", re.sub("<.*?>", "", actual.text)).count("\n") == 2
    assert tags(actual.text) == tags(page)
    assert actual.text.count("&nbsp;") == 1


def test_kept_elements_are_repaired_and_counted(translators):
    source = "a man <code>x --y</code> the dog <span translate='no'>Foo</span>, %s"
    [translation] = translate_markup(translators["ctranslate2"], [source], "html")
    assert (translation.notes, len(translation.hypotheses)) == ({"placeholders": 3}, 1)
    for piece in ("<code>x --y</code>", "<span translate='no'>Foo</span>", "%s"):
        assert translation.text.count(piece) == 1
    assert text_of(translation.text).count("Foo") == 1


def test_sentences_are_translated_one_by_one(translators):
    translator = translators["ctranslate2"]
    sentences = ["the dog sees.", "a man."]
    alone = " ".join(translation.text for translation in translator.translate(sentences))
    [translation] = translate_markup(translator, ["<b>the dog</b> sees. <i>a man.</i>"], "html")
    assert spaceless(text_of(translation.text)) == spaceless(alone)


def test_all_hypotheses_have_the_tags(translators):
    source, glossary = "<b>the dog</b> sees <i>a man</i>", Glossary.of([("tree", "house")])
    [translation] = translate_markup(with_terms(translators["several"], glossary), [source], "html")
    assert (
        len(translation.hypotheses)
        == len({hypothesis.text for hypothesis in translation.hypotheses})
        == 2
    )
    assert all(
        tags(hypothesis.text) == tags("<b></b><i></i>") for hypothesis in translation.hypotheses
    )
    assert translation.text == translation.hypotheses[0].text


def test_a_glossary_holds_in_markup(translators):
    glossary = Glossary.of([("small dog", "red house")])
    source = "the <b>small</b> dog sees <i>a man</i>"
    translator = with_terms(translators["ctranslate2"], glossary)
    [translation] = translate_markup(translator, [source], "html")
    assert [use.kind for use in translation.notes["terms"]] == ["exact"]
    assert [hypothesis.text for hypothesis in translation.hypotheses] == [translation.text]
    assert "red house" in text_of(translation.text)
    assert tags(translation.text) == tags(source)


def test_blocks_and_kept_names_of_the_caller(translators):
    source = "<a>the dog</a><k>a man</k> sees"
    [translation] = translate_markup(
        translators["ctranslate2"], [source], "xml", blocks=["a"], keep=["k"]
    )
    alone = translators["ctranslate2"].translate(["the dog"])[0].text
    assert f"<a>{alone}</a>" in translation.text
    assert "<k>a man</k>" in translation.text
    with refused("malformed_xml"):
        translate_markup(translators["ctranslate2"], ["<a>"], "xml")
    with refused("bad_value", "html", "xml", "'markdown'"):
        translate_markup(translators["ctranslate2"], ["a"], "markdown")


def test_a_page_is_translated_in_bounded_pieces(tokenizer, translators):
    few, engine = DecodeConfig(**SETTINGS, lines_at_once=2), translators["ctranslate2"].engine
    texts = ["<p>the dog<p>a man<p>a tree", "<b>a man</b>", "", "the house"]
    translations = translate_markup(Translator(engine, tokenizer, few), texts, "html")
    expected = translate_markup(translators["ctranslate2"], texts, "html")
    assert [translation.text for translation in translations] == [
        translation.text for translation in expected
    ]
    assert np.allclose([e.score for e in translations], [e.score for e in expected], atol=1e-5)
