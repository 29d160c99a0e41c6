"""The editor of terms, files that are dropped or chosen, and the page with the server itself."""

import dataclasses
import json
import urllib.request
from pathlib import Path

import polib
import pytest
from refusals import refused
from upper_case import Source

from t2t_keras.decoding.lines import encode_text
from t2t_keras.decoding.translator import Translator
from t2t_keras.text.sentences import sentence_splitter
from t2t_keras.workbench.server.page_api import PREFIX_TOO_LONG, OtherWords

CATALOGUE = b'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "red book"\nmsgstr ""\n'
TWO_ENTRIES = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
TWO_ENTRIES += 'msgid "the red house"\nmsgstr ""\n\nmsgid "a tree"\nmsgstr "ein Baum"\n'


def cells(page):
    return [cell.input_value() for cell in page.all("#terms input")]


def write_term(page, row, *values):
    for column, value in enumerate(values, 1):
        cell = page.one(f"#terms tr:nth-child({row}) td:nth-child({column}) input")
        cell.fill(value)


@pytest.fixture
def page(open_page):
    page = open_page()
    page.one("#glossary summary").click()
    return page


@pytest.fixture
def downloads(page):
    """downloads(click): the name and the content of the file that it gives."""

    def downloads(click):
        with page.tab.expect_download() as download:
            click()
        return download.value.suggested_filename, Path(download.value.path()).read_bytes()

    return downloads


def test_terms_are_written_used_and_remembered(page, server, wait):
    assert page.text("#glossary-count") == "0 terms"
    page.type("the house", "Haus das")
    write_term(page, 1, "house", "Bau", "as the client says")
    languages = [cell.get_attribute("lang") for cell in page.all("#terms tr:first-child input")]
    assert languages == ["en", "de", ""]
    page.translated("Bau das")
    assert server.asked("/page/translate")[-1]["glossary"] == [["house", "Bau"]]
    assert page.text("#glossary-count") == "1 term"
    assert cells(page) == ["house", "Bau", "as the client says", "", "", ""], "a row to go on with"
    page.word("Bau").click()
    wait(lambda: server.asked("/page/alternatives"))
    assert server.asked("/page/alternatives")[-1]["glossary"] == [["house", "Bau"]]
    page.reload()
    assert cells(page) == ["house", "Bau", "as the client says", "", "", ""]
    page.one("#swap").click()
    assert cells(page) == ["", "", ""], "other languages have other terms"


def test_a_term_is_removed(page, server):
    page.type("the house", "Haus das")
    write_term(page, 1, "house", "Bau")
    page.translated("Bau das")
    page.one("[aria-label='Remove the term']").click()
    page.translated("Haus das")
    assert cells(page) == ["", "", ""]
    assert page.focused_name == "Term"
    page.run("Storage.prototype.setItem = () => { throw new Error('full'); }")
    write_term(page, 1, "house", "Bau")
    note = "Cannot save in this browser. Export the glossary to keep it."
    assert page.text("#imported[role=status]") == note
    page.translated("Bau das")


def test_rows_that_are_not_used_are_named(page, server):
    assert not page.one("#export").is_enabled()
    rows = [("red ", " rot"), ("book ", ""), (" Red ", "blau"), ("US", "USA"), ("us", "uns")]
    for row, values in enumerate([*rows, ("", "leer")], 1):
        write_term(page, row, *values)
    assert page.text("#glossary-note") == (
        "From English into German, saved in this browser. "
        "Not used, as one side is empty: “book” “leer”. "
        "Duplicates (only the first is used): “Red”."
    )
    invalid = page.all("#terms [aria-invalid=true]")
    assert [
        (element.get_attribute("aria-label"), element.input_value()) for element in invalid
    ] == [
        ("Translation", ""),
        ("Term", " Red "),
        ("Term", ""),
    ]
    page.type("red us", "uns rot")
    used = [["red", "rot"], ["US", "USA"], ["us", "uns"]]
    assert server.asked("/page/translate")[-1]["glossary"] == used


def test_terms_are_imported_and_exported(page, tmp_path, wait, downloads):
    for row, values in enumerate([("house", "Heim"), ("", "leer"), ("House", "Hof")], 1):
        write_term(page, row, *values)
    bad = "\r\n".join(["red", "", "\tblue", " \tb", "c\t", "d", "e\t "])
    content = f"\ufeffhouse\tBau\tas\u2028said\r\n{bad}\r\nbook\tBuch\u00a05\r\nBook\tHeft"
    (tmp_path / "terms.tsv").write_bytes(content.encode())
    with page.tab.expect_file_chooser() as chooser:
        page.one("#import").click()
    chooser.value.set_files(str(tmp_path / "terms.tsv"))
    left_out = "6 lines left out, as they lack a term or its translation: 2, 4, 5, 6, 7 and more."
    wait(lambda: page.text("#imported") == f"3 terms imported. {left_out}")
    assert cells(page) == [
        *("house", "Bau", "as\u2028said", "", "leer", "", "House", "Hof", ""),
        *("book", "Buch\u00a05", "", "Book", "Heft", "", "", "", ""),
    ], "the first of those with the same words is replaced, and the others stay"
    name, exported = downloads(page.one("#export").click)
    text = "house\tBau\tas said\n\tleer\nHouse\tHof\nbook\tBuch\u00a05\nBook\tHeft\n"
    assert (name, exported.decode()) == ("en-de.tsv", text)
    page.one("#swap").click()
    assert page.text("#imported") == ""


def test_a_glossary_in_another_encoding_changes_nothing(page, tmp_path, wait):
    (tmp_path / "terms.tsv").write_bytes("book\tBücher\n".encode("latin-1"))
    page.one("#import-file").set_input_files(str(tmp_path / "terms.tsv"))
    wait(lambda: "not UTF-8 text: nothing was imported" in page.text("#imported"))
    assert cells(page) == ["", "", ""]


def test_a_chosen_file_is_translated_and_given_back(page, server, tmp_path, wait, downloads):
    (tmp_path / "messages.po").write_bytes(CATALOGUE)
    assert page.one("#file").get_attribute("accept") == ".txt,.po,.html"
    assert page.text("#formats") == "Formats: .txt, .po, .html"
    with page.tab.expect_file_chooser() as chooser:
        page.one("#choose").click()
    assert chooser.value.is_multiple()
    chooser.value.set_files(str(tmp_path / "messages.po"))
    wait(lambda: page.all("#files a"))
    expected = {"file": ("messages.po", CATALOGUE), "source": "en", "target": "de"}
    assert server.asked("/translate_file") == [expected]
    assert page.run("return document.querySelector('#files a').href").startswith(server.address)
    assert downloads(page.one("#files a").click) == ("messages.de.po", CATALOGUE.upper())
    page.one("[aria-label='Remove messages.po']").click()
    assert (page.all("#files li"), page.focused_name) == ([], "Choose files")


def test_files_are_dropped_anywhere(page, server, wait):
    drag = """
        const data = new DataTransfer();
        for (const name of arguments[1])
            data.items.add(new File(name === "empty.po" ? [] : ["red book"], name));
        const event = { dataTransfer: data, bubbles: true, cancelable: true };
        const dropped = new DragEvent(arguments[0], event);
        document.querySelector("h1").dispatchEvent(dropped);
        return dropped.defaultPrevented;"""
    # However long one takes, it is waited for.
    page.run("AbortSignal.timeout = () => AbortSignal.abort(new DOMException('', 'TimeoutError'))")
    for kind, is_shown in (("enter", 1), ("enter", 1), ("leave", 1), ("leave", 0), ("enter", 1)):
        page.run(drag, f"drag{kind}", ["one.TXT"])
        assert page.is_shown("#drop") == is_shown
    assert page.run(drag, "dragover", ["one.TXT"])
    assert not page.run(drag, "dragover", []), "what is no file is the browser's"
    assert not page.run(drag, "drop", [])
    held, names = [], ["one.TXT", "two.exe", "empty.po", "gone.txt", "three.html"]
    page.tab.route("**/translate_file", lambda route: held.append(route))
    assert page.run(drag, "drop", names), "the browser does not open it"
    assert not page.is_shown("#drop")
    wait(lambda: page.all("#files li") and held)
    assert page.texts("#files .note") == ["Translating …", *["Waiting …"] * 4], "one after another"
    page.one("#files li:nth-child(4) button").click()
    held[0].continue_()
    wait(lambda: page.all("#files a") and held[1:])
    held[1].continue_()
    wait(lambda: len(page.all("#files a")) == 2)
    sent = [body["file"][0] for body in server.asked("/translate_file")]
    assert sent == ["one.TXT", "three.html"]
    unknown, empty = page.texts("#files .bad")
    assert "expected .txt, .po, .html" in unknown
    assert empty == "The file is empty."


def test_a_file_that_fails_says_why(page, server, tmp_path, wait):
    server.refusals["/translate_file"] = (400, {"error": "messages.po:3: no msgid"}, {})
    page.one("#source-language").select_option("auto")
    page.run("document.getElementById('key').value = 'secret'")
    (tmp_path / "messages.po").write_bytes(CATALOGUE)
    page.one("#file").set_input_files(str(tmp_path / "messages.po"))
    wait(lambda: page.all("#files .bad"))
    assert page.text("#files .bad") == "messages.po:3: no msgid."
    [sent] = server.asked("/translate_file")
    assert (sent["source"], sent["target"], sent["api_key"]) == ("auto", "de", "secret")
    page.tab.route("**/translate_file", lambda route: route.abort())
    page.one("#file").set_input_files(str(tmp_path / "messages.po"))
    wait(lambda: len(page.all("#files .bad")) == 2)
    assert page.texts("#files .bad")[1] == "The server cannot be reached."
    page.forgive_refusals()


def test_a_server_without_files_shows_none(open_page, server):
    server.settings["filesTranslation"] = False
    assert not open_page().is_shown("#files-section")


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
        (tmp_path / "50 % für uns.po").write_text(TWO_ENTRIES, "utf-8")
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
