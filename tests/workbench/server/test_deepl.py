"""DeepL's API for text, by its official client."""

import deepl
import httpx
import pytest
from upper_case import Source

from t2t_keras.workbench.markup.translator import translate_markup


@pytest.fixture
def asked_of_markup(monkeypatch):
    """What `translate_markup` is asked for."""
    asked = []

    def asked_for(translator, texts, *options):
        asked.append(options)
        return translate_markup(translator, texts, *options)

    monkeypatch.setattr("t2t_keras.workbench.server.service.translate_markup", asked_for)
    return asked


@pytest.fixture
def server(serving, asked_of_markup):
    return serving([Source("en", "de"), Source("de", "en"), Source("en", "pt-BR")])


@pytest.fixture
def client(server, deepl_client):
    return deepl_client(server, "any key")


def test_texts(client):
    result = client.translate_text("a man sleeps", target_lang="DE", source_lang="EN")
    assert (result.text, result.detected_source_lang) == ("A MAN SLEEPS", "EN")
    assert result.billed_characters == len("a man sleeps")
    several = client.translate_text(["Guten Tag", "Die Frau schläft."], target_lang="EN-GB")
    assert [translation.text for translation in several] == ["GUTEN TAG", "DIE FRAU SCHLÄFT."]
    assert {result.detected_source_lang for result in several} == {"DE"}


def test_a_text_that_is_in_the_target_language_already_stays(client):
    text = "Die Frau schläft im Haus."
    for target in ("DE", "DE-DE"):
        result = client.translate_text(text, target_lang=target)
        assert (result.text, result.detected_source_lang) == (text, "DE")


def test_each_text_has_its_own_language(client):
    texts = ["Die Frau schläft im Haus.", "The woman sleeps in the house, and so does the man."]
    before = client.get_usage().character.count
    result = client.translate_text(texts, target_lang="EN-GB")
    assert [translation.text for translation in result] == [texts[0].upper(), texts[1]]
    assert [translation.detected_source_lang for translation in result] == ["DE", "EN"]
    assert client.get_usage().character.count == before + len(texts[0])
    # There is no model from German, and most is English.
    actual = client.translate_text([texts[1] * 2, texts[0]], target_lang="PT-BR")
    assert [result.detected_source_lang for result in actual] == ["EN", "EN"]


@pytest.mark.parametrize(
    ("text", "target", "source"),
    [
        ("hi", "DE", "EN"),
        ("Password", "DE", "EN"),
        ("Passwort", "EN-GB", "DE"),
        ("Cancel", "EN-GB", "DE"),
        ("Die Katze", "DE", "DE"),
        ("This is a house, and that is another one.", "EN-GB", "EN"),
        ("12:30", "EN-GB", "EN"),
        ("Test", "PT-BR", "EN"),  # It looks German, but there is no model for that.
    ],
)
def test_a_short_text_is_likelier_in_another_language_than_the_target(client, text, target, source):
    result = client.translate_text(text, target_lang=target)
    assert result.detected_source_lang == source
    assert (result.text == text) == (source == target[:2])


def test_every_option_that_does_not_ask_for_another_model(client):
    result = client.translate_text(
        "one. two.",
        source_lang="EN",
        target_lang="PT-BR",
        context="numbers",
        split_sentences=deepl.SplitSentences.NO_NEWLINES,
        preserve_formatting=True,
        formality=deepl.Formality.PREFER_LESS,
        outline_detection=False,
        model_type=deepl.ModelType.PREFER_QUALITY_OPTIMIZED,
        tag_handling="xml",
        tag_handling_version="v2",
        non_splitting_tags=["a", "b,c"],
        extra_body_parameters={"enable_beta": True},
    )
    assert (result.text, result.model_type_used) == ("ONE. TWO.", "quality_optimized")


@pytest.mark.parametrize(
    ("how", "calls"),
    [
        (deepl.SplitSentences.OFF, ["One. Two\nthree."]),
        (deepl.SplitSentences.NO_NEWLINES, ["One.", "Two three."]),
        (deepl.SplitSentences.ALL, ["One.", "Two", "three."]),
    ],
)
def test_sentences_are_split_as_asked(serving, deepl_client, how, calls):
    source = Source()
    client = deepl_client(serving([source]))
    client.translate_text("One. Two\nthree.", target_lang="DE", split_sentences=how)
    assert [line.replace("\n", " ") for line in source.translator.calls[-1]] == [
        line.replace("\n", " ") for line in calls
    ]


def test_markup(client, asked_of_markup):
    asked = dict(target_lang="DE", source_lang="EN")
    for kind in ("html", "xml"):
        result = client.translate_text("so <b>big</b>.", tag_handling=kind, **asked)
        assert result.text == "SO <b>BIG</b>."
    with pytest.raises(deepl.DeepLException, match="line 1") as raised:
        client.translate_text("so <b", tag_handling="xml", **asked)
    assert raised.value.http_status_code == 400
    assert len(asked_of_markup) == 2  # Malformed XML does not come into a batch.


def test_elements_that_are_kept_or_divide_the_text(client, asked_of_markup):
    tags = dict(ignore_tags=" ,a, b", splitting_tags=["p", "c"], non_splitting_tags=["c"])
    asked = dict(target_lang="DE", source_lang="EN")
    for kind, outline in (("xml", None), ("xml", False), ("html", True)):
        how = dict(tag_handling=kind, outline_detection=outline)
        client.translate_text("<a>x</a>", **asked, **tags, **how)
    assert asked_of_markup == [
        ("xml", ("p",), ("a", "b"), True, ("c",)),
        ("xml", ("p",), ("a", "b"), False, ()),
        ("html", ("p",), ("a", "b"), False, ()),
    ]


def test_each_value_of_an_option(client_of):
    client = client_of()
    asked = {"text": ["a"], "target_lang": "DE", "source_lang": "EN"}
    latency = "latency_optimized"
    for name, good, bad in (
        ("formality", ("default", "prefer_less", "prefer_more"), ("less", "more", "x")),
        ("preserve_formatting", (True, "0"), ("x",)),
        ("outline_detection", (True, "0"), ("x",)),
        ("tag_handling_version", ("v1", "v2"), ("v3", "2")),
        ("model_type", ("prefer_quality_optimized", "quality_optimized", latency), ("x",)),
        ("split_sentences", ("0", "1", "nonewlines"), ("2",)),
    ):
        for value in (*good, *bad):
            answer = client.post("/v2/translate", json=asked | {name: value})
            assert answer.status_code == (200 if value in good else 400), (name, value)
            if name == "model_type" and value in good:
                [translation] = answer.json()["translations"]
                assert translation["model_type_used"] == value.removeprefix("prefer_")
    for path in ("/v2/usage", "/v2/languages"):
        assert client.post(path).json() == client.get(path).json()


def test_an_empty_option_is_as_good_as_none(client_of):
    client = client_of(Source("en", "de"), Source("de", "fr"))
    asked = {"text": "One.\nTwo.", "target_lang": "DE", "source_lang": "EN"}
    names = "formality tag_handling split_sentences tag_handling_version model_type".split()
    answers = [client.post("/v2/translate", data=asked | dict.fromkeys(n, "")) for n in ([], names)]
    answers += [client.get(f"/v2/languages{query}") for query in ("", "?type=")]
    without, empty, all_without, all_empty = [(it.status_code, it.json()) for it in answers]
    assert (without, all_without) == (empty, all_empty)
    assert (without[0], all_without[0]) == (200, 200)


def test_targets_have_the_variants_that_clients_know(client_of):
    client = client_of(Source("de", "en"), Source("de", "pt"), Source("de", "es"))
    answer = client.get("/v2/languages", params={"type": "target"}).json()
    assert [language["language"] for language in answer] == [
        "EN-GB",
        "EN-US",
        "ES",
        "PT-BR",
        "PT-PT",
    ]
    for language in answer:
        asked = {"text": ["a"], "source_lang": "DE", "target_lang": language["language"]}
        assert client.post("/v2/translate", json=asked).status_code == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(target_lang="XX"), "Value for 'target_lang' not supported"),
        (dict(target_lang="DE", source_lang="XX"), "Value for 'source_lang' not supported"),
        (dict(target_lang="DE", formality="formal"), "Value for 'formality' not supported"),
        (dict(target_lang="DE", formality="less"), "'formality' is not supported"),
        (dict(target_lang="DE", tag_handling="rtf"), "Value for 'tag_handling' not supported"),
        (dict(target_lang="DE", split_sentences="2"), "Value for 'split_sentences' not supported"),
        (dict(target_lang="DE", style_rule="a"), "'style_id' is not supported"),
        (dict(target_lang="DE", translation_memory="a"), "'translation_memory_id' is not"),
        (dict(target_lang="DE", custom_instructions=["a"]), "'custom_instructions' is not"),
    ],
)
def test_what_is_not_supported_is_an_error_that_names_it(client, options, message):
    with pytest.raises(deepl.DeepLException, match=message) as raised:
        client.translate_text("a", **{"source_lang": "EN"} | options)
    assert raised.value.http_status_code == 400


def test_languages(client):
    sources, targets = client.get_source_languages(), client.get_target_languages()
    assert [(source.code, source.name) for source in sources] == [
        ("DE", "German"),
        ("EN", "English"),
    ]
    assert [target.code for target in targets] == ["DE", "EN-GB", "EN-US", "PT-BR"]
    assert not any(target.supports_formality for target in targets)


def test_usage_counts_characters(client):
    before = client.get_usage().character
    client.translate_text("1234567", target_lang="DE", source_lang="EN")
    after = client.get_usage()
    assert after.character.count == before.count + 7
    assert not after.any_limit_reached


def test_what_this_server_has_not(client):
    assert client.get_all_style_rules() == []
    assert client.list_translation_memories() == []
    for call in (
        lambda: client.rephrase_text("a", target_lang="EN-GB"),
        lambda: client.correct_text("a"),
        lambda: client.create_style_rule("a", "en"),
        lambda: client.get_translation_memory("a"),
    ):
        with pytest.raises(deepl.DeepLException, match="Endpoint not supported"):
            call()


def test_forms_as_older_clients_send_them(server):
    sent = {"text": ["one", "two"], "target_lang": "de", "source_lang": "en", "auth_key": "key"}
    answer = httpx.post(f"{server.url}/v2/translate", data=sent).json()
    assert [translation["text"] for translation in answer["translations"]] == ["ONE", "TWO"]
    response = httpx.post(f"{server.url}/v2/translate", data={"target_lang": "DE"})
    assert (response.status_code, response.json()) == (
        400,
        {"message": "Parameter 'text' not specified."},
    )
