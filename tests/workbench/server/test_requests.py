"""Shares of clients, errors that are not theirs, the specification and the end, in process."""

import concurrent.futures
import re
import sys
import threading
import time
from unittest.mock import Mock

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient
from upper_case import ASKED, Endless, Source, UpperCase

from t2t_keras.errors import UserError
from t2t_keras.workbench.server import (
    app,
    deepl,
    endpoints,
    files,
    glossaries,
    libretranslate,
    page_api,
    requests,
    run,
)
from t2t_keras.workbench.server.app import make_app
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.endpoints import Call
from t2t_keras.workbench.server.libretranslate import specification
from t2t_keras.workbench.server.page_api import PREFIX_TOO_LONG, OtherWords, WordByWord
from t2t_keras.workbench.server.requests import Parameters


def test_the_specification_has_the_routes_that_are_there(client_of):
    client = client_of()
    actual = client.get("/spec").json()
    assert (actual["swagger"], actual) == ("2.0", specification())
    for path, operations in actual["paths"].items():
        for method, operation in operations.items():
            assert client.request(method, path).status_code not in (404, 405)
            parameters = {
                parameter["name"]: parameter["type"] for parameter in operation["parameters"]
            }
            names = {
                parameter["name"] for parameter in operation["parameters"] if parameter["required"]
            }
            kinds = ["application/x-www-form-urlencoded", "multipart/form-data"]
            is_file = parameters.get("file") == "file"
            assert operation.get("consumes", []) == (kinds if parameters else [])[is_file:]
            if names:
                asked = {"q": "a", **ASKED}
                file = {"file": ("a.txt", b"a")} if "file" in names else None
                assert client.request(method, path, data=asked, files=file).status_code == 200
                for name in names - {"file"} - ({"q"} if file else set()):
                    missing = {key: asked[key] for key in asked if key != name}
                    answer = client.request(method, path, data=missing, files=file)
                    assert (answer.status_code, name in answer.json()["error"]) == (400, True)


def test_without_py3langid_a_language_cannot_be_detected(client_of, monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    client = client_of(Source("kk", "de"), Source("ky", "de"))
    assert client.post("/detect", json={"q": "a"}).status_code == 501
    asked = {"q": "a", "source": "kk", "target": "de"}
    assert client.post("/translate", json=asked).status_code == 200


@pytest.mark.parametrize(("code", "status"), [(PREFIX_TOO_LONG, 400), ("nan", 500)])
def test_only_a_long_prefix_is_the_clients_fault(client_of, monkeypatch, code, status):
    monkeypatch.setattr(OtherWords, "__call__", Mock(side_effect=UserError("as asked", code=code)))
    asked = {"q": "a", "prefix": "a"} | ASKED
    answer = client_of().post("/page/alternatives", json=asked)
    assert (answer.status_code, "as asked" in answer.text) == (status, status == 400)


def test_what_the_page_asks_of_a_model(client_of, monkeypatch):
    asked = []
    for work in (WordByWord, OtherWords):
        answer = lambda work, *_: asked.append(work) or [{"text": ""}]  # noqa: E731
        monkeypatch.setattr(work, "__call__", answer)
    client, terms = client_of(Source("en", "fr")), [["a", "b"]]
    for path in ("/page/translate", "/page/alternatives"):
        sent = {"q": "a", "prefix": "b", "glossary": terms, "source": "en", "target": "fr"}
        assert client.post(path, json=sent).status_code == 200
        assert client.post(path, json=sent | {"target": "en"}).status_code == 400
    translation, alternatives = asked
    text, whole = "Mr. Smith came.", ["Mr. Smith came."]  # Mr. ends French sentences.
    assert translation.splitter(text) == alternatives.splitter(text) == whole
    assert alternatives.target_splitter(text) == ["Mr. ", "Smith came."]
    assert (alternatives.prefix, alternatives.count) == ("b", 8)
    assert translation.glossary is alternatives.glossary, "made once"
    assert [(term.source, term.target) for term in translation.glossary] == [("a", "b")]


def test_two_batches_are_translated_at_a_time(client_of):
    both = threading.Barrier(2, timeout=10)

    class Meeting(UpperCase):
        def encode(self, *arguments):
            both.wait()
            return super().encode(*arguments)

    client = client_of(Source(translator=Meeting()))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = [{"q": "a", "format": kind} | ASKED for kind in ("text", "html")]
        answers = pool.map(lambda body: client.post("/translate", json=body), asked)
        assert [answer.status_code for answer in answers] == [200, 200]


def test_whose_share_a_request_uses(client_of, tmp_path):
    (tmp_path / "keys").write_text("a\nb\n")

    def sharers(context):
        return [
            Call(
                context,
                Request({"type": "http", "client": (address, 1), "headers": []}),
                Parameters({}),
                context.access.admit(key, address),
            ).share_owner
            for key, address in (("a", "8.8.8.8"), ("a", "2001:db8::9"), ("b", "2001:db8::1"))
        ]

    one, same, other = sharers(client_of(api_keys_file=tmp_path / "keys").app.state.context)
    assert one == same != other
    client = client_of()
    one, other, same = sharers(client.app.state.context)
    assert one != other == same
    for path in ("/translate_file", "/v2/document"):
        languages = {"source_lang": "EN", "target_lang": "DE"} | ASKED
        client.post(path, data=languages, files={"file": ("a.txt", b"a")})
    files = client.app.state.context.files
    assert [file.client for file in files._files.values()] == ["127.0.0.1"] * 2


def test_the_time_to_stop_begins_with_the_signal():
    app = make_app([Source(translator=Endless())], ServerConfig(stop_seconds=30.0))
    with TestClient(app, client=("127.0.0.1", 1)) as client:
        sent = {"source_lang": "EN", "target_lang": "DE"}
        client.post("/v2/document", data=sent, files={"file": ("a.txt", b"a" * 100_000)})
        app.state.stop_by = began = time.monotonic()
    assert time.monotonic() - began < 10


# All others need a key where there are any; /suggest is refused anyway.
OPEN = {"/languages", "/frontend/settings", "/download_file/{file_id}/{name}", "/spec"}
OPEN |= {"/v2/{rest:path}", "/v3/{rest:path}"}  # They answer 404.


def test_which_routes_need_a_key(client_of, tmp_path):
    (tmp_path / "keys").write_text("secret\n")
    client = client_of(api_keys_file=tmp_path / "keys")
    apis = deepl, libretranslate, page_api
    routes = {
        (route.path, method) for api in apis for route in api.ROUTES for method in route.methods
    }
    assert {path for path, _ in routes} > OPEN
    for path, method in routes:
        for headers in ({}, {"Authorization": "Bearer secre"}):
            answer = client.request(method, re.sub(r"\{.*?\}", "a", path), headers=headers)
            assert (answer.status_code == 403) == (path not in OPEN), path
    assert {client.get(path).status_code for path in ("/", "/health", "/spec", "/page.js")} == {200}


def test_limits_are_those_of_the_documents(root):
    text = " ".join((root / "docs" / "serving.md").read_text().split())
    slow, kib = run.MAX_SECONDS_OF_BODY / 60, run.BYTES_PER_SECOND >> 10
    numbers = "", "one", "two"
    for phrase in (
        f"{glossaries._MAX_TERMS:,} terms and {glossaries._MAX_BYTES >> 20} MiB for each pair, ",
        f", {glossaries._MAX_PER_OWNER:,} glossaries and ",
        f" {glossaries._MAX_BYTES_PER_OWNER >> 20} MiB for each key, ",
        f"{glossaries._MAX_GLOSSARIES:,} and {glossaries._MAX_BYTES_OF_ALL >> 30} GiB for all",
        f"stored files: {files._MAX_FILES:,} with {files._MAX_BYTES >> 30} GiB in all, ",
        f" {files._MAX_FILES_PER_OWNER} with {files._MAX_BYTES_PER_OWNER >> 30} GiB for each key",
        f"bodies being received: {app._MAX_HELD_BYTES >> 30} GiB in all, ",
        f" {app._MAX_HELD_BYTES_PER_ADDRESS >> 20} MiB of an address",
        f"{requests.MAX_FIELDS:,} parameters; {requests._MAX_CONTAINERS:,} lists and objects",
        f"{page_api._MAX_TERMS:,} terms of ",
        f" {page_api._MAX_TERM_CHARACTERS:,} characters in all; ",
        f"; {page_api._MAX_LINE_CHARACTERS:,} characters each of `q` and `prefix`",
        f"lines ({page_api._MAX_LINES:,} at most)",
        f"{run.SECONDS_OF_HEAD:g} seconds for a head of 64 KiB",
        f"{run.SECONDS_OF_BODY:g} seconds for a body, or {slow:g} minutes if it comes",
        f"{kib} KiB a second or more; {run.SECONDS_OF_READING:g} seconds without",
        f"a probability of {100 * endpoints._MIN_CONFIDENCE:g} % or more",
        f"After {100 * files._STOP_FRACTION:g} % of",
        f"{requests._BASE_SEARCHES}, and {numbers[requests._SEARCHES_PER_CHARACTER]} for each",
    ):
        assert phrase in text
