"""Codes of languages: how they are written, and which one is meant."""

import pytest

from t2t_keras.errors import UserError
from t2t_keras.server.languages import canonical, detect, language_name, nearest_pair, parse_pair


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("DE", "de"),
        ("PT_br", "pt-BR"),
        ("zh-hans", "zh-Hans"),
        ("ES-419", "es-419"),
        ("zt", "zh-Hant"),
    ],
)
def test_codes_are_written_alike(given, expected):
    assert canonical(given) == expected


def test_pairs():
    assert parse_pair("en-pt-BR") == ("en", "pt-BR")
    assert parse_pair("zh-Hans-en") == ("zh-Hans", "en")
    for wrong in ("en", "en-", "en-en", "english-german", "en-DE", ""):
        with pytest.raises(UserError, match="Expected a pair of languages"):
            parse_pair(wrong)


def test_variants_stand_for_their_language_and_it_for_them():
    served = dict.fromkeys([("en", "de"), ("en", "pt-BR"), ("de", "en"), ("en", "zh")])
    assert nearest_pair("EN-us", "de-AT", served) == ("en", "de")
    assert nearest_pair("en", "pt", served) == ("en", "pt-BR")
    assert nearest_pair("en", "zh-Hant", served) == ("en", "zh")
    assert nearest_pair("en", "pt-PT", served) is None
    assert nearest_pair("de", "pt", served) is None
    served = dict.fromkeys([("en-GB", "de"), ("en", "fr"), ("en-US", "es")])
    found = [nearest_pair(*pair, served) for pair in (("en", "de"), ("en-GB", "fr"), ("en", "es"))]
    assert found == [("en-GB", "de"), ("en", "fr"), ("en-US", "es")]


def test_names():
    assert language_name("de") == "German"
    assert language_name("de-AT") == "German (AT)"
    assert language_name("xyz") == "xyz"


def test_detection_chooses_among_the_languages_of_the_server():
    text = ["Die Katze schläft auf dem Sofa."]
    assert detect(text, ["en", "de", "fr"])[0].language == "de"
    assert detect(text, ["en", "fr"])[0].language in ("en", "fr")
    assert detect(text, ["fr"]) == [("fr", 1.0)]
    assert detect(["123 !"], ["en", "de"]) == [("en", 0.0)]
    assert detect(["Hunden er sulten og vil ha mat."], ["nb", "de"])[0].language == "nb"
