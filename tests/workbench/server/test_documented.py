"""What docs/serving.md promises of limits, units, headers and statuses, by requests in process."""

import logging
import re

import pytest
from upper_case import ASKED, DEEPL, Source, UpperCase, UpperCaseEngine

from t2t_keras.workbench.server import page


class Longer(UpperCaseEngine):
    """Writes translations that are longer than their sources."""

    def written(self, text):
        return f"{text.upper()} {text.upper()}"


def sent_to(client, path, texts):
    """The answer to texts, as a route takes them."""
    if path == "/v2/translate":
        return client.post(path, json={"text": texts} | DEEPL)
    if path == "/page/translate":
        return client.post(path, json={"q": "\n".join(texts)} | ASKED)
    if path in ("/translate", "/detect"):
        return client.post(path, json={"q": texts} | ASKED)
    file = {"file": ("a.txt", "\n".join(texts).encode())}
    return client.post(path, data=ASKED | DEEPL, files=file)


@pytest.mark.parametrize("path", ["/translate", "/v2/translate", "/detect"])
def test_the_most_texts_of_a_request(client_of, path):
    client = client_of(max_texts=3)
    status_codes = [sent_to(client, path, ["a"] * count).status_code for count in (3, 4)]
    assert status_codes == [200, 413]


@pytest.mark.parametrize("path", ["/translate", "/v2/translate", "/detect", "/page/alternatives"])
def test_the_most_characters_of_a_request(client_of, path):
    client = client_of(max_characters=4)
    if path == "/page/alternatives":
        asked = {"q": "1", "prefix": "\u00e9" * 4} | ASKED  # Both are counted.
        assert client.post(path, json=asked).status_code == 413
        return
    # They are characters, not bytes.
    responses = [sent_to(client, path, ["\u00e9\u00e9", "a" * count]) for count in (2, 3)]
    assert [response.status_code for response in responses] == [200, 413]


@pytest.mark.parametrize(
    ("newlines", "message"),
    [
        (15_001, "exceeds text limit (15,000)"),
        (15_000, "most 10,000 lines"),
        (10_000, "most 10,000 lines"),
        (9_999, None),
    ],
)
def test_blank_lines_of_the_page_count(client_of, aligning, newlines, message):
    client = client_of(Source(translator=aligning), max_characters=15_000)
    answer = sent_to(client, "/page/translate", [""] * (newlines + 1))
    assert answer.status_code == (413 if message else 200)
    assert message is None or message in answer.json()["error"]


@pytest.mark.parametrize("path", ["/translate_file", "/v2/document"])
@pytest.mark.parametrize(
    ("settings", "texts"),
    [
        (dict(max_file_characters=5), ["\u00e9\u00e9", "aa"]),
        (dict(max_file_bytes=6), ["\u00e9a", "aa"]),
    ],
)
def test_the_largest_file(client_of, path, settings, texts):
    client = client_of(**settings)
    assert sent_to(client, path, texts).status_code == 200
    assert sent_to(client, path, [*texts[:-1], texts[-1] + "a"]).status_code == 413


def test_what_is_billed_and_counted_is_the_source(client_of):
    client = client_of(Source(translator=UpperCase(engine=Longer())))
    before = client.get("/v2/usage").json()
    asked = {"text": ["one", "four"], "show_billed_characters": True} | DEEPL
    translations = client.post("/v2/translate", json=asked).json()["translations"]
    assert [translation["text"] for translation in translations] == ["ONE ONE", "FOUR FOUR"]
    assert [translation["billed_characters"] for translation in translations] == [3, 4]
    del asked["show_billed_characters"]
    assert "billed_characters" not in client.post("/v2/translate", json=asked).text
    sent_to(client, "/translate", ["seven"])
    after = client.get("/v2/usage").json()
    assert after["character_count"] - before["character_count"] == 7 + 7 + 5
    assert after["character_limit"] == 1_000_000_000_000


def test_the_last_character_of_a_month_can_be_used(client_of, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    (tmp_path / "keys").write_text("secret\tmine\t\t5\n")
    client = client_of(api_keys_file=tmp_path / "keys")
    client.headers["Authorization"] = "DeepL-Auth-Key secret"
    responses = [sent_to(client, "/v2/translate", [text]) for text in ("abcd", "e", "f")]
    assert [response.status_code for response in responses] == [200, 200, 456]
    assert list(responses[2].json()) == ["message"]
    usage = {"character_count": 5, "character_limit": 5}
    assert client.get("/v2/usage").json() == usage
    assert sent_to(client, "/translate", ["g"]).status_code == 456
    assert re.findall(r"POST /v2/translate (\d+) \d+ ms (.*)", caplog.text) == [
        ("200", "mine"),
        ("200", "mine"),
        ("456", "mine"),
    ]


def test_every_answer_says_how_browsers_must_take_it(client_of):
    client = client_of(max_characters=10)
    answers = [
        client.get("/"),
        client.get("/health"),
        client.get("/nothing"),
        client.get("/v2/nothing"),
        client.delete("/translate"),
        sent_to(client, "/translate", ["a" * 11]),
        sent_to(client, "/translate", ["explode"]),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 404, 404, 405, 413, 500]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["content-security-policy"] == (
            "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
            "script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'self'"
        )
    assert [list(answer.json()) for answer in answers[2:4]] == [["error"], ["message"]]


def test_the_page_comes_with_all_its_files(client_of):
    client = client_of()
    html = client.get("/").text
    names = {*re.findall(r'(?:href|src)="([\w.]+)"', html)}
    for name in sorted(names):
        names |= {*re.findall(r'from "./(\w+\.js)"', client.get(f"/{name}").text)}
    assert names == {*page.FILES}
    kinds = {client.get(f"/{name}").headers["content-type"].split(";")[0] for name in names}
    assert kinds == {"text/css", "text/javascript"}


def test_confidence_is_in_percent(client_of):
    [answer] = client_of().post("/detect", json={"q": "a house"}).json()
    assert answer == {"language": "en", "confidence": 100.0}
    asked = {"q": "a house", "source": "auto", "target": "de"}
    detected_language = client_of().post("/translate", json=asked).json()["detectedLanguage"]
    assert detected_language == {"language": "en", "confidence": 100.0}


def test_a_detected_language_is_named_without_its_variant(client_of):
    client = client_of(Source("pt-BR", "de"))
    asked = {"text": ["Bom dia"], "target_lang": "DE"}
    [translation] = client.post("/v2/translate", json=asked).json()["translations"]
    assert translation["detected_source_language"] == "PT"
    assert client.get("/v2/languages").json() == [{"language": "PT", "name": "Portuguese"}]


@pytest.mark.parametrize(("count", "status"), [(-1, 200), (0, 200), (2, 200), (3, 400)])
def test_as_many_alternatives_as_the_beam_has_besides_the_best(client_of, count, status):
    answer = client_of().post("/translate", json={"q": "a", "alternatives": count} | ASKED)
    assert answer.status_code == status
    if status == 200:
        assert len(answer.json().get("alternatives", ())) == max(count, 0)


def test_sentences_are_those_of_the_source_language(client_of):
    source = Source("en", "fr")  # Mr. ends French sentences.
    asked = {"q": "Mr. Smith came. So.", "source": "en", "target": "fr"}
    client_of(source).post("/translate", json=asked)
    assert source.translator.calls[-1] == ["Mr. Smith came.", "So."]


def test_characters_of_every_script_and_blank_texts_come_back(client_of, aligning):
    client, texts = client_of(Source(translator=aligning)), ["", "\u4eca \u00e9", " \t"]
    assert sent_to(client, "/translate", texts).json() == {
        "translatedText": [*map(str.upper, texts)]
    }
    translations = sent_to(client, "/v2/translate", texts).json()["translations"]
    assert [translation["text"] for translation in translations] == [*map(str.upper, texts)]
    lines = sent_to(client, "/page/translate", texts).json()["lines"]
    assert [(line["source"], line["text"]) for line in lines] == [(a, a.upper()) for a in texts]


@pytest.mark.parametrize(("address", "status"), [("127.0.0.1", 403), ("8.8.8.8", 200)])
def test_from_elsewhere_the_server_may_have_any_name(client_of, address, status):
    answer = client_of(address=address).get("/v2/usage", headers={"Host": "example.org"})
    assert answer.status_code == status


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("path", ["/translate", "/v2/translate"])
def test_sentences_are_kept_together_if_the_server_is_told_so(client_of, path, split):
    source = Source()
    client = client_of(source, split_sentences=split)
    sent_to(client, path, ["One. Two.\nThree."])
    expected = ["One.", "Two.", "Three."] if split else ["One. Two.", "Three."]
    assert [line for call in source.translator.calls for line in call] == expected


def test_parameters_may_stand_in_the_address(client_of):
    client = client_of()
    answer = client.post("/translate", params={"q": "a"} | ASKED).json()
    assert answer == {"translatedText": "A"}
    parts = {"q": (None, "a")}  # As multipart.
    assert client.post("/translate", params=ASKED, files=parts).json() == answer
    actual = client.post("/v2/translate", params={"text": "a"} | DEEPL).json()
    assert actual["translations"][0]["text"] == "A"
    assert client.get("/v2/languages", params={"type": "other"}).status_code == 400


@pytest.mark.parametrize(
    ("setting", "is_on"),
    [(True, True), ("1", True), ("True", True), (0, False), ("FALSE", False), ("yes", None)],
)
def test_how_a_switch_is_set(client_of, setting, is_on):
    asked = {"text": ["a"], "show_billed_characters": setting} | DEEPL
    answer = client_of().post("/v2/translate", json=asked)
    assert answer.status_code == (400 if is_on is None else 200)
    if is_on is not None:
        assert ("billed_characters" in answer.json()["translations"][0]) == is_on


@pytest.mark.parametrize("kind", ["html", "xml"])
def test_markup_decides_no_language_in_either_api(client_of, kind):
    client = client_of(Source("en", "de"), Source("de", "en"), Source("de", "fr"))
    image = '<img src="https://example.org/the-house.png" alt="the house and the garden"/>'
    text = f"{image} Die Frau {image} schl\u00e4ft im Haus {image}"
    asked = {"text": [text], "target_lang": "EN-GB", "tag_handling": kind}
    asked["outline_detection"] = False
    [actual] = client.post("/v2/translate", json=asked).json()["translations"]
    assert actual["detected_source_language"] == "DE"
    if kind == "html":
        asked = {"q": text, "source": "auto", "target": "en", "format": "html"}
        actual = client.post("/translate", json=asked).json()
        assert actual["detectedLanguage"]["language"] == "de"
    file = {"file": ("a.html", f"<p>{text}</p>".encode())}
    for target in ("fr", "en"):
        asked = {"source": "auto", "target": target}
        answer = client.post("/translate_file", data=asked, files=file)
        assert b"DIE FRAU" in client.get(answer.json()["translatedFileUrl"]).content


@pytest.mark.parametrize(("target", "status"), [("zh-CN", 200), ("ZH_sg", 200), ("zh-TW", 400)])
def test_a_region_stands_for_its_script_in_every_api(client_of, target, status):
    client = client_of(Source("en", "zh-Hans"))
    languages = {"source": "en", "target": target}
    for path in ("/translate", "/page/alternatives"):
        asked = {"q": "1", "prefix": ""} | languages
        assert client.post(path, json=asked).status_code == status
    asked = {"text": ["1"], "target_lang": target}
    assert client.post("/v2/translate", json=asked).status_code == status


@pytest.mark.parametrize("text", ["42", "\u2014", "\u200b", "\ufeff"])
def test_what_has_no_letters_comes_back(client_of, text):
    source = Source(translator=UpperCase(engine=Longer()))
    client = client_of(source)
    assert sent_to(client, "/translate", [text]).json() == {"translatedText": [text]}
    translations = sent_to(client, "/v2/translate", [text]).json()["translations"]
    assert [translation["text"] for translation in translations] == [text]
    assert sum(map(len, source.translator.calls)) == 0


def test_a_language_whose_code_begins_with_another_is_another(client_of):
    client = client_of(Source("ar", "de"), Source("de", "arz"))
    asked = {"q": "a", "source": "ar", "target": "arz"}
    assert client.post("/translate", json=asked).status_code == 400
    assert client.post("/translate", json=asked | {"target": "ar-EG"}).status_code == 200


@pytest.mark.parametrize(("count", "status"), [(10_000, 200), (10_001, 413)])
def test_the_most_terms_of_the_page(client_of, count, status):
    terms = [[f"a{number}", "b"] for number in range(count)]
    asked = {"q": "1", "prefix": "", "glossary": terms} | ASKED
    assert client_of().post("/page/alternatives", json=asked).status_code == status


@pytest.mark.parametrize("path", ["/page/translate", "/page/alternatives"])
def test_a_request_whose_terms_are_refused_is_free(client_of, path):
    client = client_of()
    before = client.get("/v2/usage").json()
    for terms in ("words", [["a"]], [["\u00a0", "b"]], [["a" * 1_025, "b"]]):
        asked = {"q": "abc", "prefix": "", "glossary": terms} | ASKED
        assert client.post(path, json=asked).status_code == 400
    assert client.get("/v2/usage").json() == before


def test_other_pages_may_use_it_only_if_asked(client_of):
    asked = ("Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers")
    origin, other = "https://example.org", "https://example.com"
    for cors, allowed, *values in (
        ((), None, origin, "POST", "content-type"),
        ((origin,), origin, origin, "POST", "authorization,content-type"),
        ((origin,), origin, origin, "GET", "authorization"),
        ((origin,), None, other, "POST", "content-type"),
        (("*",), "*", other, "POST", "content-type"),
    ):
        client = client_of(cors=cors)
        headers = dict(zip(asked, values, strict=True))
        response = client.options("/translate", headers=headers)
        assert response.headers.get("access-control-allow-origin") == allowed
        assert response.is_success == bool(allowed)
        response = client.post("/translate", json={"q": "a"} | ASKED, headers={"Origin": values[0]})
        assert response.status_code == (200 if allowed else 403)
    client, headers["Access-Control-Request-Method"] = client_of(cors=("*",)), "DELETE"
    assert client.options("/translate", headers=headers).status_code == 400


def test_settings_for_a_page_are_those_of_the_server(client_of, tmp_path):
    assert client_of(max_characters=7).get("/frontend/settings").json()["charLimit"] == 7
    (tmp_path / "keys").write_text("secret\n")
    answer = client_of(api_keys_file=tmp_path / "keys").get("/frontend/settings").json()
    assert (answer["keyRequired"], answer["apiKeys"], answer["suggestions"]) == (True, True, False)


def test_a_file_that_fails_has_its_error_by_both_names(client_of):
    client = client_of()
    answer = sent_to(client, "/v2/document", ["refuse"]).json()
    path = f"/v2/document/{answer['document_id']}"
    for _ in range(1000):
        actual = client.post(path, json={"document_key": answer["document_key"]}).json()
        if actual["status"] == "error":
            break
    assert actual["error_message"] == actual["message"] != ""
    assert client.post(path, json={"document_key": "0" * 64}).status_code == 404
    assert (
        client.post(f"{path}/result", json={"document_key": answer["document_key"]}).status_code
        == 503
    )


def test_lists_of_forms_may_be_named_as_php_names_them(client_of):
    sent = {"text[]": ["one", "two"], **DEEPL}
    translations = client_of().post("/v2/translate", data=sent).json()["translations"]
    assert [translation["text"] for translation in translations] == ["ONE", "TWO"]


@pytest.mark.parametrize("name", ["q", "prefix"])
@pytest.mark.parametrize(("length", "status"), [(10_000, 200), (10_001, 400)])
def test_the_longest_line_of_which_other_words_are_looked_for(client_of, name, length, status):
    asked = {"q": "1", "prefix": ""} | ASKED | {name: "1" * length}
    assert client_of().post("/page/alternatives", json=asked).status_code == status


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/detect", "POST"),
        ("GET", "/translate", "POST"),
        ("GET", "/translate_file", "POST"),
        ("GET", "/page/translate", "POST"),
        ("POST", "/languages", "GET"),
        ("POST", "/spec", "GET"),
        ("POST", "/page.js", "GET, HEAD"),
        ("DELETE", "/detect", "POST"),
    ],
)
def test_other_methods_of_a_route_are_refused(client_of, method, path, allowed):
    answer = client_of().request(method, path)
    assert (answer.status_code, list(answer.json())) == (405, ["error"])
    assert set(answer.headers["allow"].split(", ")) == set(allowed.split(", "))


def test_a_request_for_a_head_does_not_fetch_a_document(client_of):
    assert client_of().head("/v2/document/a/result").status_code == 405


def test_the_page_is_not_sent_again_unless_it_has_changed(client_of):
    client = client_of()
    first = client.get("/page.js")
    assert first.headers["content-type"].startswith("text/javascript")
    assert client.head("/page.js").status_code == 200
    again = client.get("/page.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
