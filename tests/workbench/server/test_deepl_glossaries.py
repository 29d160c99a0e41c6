"""DeepL's API for glossaries, by its official client."""

import json
import re

import deepl
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries as Entries
from refusals import refused
from upper_case import DEEPL, Source

from t2t_keras.workbench.server.glossaries import Glossaries, read_entries
from t2t_keras.workbench.server.requests import ApiError
from t2t_keras.workbench.terms.glossary import Glossary

TERMS = {"house": "Hütte", "dog": "Dackel"}
ASKED_BY_GLOSSARIES = {"source_lang": "en", "target_lang": "de"}
TSV = "text/tab-separated-values"
HOUSE_AND_DOG = {"house": "Haus", "dog": "Hund"}


@pytest.fixture
def server(serving, tmp_path):
    return serving([Source("en", "de"), Source("de", "en")], storage=tmp_path)


@pytest.fixture
def client(server, deepl_client):
    return deepl_client(server, "my key")


def text_of(client, glossary):
    asked = dict(source_lang="EN", target_lang="DE", glossary=glossary)
    return client.translate_text("the house", **asked).text


def test_of_one_pair(client):
    pairs = {(pair.source_lang, pair.target_lang) for pair in client.get_glossary_languages()}
    assert pairs == {("en", "de"), ("de", "en")}
    glossary = client.create_glossary("mine", "EN", "DE", TERMS)
    assert (glossary.name, glossary.ready, glossary.entry_count) == ("mine", True, 2)
    assert text_of(client, glossary) == "THE Hütte"
    assert client.translate_text_with_glossary("house", glossary).text == "Hütte"
    assert vars(client.get_glossary(glossary.glossary_id)) == vars(glossary)
    assert client.get_glossary_entries(glossary) == TERMS
    csv = 'house,"Haus, groß",en,de\nHaus,house,de,en\n'
    other = client.create_glossary_from_csv("csv", "en", "de", csv)
    assert client.get_glossary_entries(other) == {"house": "Haus, groß"}
    assert [glossary.name for glossary in client.list_glossaries()] == ["mine", "csv"]
    client.delete_glossary(glossary)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(glossary.glossary_id)
    with pytest.raises(deepl.DeepLException, match="Glossary not found"):
        text_of(client, glossary.glossary_id)


def test_of_several_pairs(client):
    entries = [Entries("EN", "DE", TERMS), Entries("DE", "EN", {"Haus": "hut"})]
    glossary = client.create_multilingual_glossary("both", entries)
    assert [
        (dictionary.source_lang, dictionary.entry_count) for dictionary in glossary.dictionaries
    ] == [
        ("EN", 2),
        ("DE", 1),
    ]
    assert text_of(client, glossary) == "THE Hütte"
    assert client.list_glossaries() == []  # v2 knows one pair only.
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(glossary.glossary_id)
    client.update_multilingual_glossary_name(glossary, "renamed")
    client.update_multilingual_glossary_dictionary(glossary, Entries("EN", "DE", {"house": "Bau"}))
    [dictionary] = client.get_multilingual_glossary_entries(glossary, "EN", "DE").dictionaries
    assert dictionary.entries == "house\tBau\ndog\tDackel"
    replaced = client.replace_multilingual_glossary_dictionary_from_csv(glossary, "EN", "DE", "a,b")
    assert replaced.entry_count == 1
    client.delete_multilingual_glossary_dictionary(glossary, source_lang="DE", target_lang="EN")
    [only] = client.list_multilingual_glossaries()
    assert (only.name, len(only.dictionaries)) == ("renamed", 1)
    with pytest.raises(deepl.GlossaryNotFoundException, match="Dictionary not found"):
        client.get_multilingual_glossary_entries(glossary, "DE", "EN")
    client.delete_multilingual_glossary(glossary)
    assert client.list_multilingual_glossaries() == []


@pytest.mark.parametrize(
    ("limit", "most", "message"),
    [
        ("_MAX_BYTES", 13, "at most 13 bytes"),
        ("_MAX_TERMS", 2, "at most 2"),
        ("_MAX_BYTES_PER_OWNER", 13, "too large together"),
        ("_MAX_BYTES_OF_ALL", 13, "too large together"),
    ],
)
def test_what_is_added_counts_with_what_is_there(client, monkeypatch, limit, most, message):
    monkeypatch.setattr(f"t2t_keras.workbench.server.glossaries.{limit}", most)
    glossary = client.create_multilingual_glossary("mine", [Entries("EN", "DE", {"house": "Bau"})])
    client.update_multilingual_glossary_dictionary(glossary, Entries("EN", "DE", {"a": "b"}))
    with pytest.raises(deepl.DeepLException, match=message):
        client.update_multilingual_glossary_dictionary(
            glossary, Entries("EN", "DE", {"dog": "Hund"})
        )
    [dictionary] = client.get_multilingual_glossary_entries(glossary, "EN", "DE").dictionaries
    assert dictionary.entries == "house\tBau\na\tb"  # 13 bytes.


def test_the_first_of_several_glossaries_wins(client):
    glossaries = [
        client.create_glossary(target, "EN", "DE", {source: target, target: "x"})
        for source, target in (("house", "Bau"), ("house", "Heim"), ("House", "Hof"))
    ]
    for some in (glossaries, glossaries[:2], glossaries[::2]):
        asked = dict(source_lang="EN", target_lang="DE", glossary_ids=some)
        assert client.translate_text("house", **asked).text == "Bau"


def test_terms_that_differ_in_capitals_and_long_ones(client):
    terms = {"House": "Bau", "house": "Heim", "a" * 1_000: "b"}
    glossary = client.create_glossary("mine", "EN", "DE", terms)
    assert client.get_glossary_entries(glossary) == terms
    assert text_of(client, glossary) == "THE Bau"


def test_each_key_has_its_own(server, client, deepl_client):
    glossary = client.create_glossary("mine", "EN", "DE", TERMS)
    other = deepl_client(server, "another key")
    assert other.list_glossaries() == []
    with pytest.raises(deepl.GlossaryNotFoundException):
        other.delete_glossary(glossary)


def test_they_outlive_the_server(serving, client, server, deepl_client, tmp_path):
    glossary = client.create_glossary("mine", "EN", "DE", TERMS)
    server.stop()
    again = deepl_client(serving(storage=tmp_path), "my key")
    assert vars(again.get_glossary(glossary.glossary_id)) == vars(glossary)
    assert text_of(again, glossary.glossary_id) == "THE Hütte"


@pytest.mark.parametrize(
    "changes",
    [
        {"owner": 3},
        {"dictionaries": [3]},
        {"dictionaries": [{"pair": ["en"], "terms": {}}]},
        {"dictionaries": [{"pair": ["en", "de"], "terms": ["a"]}]},
        {"dictionaries": [{"pair": ["en", "de"], "terms": {"a": 3}}]},
    ],
)
def test_a_file_that_no_server_has_written_is_named(tmp_path, changes):
    Glossaries(tmp_path).create("anna", "mine", {("en", "de"): TERMS})
    [path] = tmp_path.glob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with refused("damaged_file", path):
        Glossaries(tmp_path)


def test_wrong_ones_are_refused(client):
    def refused(call, message):
        with pytest.raises(deepl.DeepLException, match=message) as raised:
            call()
        assert raised.value.http_status_code in (400, 404)

    create = client.create_glossary_from_csv
    refused(lambda: create("a", "en", "fr", "a,b"), "Unsupported glossary source and target")
    refused(lambda: create("a", "en", "de", "a,b\na,c"), "Entry 1 duplicates")
    refused(lambda: create("a", "en", "de", "only one"), "Entry 0 is not a source and a target")
    refused(lambda: create("a", "en", "de", 'a,"b'), "Invalid glossary entries provided")
    refused(lambda: create("a", "en", "de", ""), "Invalid glossary entries provided")
    refused(lambda: client.get_glossary("no-id"), "glossary_id")
    refused(lambda: text_of(client, "b2d2b5f8-2c9d-4e1b-9d5c-1f0f4ad2b6aa"), "Glossary not found")


def test_the_files_of_glossaries(tmp_path):
    store, pair = Glossaries(tmp_path), ("en", "de")
    glossaries = [store.create("anna", str(number), {pair: {"a": "b"}}) for number in range(5)]
    store.remove(glossaries.pop(2))
    actual = Glossaries(tmp_path).owned_by("anna")
    assert actual == glossaries  # In the order in which they were made.
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", glossaries[0].created)
    assert len(list(tmp_path.iterdir())) == 4
    store.change(glossaries[0], "0", {("de", "en"): {"b": "a"}})
    store.remove(glossaries[0], pair)
    assert Glossaries(tmp_path).owned_by("anna")[0].dictionaries == {("de", "en"): {"b": "a"}}
    store.change(glossaries[0], "0", {pair: {"a": "b"}})
    assert store.find(glossaries[0].glossary_id.upper(), "anna") is glossaries[0]
    assert store.merge(glossaries[:1], pair) is store.merge(glossaries[:1], pair), (
        "they may share batches"
    )


@pytest.mark.parametrize("is_read_again", [False, True])
def test_what_a_glossary_had_before_makes_room(tmp_path, monkeypatch, is_read_again):
    store, pair = Glossaries(tmp_path), ("en", "de")
    monkeypatch.setattr("t2t_keras.workbench.server.glossaries._MAX_BYTES_OF_ALL", 12)
    glossary = store.create("anna", "mine", {pair: {"house": "Bau"}})
    if is_read_again:
        [glossary] = (store := Glossaries(tmp_path)).owned_by("anna")
    with pytest.raises(ApiError):
        store.create("bert", "his", {pair: {"a": "bc"}})
    store.change(glossary, "mine", {pair: {"house": "Anwes"}})  # 11 bytes.
    store.change(glossary, "mine", {pair: {"house": "Anwese"}})  # 12 bytes.
    with pytest.raises(ApiError):
        store.change(glossary, "mine", {pair: {"house": "Anwesen"}})
    with pytest.raises(ApiError):  # Bytes count, not characters.
        store.change(glossary, "mine", {pair: {"house": "Anw\u00e4se"}})
    with pytest.raises(ApiError):
        store.create("bert", "his", {pair: {"a": ""}})
    monkeypatch.setattr("t2t_keras.workbench.server.glossaries._MAX_BYTES_OF_ALL", 5)
    store.change(glossary, "mine", {pair: {"house": "Haus"}})  # Smaller than before.
    store.remove(glossary)
    assert store.create("bert", "mine", {pair: {"dog": "a"}}).dictionaries


@pytest.mark.parametrize(
    ("kind", "text", "terms"),
    [
        (
            "csv",
            '\ufeff"hot dog, big","W\u00fcrstchen"\r\ndog,Hund\r\n',
            {"hot dog, big": "W\u00fcrstchen", "dog": "Hund"},
        ),
        (
            "tsv",
            "\ufeffdog\tHund\r\n\u200b\n cafe\u0301 \tCaf\u00e9\u00a05",
            {"dog": "Hund", "caf\u00e9": "Caf\u00e9\u00a05"},
        ),
        ("csv", '"say ""hi""",sag', {'say "hi"': "sag"}),
        ("csv", "house,Haus,EN,de_AT\nmaison,Haus,FR,DE\ndog,Hund,en,de", HOUSE_AND_DOG),
    ],
)
def test_entries_are_read_whole(kind, text, terms):
    assert read_entries(text, kind, ("en", "de")) == terms


@pytest.mark.parametrize("sign", ["\n", "\r\n", "\u2028", "\u0085", "\x0b", "\x0c", "\x1c"])
def test_line_breaks_within_a_term_are_refused(sign):
    for kind, text in (("csv", f'dog,Hund\n"hot{sign}dog",Wurst'), ("csv", f'dog,"H{sign}und"')):
        with pytest.raises(ApiError) as refused:
            read_entries(text, kind, ("en", "de"))
        assert refused.value.status == 400
    if "\n" not in sign:
        with pytest.raises(ApiError):
            read_entries(f"hot{sign}dog\tWurst", "tsv", ("en", "de"))


def glossary_of(client, name="mine", entries="a\tb", **fields):
    asked = {"name": name, "entries": entries, "entries_format": "tsv"} | ASKED_BY_GLOSSARIES
    return client.post("/v2/glossaries", json=asked | fields)


def test_the_terms_of_a_request_replace_those_of_the_server(client_of):
    client = client_of(glossaries={None: Glossary.of([("house", "Bude"), ("dog", "Hund")])})
    asked = {"text": ["house, dog"]} | DEEPL
    glossary_id = glossary_of(client, entries="house\tBau").json()["glossary_id"]
    for more, text in (({}, "Bude, Hund"), ({"glossary_id": glossary_id}, "Bau, DOG")):
        translations = client.post("/v2/translate", json=asked | more).json()["translations"]
        assert [translation["text"] for translation in translations] == [text]


@pytest.mark.parametrize(("length", "status"), [(0, 400), (1, 201), (1024, 201), (1025, 400)])
def test_the_longest_name_of_a_glossary(client_of, length, status):
    assert glossary_of(client_of(), "n" * length).status_code == status


def test_what_a_glossary_needs(client_of):
    client = client_of()
    good = ASKED_BY_GLOSSARIES | {"entries": "a\tb", "entries_format": "tsv"}
    several = {"name": "n", "dictionaries": [good]}
    for path, asked, wrong, named in (
        ("/v2", good | {"name": "n"}, {"source_lang": ""}, "source_lang"),
        ("/v2", good | {"name": "n"}, {"target_lang": ""}, "target_lang"),
        ("/v2", good | {"name": "n"}, {"entries_format": ""}, "entries_format"),
        ("/v2", good | {"name": "n"}, {"entries_format": "xls"}, "entries_format"),
        ("/v2", good | {"name": "n"}, {"entries": f"{'a' * 1_025}\tb"}, "entries"),
        ("/v3", several, {"name": ""}, "name"),
        ("/v3", several, {"dictionaries": []}, "dictionaries"),
        ("/v3", several, {"dictionaries": [3]}, "dictionaries"),
        ("/v3", several, {"dictionaries": good}, "dictionaries"),
        ("/v3", several, {"dictionaries": [good | {"target_lang": "FR"}]}, "target language"),
    ):
        assert client.post(f"{path}/glossaries", json=asked).status_code == 201
        answer = client.post(f"{path}/glossaries", json=asked | wrong)
        assert (answer.status_code, named in answer.json()["message"]) == (400, True), wrong


def test_the_statuses_of_glossaries(client_of):
    client = client_of()
    glossary_id = glossary_of(client).json()["glossary_id"]
    path = f"/v2/glossaries/{glossary_id}"
    for accept, status in ((TSV, 200), ("text/*", 200), ("text/csv", 415)):
        answer = client.get(f"{path}/entries", headers={"Accept": accept})
        assert answer.status_code == status
    answer = client.get(f"{path}/entries")
    assert (answer.text, answer.headers["content-type"].split(";")[0]) == ("a\tb", TSV)
    both = {"source_lang": "en", "target_lang": "de", "entries": "c\td", "entries_format": "tsv"}
    answer = client.post("/v3/glossaries", json={"name": "n", "dictionaries": [both]})
    assert answer.status_code == 201
    other = f"/v3/glossaries/{answer.json()['glossary_id']}"
    # A patch adds to a dictionary, and what is put replaces it.
    client.patch(other, json={"dictionaries": [both | {"entries": "e\tf"}]})
    asked = ASKED_BY_GLOSSARIES
    dictionaries = client.get(f"{other}/entries", params=asked).json()["dictionaries"]
    assert dictionaries[0]["entries"] == "c\td\ne\tf"
    assert client.put(f"{other}/dictionaries", json=both).json()["entry_count"] == 1
    for address in (f"{other}/dictionaries", path, other):
        assert [client.delete(address, params=asked).status_code for _ in range(2)] == [204, 404]
    assert client.get("/v2/glossaries/no-id").status_code == 400


@pytest.mark.parametrize("more", [0, 1])
def test_the_largest_dictionary(more):
    lines = [f"{number:05}\t{'b' * 993}\n" for number in range(10_485)]  # Of 1,000 bytes each.
    text = "".join(lines) + "c\t" + "\u00e4" * 379
    assert len(text.encode()) == 10 << 20
    if not more:
        assert len(read_entries(text, "tsv", ("en", "de"))) == 10_486
        return
    with pytest.raises(ApiError) as refused:
        read_entries(f"{text}d", "tsv", ("en", "de"))
    assert refused.value.status == 413


@pytest.mark.parametrize(("count", "status"), [(3, 201), (4, 413)])
def test_the_most_dictionaries_of_a_glossary(client_of, monkeypatch, count, status):
    monkeypatch.setattr("t2t_keras.workbench.server.deepl._MAX_DICTIONARIES", 3)
    both = ASKED_BY_GLOSSARIES | {"entries": "a\tb", "entries_format": "tsv"}
    asked = {"name": "n", "dictionaries": [both] * count}
    assert client_of().post("/v3/glossaries", json=asked).status_code == status


def test_a_glossary_is_for_all_variants_of_its_languages(client_of):
    client = client_of(Source("en", "pt-BR"))
    for code in ("pt", "PT-BR", "pt_PT"):
        answer = glossary_of(client, entries="house\tcasa", target_lang=code).json()
        assert answer["target_lang"] == "pt"
        asked = {"text": ["house"], "source_lang": "EN-GB", "target_lang": "PT-BR"}
        asked["glossary_ids"] = f"{answer['glossary_id']},"
        [translation] = client.post("/v2/translate", json=asked).json()["translations"]
        assert translation["text"] == "Casa"


@pytest.mark.parametrize(("count", "status"), [(5, 200), (6, 400)])
def test_the_most_glossaries_of_a_request(client_of, count, status):
    client = client_of()
    glossary_ids = [
        glossary_of(client, entries=f"{i}a\tb").json()["glossary_id"] for i in range(count)
    ]
    asked = {"text": ["a"], "glossary_ids": glossary_ids} | DEEPL
    assert client.post("/v2/translate", json=asked).status_code == status
    del asked["source_lang"]
    assert client.post("/v2/translate", json=asked).status_code == 400
    asked |= {"glossary_id": glossary_ids[0], "source_lang": "EN"}
    assert client.post("/v2/translate", json=asked).status_code == 400


@pytest.mark.parametrize(("most", "status"), [("_MAX_PER_OWNER", 201), ("_MAX_GLOSSARIES", 456)])
def test_the_most_glossaries_of_a_key(client_of, monkeypatch, most, status):
    monkeypatch.setattr(f"t2t_keras.workbench.server.glossaries.{most}", 2)
    client = client_of()
    status_codes = [glossary_of(client, api_key=key).status_code for key in ("a", "a", "a", "b")]
    assert status_codes == [201, 201, 456, status]
