"""DeepL's API for documents, by its official client."""

import io
import re

import deepl
import httpx
import pytest
from upper_case import Gated, Source

TEMPLATE = b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
TEMPLATE += b'\nmsgid "a"\nmsgstr ""\n'


@pytest.fixture
def server(serving):
    return serving([Source(), Source("de", "en")])


@pytest.fixture
def client(server, deepl_client):
    return deepl_client(server)


@pytest.fixture
def quick(monkeypatch):
    """The client asks at once, not after five seconds."""
    monkeypatch.setattr("deepl.translator.time.sleep", lambda seconds: None)


@pytest.mark.usefixtures("quick")
def test_files_with_and_without_glossary(client, tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("The house.\nA dog.\n")
    glossary = client.create_glossary("mine", "EN", "DE", {"house": "Hütte"})
    for terms, house in ((None, "HOUSE"), (glossary, "Hütte")):
        done = client.translate_document_from_filepath(
            source, target, source_lang="EN", target_lang="DE", glossary=terms
        )
        assert target.read_text() == f"THE {house}.\nA DOG.\n"
        assert (done.done, done.billed_characters) == (True, len("The house.A dog."))


def test_the_field_filename_names_the_file(server):
    sent = {"target_lang": "DE", "source_lang": "EN", "filename": "a.txt"}
    address, files = f"{server.url}/v2/document", {"file": ("file", b"A dog.")}
    assert httpx.post(address, data=sent, files=files).status_code == 200
    response = httpx.post(address, data=sent | {"filename": ""}, files=files)
    assert (response.status_code, "Invalid file" in response.json()["message"]) == (400, True)


@pytest.mark.usefixtures("quick")
def test_the_language_is_detected(client):
    output = io.BytesIO()
    handle = client.translate_document_upload(
        "Die Frau schläft im Haus.".encode(), filename="a.txt", target_lang="EN-US"
    )
    client.translate_document_wait_until_done(handle)
    client.translate_document_download(handle, output)
    assert output.getvalue().decode() == "DIE FRAU SCHLÄFT IM HAUS."
    with pytest.raises(deepl.DeepLException, match="Not found"):
        client.translate_document_get_status(handle)  # It is fetched once.


@pytest.mark.usefixtures("quick")
def test_what_cannot_be_translated_is_refused(server, client):
    def upload(content, name, **options):
        return client.translate_document_upload(
            content, filename=name, **{"source_lang": "EN", "target_lang": "DE"} | options
        )

    for content, name, options, message in (
        (b"a", "a.invalid", {}, "Invalid file.*file extension '.invalid'"),
        (b"a", "a.txt", {"target_lang": "EN-GB"}, "Source and target language are equal"),
        (b"\xff", "a.txt", {}, "a.txt"),
        (b"a", "a.txt", {"output_format": "pdf"}, "output_format not supported"),
        (TEMPLATE, "a.pot", {"output_format": "pot"}, "output_format not supported"),
        (b"a", "a.txt", {"formality": "more"}, "'formality' is not supported"),
        (b"a", "a.txt", {"style_rule": "a"}, "'style_id' is not supported"),
    ):
        with pytest.raises(deepl.DeepLException, match=message) as raised:
            upload(content, name, **options)
        assert raised.value.http_status_code == 400
    # The format of a translation may be named; that of a template's is another.
    for content, name, output_format in ((b"a", "a.TXT", "Txt"), (TEMPLATE, "a.pot", "po")):
        handle = upload(content, name, output_format=output_format)
        client.translate_document_wait_until_done(handle)
        key = {"document_key": handle.document_key}
        who = {"Authorization": "DeepL-Auth-Key any key"}
        address = f"{server.url}/v2/document/{handle.document_id}/result"
        result = httpx.post(address, json=key, headers=who)
        translated = "a.po" if output_format == "po" else name
        assert f'filename="{translated}"' in (result.headers["content-disposition"])


@pytest.mark.usefixtures("quick")
def test_a_document_that_is_in_the_target_language_already_fails_later(client):
    before = client.get_usage().character.count
    handle = client.translate_document_upload(
        "Die Frau schläft im Haus.".encode(), filename="a.txt", target_lang="DE"
    )
    status = client.translate_document_wait_until_done(handle)
    assert (status.ok, status.error_message) == (False, "Source and target language are equal.")
    assert client.get_usage().character.count == before


@pytest.mark.usefixtures("quick")
def test_the_status_of_a_document_in_work(serving, deepl_client):
    translator = Gated()
    server = serving([Source(translator=translator)])
    client = deepl_client(server)
    handle = client.translate_document_upload(
        b"A dog.", filename="a.txt", target_lang="DE", source_lang="EN"
    )
    assert re.fullmatch("[0-9A-F]{32}", handle.document_id)
    assert re.fullmatch("[0-9A-F]{64}", handle.document_key)
    assert translator.begun.wait(10)
    status = client.translate_document_get_status(handle)
    assert (status.status.value, status.done, status.ok) == ("translating", False, True)
    assert status.seconds_remaining >= 1
    server.app.state.context.files.find(handle.document_id).changed -= 90
    status = client.translate_document_get_status(handle)
    assert 91 <= status.seconds_remaining < 120, "as long again as so far"
    with pytest.raises(deepl.DocumentNotReadyException, match="Document not ready"):
        client.translate_document_download(handle)
    translator.gate.set()


@pytest.mark.usefixtures("quick")
def test_only_key_and_owner_together_give_the_document(client, server, deepl_client):
    handle = client.translate_document_upload(
        b"a", filename="a.txt", target_lang="DE", source_lang="EN"
    )
    for wrong in (
        deepl.DocumentHandle(handle.document_id, "0" * 64),
        deepl.DocumentHandle("0" * 32, handle.document_key),
    ):
        with pytest.raises(deepl.DeepLException, match="Not found"):
            client.translate_document_get_status(wrong)
    client.translate_document_wait_until_done(handle)
    address = f"{server.url}/download_file/{handle.document_id}/a.txt"
    assert httpx.get(address).status_code == 404  # It is not LibreTranslate's.
    other = deepl_client(server, "other")
    with pytest.raises(deepl.DeepLException, match="Not found"):
        other.translate_document_get_status(handle)


@pytest.mark.usefixtures("quick")
def test_what_a_killed_server_has_not_finished_is_finished_by_the_next(
    serving, deepl_client, tmp_path, caplog
):
    server = serving(storage=tmp_path)
    client = deepl_client(server)
    terms = client.create_glossary("mine", "EN", "DE", {"house": "Hütte"})
    asked = dict(filename="a.txt", target_lang="DE", source_lang="EN", glossary=terms)
    handle = client.translate_document_upload(b"A house.", **asked)
    used = client.get_usage().character.count
    server.stop()
    [record] = tmp_path.glob("files/*/record.json")
    names = {path.name for path in record.parent.iterdir()}
    assert names == {"record.json", "target.txt", "terms.json"}, "the source is not needed any more"
    record.write_text(record.read_text().replace('"done"', '"translating"'))
    record.with_name("target.txt").rename(record.with_name("source.txt"))
    record.with_name("source.txt").write_text("A house.")
    broken, unfinished = tmp_path / "files" / "0" / "record.json", tmp_path / "files" / "1"
    broken.parent.mkdir()
    broken.write_text(record.read_text().replace('"pair"', '"pairs"'))
    unfinished.mkdir()  # The server was killed while this came.
    (unfinished / "source.txt").write_text("A house.")
    again = serving(storage=tmp_path)
    client = deepl_client(again)
    assert client.get_usage().character.count == used == len("A house.")
    output = io.BytesIO()
    assert client.translate_document_wait_until_done(handle).done
    client.translate_document_download(handle, output)
    assert output.getvalue().decode() == "A Hütte."
    assert str(broken.parent) in caplog.text
    assert not unfinished.exists()
    again.stop()
    assert not record.parent.exists()  # What was fetched is removed.
