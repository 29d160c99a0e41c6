"""The page with the server itself, and the model in the repository."""

import dataclasses
import json
import urllib.request

import polib
import pytest
from refusals import refused
from upper_case import Source

from t2t_keras.decoding.lines import encode_text
from t2t_keras.decoding.translator import Translator
from t2t_keras.text.sentences import sentence_splitter
from t2t_keras.workbench.server.page_api import PREFIX_TOO_LONG, OtherWords

CATALOGUE = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
CATALOGUE += 'msgid "the red house"\nmsgstr ""\n\nmsgid "a tree"\nmsgstr "ein Baum"\n'


@pytest.fixture(scope="module")
def translator(root):
    """The model in the repository."""
    pytest.importorskip("ctranslate2")
    folder = root / "examples" / "models" / "en-de"
    return Translator.from_run(folder, None, "return_beams=true", engine="ctranslate2")


@pytest.fixture
def real(serving, translator):
    return serving([Source(translator=translator)])


def post(real, path, **body):
    headers = {"Content-Type": "application/json"}
    content = json.dumps({"source": "en", "target": "de"} | body).encode()
    request = urllib.request.Request(real.url + path, content, headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def rounded(words):
    return [{**word, "confidence": pytest.approx(word["confidence"], abs=1e-3)} for word in words]


def test_of_an_alternative_is_known_what_is_known_of_a_translation(real):
    line = "the small dog sleeps"
    [best] = post(real, "/page/translate", q=line)["lines"]
    for place in (1, 2):
        prefix = " ".join(best["text"].split()[:place])
        alternatives = post(real, "/page/alternatives", q=line, prefix=prefix)["alternatives"]
        assert len({alternative["word"] for alternative in alternatives}) == len(alternatives) > 1
        sure = [alternative["words"][place]["confidence"] for alternative in alternatives]
        assert sure == sorted(sure, reverse=True), "the likeliest first"
        for alternative in alternatives:
            assert [word["text"] for word in alternative["words"]] == alternative["text"].split()
            assert alternative["words"][place]["text"] == alternative["word"]
            assert alternative["words"][:place] == rounded(best["words"][:place])
        [again] = [
            alternative for alternative in alternatives if alternative["text"] == best["text"]
        ]
        assert again["words"] == rounded(best["words"])
        assert again["alignment"] == best["alignment"]


def test_the_beginning_is_divided_as_its_own_language_is(translator, monkeypatch):
    asked = []
    actual = lambda *arguments: asked.append(arguments[1:]) or []  # noqa: E731
    monkeypatch.setattr("t2t_keras.workbench.server.page_api.continuations", actual)
    source, target = map(sentence_splitter, ("en", "de"))
    OtherWords("bzw. Haus", 3, source, target)(translator, ["A big dog sleeps. A man."])
    assert asked == [("A big dog sleeps.", "bzw. Haus", 3)]


def test_the_longest_beginning(translator):
    [source] = encode_text(["A dog sleeps"], translator.tokenizer.source)
    most = translator.config.max_output_length(len(source))
    work = OtherWords(" ".join(["a"] * (most - 1)), 3)  # And the end of the sentence.
    assert work(translator, ["A dog sleeps"])
    with refused(PREFIX_TOO_LONG):
        dataclasses.replace(work, prefix=f"{work.prefix} a")(translator, ["A dog sleeps"])


def test_the_other_sentences_of_a_line_stay_as_they_are(real):
    lines = post(real, "/page/translate", q="The dog sleeps.\nA man sees the red house.")["lines"]
    line = " ".join(line["source"] for line in lines)
    alternatives = post(real, "/page/alternatives", q=line, prefix="")["alternatives"]
    sources = len(lines[0]["source_words"])
    assert len(alternatives) > 1
    for alternative in alternatives:
        targets = len(alternative["words"]) - len(lines[1]["words"])
        assert alternative["words"][targets:] == rounded(lines[1]["words"])
        behind = [pair for pair in alternative["alignment"] if pair[1] >= targets]
        expected = [[sources + one, targets + other] for one, other in lines[1]["alignment"]]
        assert behind == expected
    # Terms are for all sentences.
    asked = {"q": lines[1]["source"], "glossary": [["man", "tree"]]}
    [rest] = post(real, "/page/translate", **asked)["lines"]
    assert rest["text"] != lines[1]["text"]
    actual = post(real, "/page/alternatives", **asked | {"q": line}, prefix="")["alternatives"]
    assert all(translation["text"].endswith(rest["text"]) for translation in actual)
    # In a later sentence too, the likeliest comes first.
    continuations = post(real, "/page/alternatives", q=line, prefix="Dog. Man")["alternatives"]
    sure = [continuation["words"][2]["confidence"] for continuation in continuations]
    assert sure == sorted(sure, reverse=True)
    assert len(set(sure)) > 1


def test_text_terms_alternatives_and_a_catalogue(real, open_real, tmp_path, wait):
    with open_real(real.url + "/") as open_page:
        page = open_page()
        page.until_ready()
        page.write("the small dog sleeps\n\nthe man")
        wait(lambda: len(page.all("#target > div:not(.stale) > .word")) >= 2)
        lines = post(real, "/page/translate", q="the small dog sleeps\n\nthe man")["lines"]
        wait(lambda: page.translation == [line["text"] for line in lines])
        page.all("#target .word")[0].click()
        wait(lambda: page.all("#menu [role=menuitem]"))
        word = page.one("#menu b").inner_text()
        page.one("#menu [role=menuitem]").click()
        assert page.translation[0].split()[0] == word != lines[0]["text"].split()[0]
        assert page.run("return document.activeElement.ariaDescription")
        (tmp_path / "50 % für uns.po").write_text(CATALOGUE, "utf-8")
        page.one("#file").set_input_files(str(tmp_path / "50 % für uns.po"))
        wait(lambda: page.all("#files a, #files .bad"))
        assert page.text("#files a") == "Download 50 % für uns.de.po"
        with urllib.request.urlopen(
            page.run("return document.querySelector('#files a').href")
        ) as response:
            catalogue = polib.pofile(response.read().decode())
        [house] = post(real, "/page/translate", q="the red house")["lines"]
        translated = {entry.msgid: entry.msgstr for entry in catalogue}
        assert translated == {"the red house": house["text"], "a tree": "ein Baum"}
