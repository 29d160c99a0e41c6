"""DeepL's API for text, by its official client."""

import deepl


def test_the_official_client_translates(serving):
    with_key = deepl.DeepLClient("any key", server_url=serving().url)
    found = with_key.translate_text("a man sleeps", target_lang="DE")
    assert (found.text, found.detected_source_lang, found.billed_characters) == (
        "A MAN SLEEPS",
        "EN",
        12,
    )
