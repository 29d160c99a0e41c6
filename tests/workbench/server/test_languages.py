"""Codes of languages: how they are written, and which one is meant."""

import pytest
from refusals import refused

from t2t_keras.workbench.server.languages import (
    canonical_code,
    detect,
    language_name,
    nearest_code,
    nearest_pair,
    parse_pair,
)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("DE", "de"),
        ("PT_br", "pt-BR"),
        ("zh-hans", "zh-Hans"),
        ("ES-419", "es-419"),
        ("zt", "zh-Hant"),
        ("PB", "pt-BR"),
        ("IW", "he"),
        ("in", "id"),
        ("ji-latn", "yi-Latn"),
        ("jw", "jv"),
        ("mo", "ro"),
        ("sh", "sr-Latn"),
        ("cmn_hans", "zh-Hans"),
        ("fil", "tl"),
    ],
)
def test_codes_are_written_alike(code, expected):
    assert canonical_code(code) == expected


def test_pairs():
    assert parse_pair("en-pt-BR") == ("en", "pt-BR")
    assert parse_pair("zh-Hans-en") == ("zh-Hans", "en")
    for wrong in ("en", "en-", "en-en", "english-german", "en-DE", ""):
        with refused("bad_value", repr(wrong)):
            parse_pair(wrong)


def test_variants_stand_for_their_language_and_it_for_them():
    served = dict.fromkeys([("en", "de"), ("en", "pt-BR"), ("de", "en"), ("en", "zh")])
    assert nearest_pair("EN-us", "de-AT", served) == ("en", "de")
    assert nearest_pair("en", "pt", served) == ("en", "pt-BR")
    assert nearest_pair("en", "zh-Hant", served) == ("en", "zh")
    assert nearest_pair("en", "pt-PT", served) is None
    assert nearest_pair("de", "pt", served) is None
    served = dict.fromkeys([("en-GB", "de"), ("en", "fr"), ("en-US", "es")])
    actual = [nearest_pair(*pair, served) for pair in (("en", "de"), ("en-GB", "fr"), ("en", "es"))]
    assert actual == [("en-GB", "de"), ("en", "fr"), ("en-US", "es")]


@pytest.mark.parametrize(
    ("requested", "served", "expected"),
    [
        ("zh-CN", "zh-Hans", "zh-Hans"),
        ("ZH_sg", "zh-Hans", "zh-Hans"),
        ("zh-TW", "zh-Hans zh-Hant", "zh-Hant"),
        ("zh-hk", "zh-Hant", "zh-Hant"),
        ("zh-MO", "zh-Hans zh-Hant", "zh-Hant"),
        ("zh-TW", "zh-Hans", ""),
        ("zh-Hans-CN", "zh zh-Hans", "zh-Hans"),
        ("zh-Hans", "zh-CN zh-TW", "zh-CN"),
        ("zt", "zh-TW", "zh-TW"),
        ("zh-SG", "zh-CN", "zh-CN"),
        ("zh-CN", "zh", "zh"),
        ("zh", "zh-Hant zh-Hans", "zh-Hans"),
        ("cmn-Hans", "zh-Hans", "zh-Hans"),
        ("sr-RS", "sr-Cyrl sr-Latn", "sr-Cyrl"),
        ("sr-ME", "sr-Latn", "sr-Latn"),
        ("sr-RS", "sr-Latn", ""),
        ("sr-Latn-RS", "sr-Latn", "sr-Latn"),
        ("pt-BR", "pt-PT", ""),
        ("PB", "pt-BR pt", "pt-BR"),
        ("en_gb", "en-US en", "en"),
        ("de-1996", "de", "de"),
        ("no", "nb", "nb"),
        ("nb-NO", "no", "no"),
        ("nn", "nb", ""),
        ("iw", "he", "he"),
        ("en", "en-US en-GB", "en-GB"),
        ("pa-PK", "pa-Guru pa-Arab", "pa-Arab"),
        ("zh-SG", "zh-CN zh-Hans", "zh-Hans"),
        ("zh-SG", "zh-CN zh", "zh"),
    ],
)
def test_which_code_is_meant(requested, served, expected):
    assert nearest_code(requested, served.split()) == expected
    assert nearest_code(requested, served.split()[::-1]) == expected


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
    assert detect(["123 !"], ["fr"]) == [("fr", 0.0)]
    assert detect(["Hunden er sulten og vil ha mat."], ["nb", "de"])[0].language == "nb"


def test_the_beginning_of_all_texts_together_decides():
    german, english = "Die Katze schl\u00e4ft auf dem Sofa. ", "The dog sleeps in the garden. "
    assert detect([english, german * 3], ["en", "de"])[0].language == "de"
    assert detect([german * 31 + english * 100], ["en", "de"])[0].language == "de"  # Of 1,000.
    assert detect([german * 31, english * 100], ["en", "de"])[0].language == "de"


@pytest.mark.parametrize("kind", ["html", "xml"])
def test_markup_does_not_decide_the_language(kind):
    image = (
        '<img src="https://example.org/the-house-and-the-garden.png" alt="the house" title="this"/>'
    )
    text = f"<p>{image} Die Katze schl\u00e4ft {image} auf dem Sofa. {image}</p>"
    assert detect([text], ["en", "de"], kind)[0].language == "de"
    assert detect([image], ["en", "de"], kind) == [("en", 0.0)]
    # As much is judged, however much markup there is before it.
    assert detect([image * 100 + text], ["en", "de"], kind)[0].language == "de"
    assert detect(["Die Katze schl\u00e4ft <b"], ["en", "de"], kind)[0].language == "de"
    script = "<script>Die Katze schl\u00e4ft auf dem Sofa.</script>"  # No text in HTML.
    actual = detect([script], ["en", "de"], kind)[0]
    assert (actual.language, actual.confidence > 0) == (("en", 0) if kind == "html" else ("de", 1))
