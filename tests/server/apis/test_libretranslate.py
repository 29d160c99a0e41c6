"""LibreTranslate's API, by its official client and by what its documentation shows."""

from libretranslatepy import LibreTranslateAPI


def test_the_official_client_translates(serving):
    client = LibreTranslateAPI(serving().url)
    assert client.translate("a man sleeps", "en", "de") == "A MAN SLEEPS"
