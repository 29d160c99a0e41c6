"""LibreTranslate's API, by its official client and by what its documentation shows."""

import json

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI
from refusals import refused
from starlette.testclient import TestClient
from upper_case import Source, UpperCase

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.workbench.server.app import make_app
from t2t_keras.workbench.server.service import Options
from t2t_keras.workbench.terms.glossary import Glossary

NO_MODEL = "Portuguese (pt) is not available as a target language from German (de)"


@pytest.fixture
def server(serving):
    pairs = [("en", "de"), ("de", "en"), ("en", "pt-BR"), ("en", "cs")]
    return serving([Source(*pair) for pair in pairs])


def test_the_official_client_translates_detects_and_lists(server):
    client = LibreTranslateAPI(server.url)
    assert client.translate("a man sleeps\n\n so & so", "en", "de") == "A MAN SLEEPS\n\n SO & SO"
    [best, other] = client.detect("Der Mann schläft im Haus, und die Katze auch.")
    assert (best["language"], other["language"]) == ("de", "en")
    assert best["confidence"] > 90
    assert client.languages() == [
        {"code": "cs", "name": "Czech", "targets": []},
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["cs", "de", "pt-BR"]},
        {"code": "pt-BR", "name": "Portuguese (Brazilian)", "targets": []},
    ]


@pytest.mark.parametrize("sent", ["json", "data"])
def test_one_text_and_several_with_alternatives_and_detection(server, sent):
    def translated(**parameters):
        return httpx.post(f"{server.url}/translate", **{sent: parameters}).json()

    asked = {"source": "en", "target": "de"}
    assert translated(q="one", **asked) == {"translatedText": "ONE"}
    response = translated(q=["one", "two", ""], alternatives=1, **asked)
    assert response == {
        "translatedText": ["ONE", "TWO", ""],
        "alternatives": [["ONE!"], ["TWO!"], []],
    }
    assert translated(q=["", ""], **asked) == {"translatedText": ["", ""]}
    actual = translated(q="the woman sees a house", source="auto", target="en")
    assert actual["translatedText"] == "the woman sees a house"
    assert translated(q="hi", source="auto", target="de")["translatedText"] == "HI"
    brazilian = translated(q="the woman sees a house", source="auto", target="pb")
    assert brazilian["translatedText"] == "THE WOMAN SEES A HOUSE"
    assert brazilian["detectedLanguage"]["language"] == "en"
    several = translated(q=["the woman", "sees a house"], source="auto", target="de")
    assert [detected["language"] for detected in several["detectedLanguage"]] == ["en", "en"]


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        ({"source": "en", "target": "de"}, 400, "missing q parameter"),
        ({"q": "", "source": "en", "target": "de"}, 400, "missing q parameter"),
        ({"q": "a", "target": "de"}, 400, "missing source parameter"),
        ({"q": "a", "source": "en"}, 400, "missing target parameter"),
        ({"q": 3, "source": "en", "target": "de"}, 400, "q is not text"),
        ({"q": [["a"]], "source": "en", "target": "de"}, 400, "q is not text"),
        ({"q": "\ud800", "source": "en", "target": "de"}, 400, "not valid Unicode"),
        ({"q": "a", "source": "xx", "target": "de"}, 400, "xx is not supported"),
        ({"q": "a", "source": "de", "target": "pt"}, 400, NO_MODEL),
        ({"q": "a", "source": "en", "target": "de", "format": "rtf"}, 400, "rtf format is not"),
        ({"q": "a", "source": "en", "target": "de", "alternatives": 3}, 400, "must be <= 2"),
        ({"q": "a", "source": "en", "target": "de", "alternatives": "x"}, 400, "not a number"),
        ({"q": "a", "source": "en", "target": "de", "alternatives": "--5"}, 400, "not a number"),
        ({"q": [], "source": "en", "target": "de"}, 400, "missing q parameter"),
        ({"q": "a" * 101, "source": "en", "target": "de"}, 413, "exceeds text limit"),
        ({"q": ["a"] * 5, "source": "en", "target": "de"}, 413, "exceeds text limit"),
        ({"q": "explode", "source": "en", "target": "de"}, 500, "Internal server error"),
    ],
)
def test_what_is_wrong_has_its_status_and_says_so(serving, sent, status, message):
    server = serving(
        [Source("en", "de"), Source("de", "en"), Source("en", "pt-BR")],
        max_characters=100,
        max_texts=4,
    )
    response = httpx.post(f"{server.url}/translate", content=json.dumps(sent))
    assert response.status_code == status
    assert message in response.json()["error"]
    # And it still answers.
    assert LibreTranslateAPI(server.url).translate("b", "en", "de") == "B"


def test_the_terms_of_the_server_are_for_requests_without_any(serving):
    terms = {("en", "de"): Glossary.of([("house", "Hütte")])}
    sources = [Source("en", "de"), Source("en", "fr"), Source("fr", "en")]
    server = serving([*sources, Source("de", "en")], glossaries=terms)
    client = LibreTranslateAPI(server.url)
    assert client.translate("the house", "en", "de") == "THE Hütte"
    assert client.translate("the house", "en", "fr") == "THE HOUSE"
    assert client.translate("the house", "de", "en") == "THE HOUSE"
    with_its_own = Options(glossary=Glossary.of([("the", "das")]))
    service = server.app.state.context.service
    [actual] = service.translate_now(("en", "de"), ["the house"], with_its_own)
    assert actual.text == "Das HOUSE"
    terms[None] = Glossary.of([("house", "hutte")])
    client = LibreTranslateAPI(serving(sources, glossaries=terms).url)
    assert client.translate("the house", "en", "fr") == "THE hutte"
    assert client.translate("the house", "en", "de") == "THE Hütte"
    with refused("given_twice", "--model=en-de=", "2"):
        serving([*sources, Source("en", "de")])
    with refused("unknown_name", "--glossary=de-en=", "en-de, en-fr, fr-en"):
        serving(sources, glossaries={("de", "en"): terms[None]})


@pytest.mark.parametrize(("alternatives", "status"), [(1, 200), (2, 400)])
def test_there_are_as_many_alternatives_as_every_model_gives(alternatives, status):
    few = UpperCase(DecodeConfig(beam_size=2, return_beams=True))
    client = TestClient(make_app([Source(), Source("de", "en", few)]))
    sent = {"q": "a", "source": "en", "target": "de", "alternatives": alternatives}
    assert client.post("/translate", json=sent).status_code == status


def test_suggestions_are_refused_as_by_servers_without_them(server):
    response = httpx.post(f"{server.url}/suggest", json={"q": "a", "s": "b"})
    assert response.status_code == 403
    assert response.json() == {"error": "Suggestions are disabled on this server."}


def test_a_text_without_letters_takes_any_source_with_a_model(serving):
    client = LibreTranslateAPI(serving([Source("en", "de"), Source("de", "fr")]).url)
    assert client.translate("12:30", "auto", "fr") == "12:30"


def test_html(server):
    asked = {"q": "a <b>dog</b>", "source": "en", "target": "de", "format": "html"}
    answer = httpx.post(f"{server.url}/translate", json=asked).json()
    assert answer == {"translatedText": "A <b>DOG</b>"}


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"[" * 100_000, b'"q"'])
def test_a_body_that_is_no_json_object_is_refused(server, body):
    response = httpx.post(f"{server.url}/translate", content=body)
    assert (response.status_code, list(response.json())) == (400, ["error"])


def test_a_form_that_cannot_be_read_is_refused(server):
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    for body in (
        b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--",
        b"--c",
        b"--b\r\n\xff",
    ):
        response = httpx.post(f"{server.url}/translate", content=body, headers=kind)
        assert (response.status_code, list(response.json())) == (400, ["error"])


def test_files_are_translated_and_fetched(server):
    sent = {"file": ("../../my text#50%20?.txt", b"A man sleeps.\nThe end.\n")}
    used = lambda: httpx.get(f"{server.url}/v2/usage").json()["character_count"]  # noqa: E731
    before = used()
    for source in ("en", "auto"):
        asked = {"source": source, "target": "de"}
        answer = httpx.post(f"{server.url}/translate_file", data=asked, files=sent).json()
        fetched = httpx.get(answer["translatedFileUrl"])
        assert fetched.content == b"A MAN SLEEPS.\nTHE END.\n"
        assert "my%20text%2350%2520%3F.de.txt" in fetched.headers["content-disposition"]
    assert used() - before == 2 * len("A man sleeps.\nThe end.")


@pytest.mark.parametrize("source", ["auto", "en", "en-GB"])
def test_a_file_in_the_target_language_comes_back_unchanged_and_free(server, source):
    content = b"\xef\xbb\xbfThe woman sees a house.\r\n \t\r\nThe end"
    used = lambda: httpx.get(f"{server.url}/v2/usage").json()["character_count"]  # noqa: E731
    before, sent = used(), {"file": ("a.txt", content)}
    asked = {"source": source, "target": "EN"}
    answer = httpx.post(f"{server.url}/translate_file", data=asked, files=sent).json()
    assert answer["translatedFileUrl"].endswith("/a.en.txt")
    assert httpx.get(answer["translatedFileUrl"]).content == content
    assert used() == before


def test_the_translation_of_a_template_is_none(server):
    sent = {"file": ("a.pot", b'msgid ""\nmsgstr ""\n\nmsgid "A man"\nmsgstr ""\n')}
    asked = {"source": "en", "target": "de"}
    answer = httpx.post(f"{server.url}/translate_file", data=asked, files=sent).json()
    assert answer["translatedFileUrl"].endswith("/a.de.po")


def test_files_that_cannot_be_translated_are_refused(server, monkeypatch):
    monkeypatch.setattr("t2t_keras.workbench.server.files._MAX_FILES", 1)  # None of them is kept.
    for name, content, message in (
        ("a.exe", b"x", "file format not supported"),
        ("a.po", b'nonsense "a', "a.po"),
        ("a.txt", b"\xff", "a.txt"),
    ):
        asked = {"source": "en", "target": "de"}
        sent = {"file": (name, content)}
        response = httpx.post(f"{server.url}/translate_file", data=asked, files=sent)
        assert (response.status_code, message in response.json()["error"]) == (400, True)
        assert "/tmp" not in response.text
    response = httpx.post(f"{server.url}/translate_file", data=asked)
    assert (response.status_code, "missing file" in response.json()["error"]) == (400, True)


def test_the_settings_of_a_frontend(server):
    answer = httpx.get(f"{server.url}/frontend/settings").json()
    assert answer["charLimit"] == 200_000
    assert (answer["filesTranslation"], answer["frontendTimeout"]) == (True, 500)
    formats = answer["supportedFilesFormat"]
    assert (".txt" in formats, formats) == (True, sorted(formats))
    assert answer["language"]["target"] == {"code": "de", "name": "German"}
