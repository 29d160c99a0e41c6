"""What holds for every route: limits, keys, errors, metrics, the log, CORS, TLS, the end."""

import asyncio
import concurrent.futures
import contextlib
import http.client
import io
import json
import logging
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import deepl
import httpx
import pytest
import uvicorn
from libretranslatepy import LibreTranslateAPI
from refusals import refused
from upper_case import ASKED, Endless, Gated, Source

from t2t_keras.workbench.server import run
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.run import Address
from t2t_keras.workbench.server.service import Metrics, Options, TranslationService


def test_larger_bodies_are_refused_however_they_come(serving):
    url = serving(max_characters=1000, max_file_bytes=2000).url
    large = b'{"q": "' + b"a" * 3_000_000
    chunks = (large[start : start + 100_000] for start in range(0, len(large), 100_000))
    for content in (large, chunks):
        response = httpx.post(f"{url}/translate", content=content)
        assert response.status_code == 413
        assert "expected at most" in response.json()["error"]
    for size in (2_100, 3_000_000):
        sent = {"file": ("a.txt", b"a" * size)}
        response = httpx.post(f"{url}/v2/document", data={"target_lang": "DE"}, files=sent)
        assert (response.status_code, list(response.json())) == (413, ["message"])


def test_keys_of_both_apis(serving, deepl_client, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret\tmine\t\t20\n")
    server = serving(api_keys_file=keys)
    url = server.url
    assert LibreTranslateAPI(url, "secret").translate("one", "en", "de") == "ONE"
    for header in ("Bearer secret", "DeepL-Auth-Key secret"):
        response = httpx.post(
            f"{url}/translate", json={"q": "a"} | ASKED, headers={"Authorization": header}
        )
        assert response.json() == {"translatedText": "A"}
    for key, message in (("", "to get an API key"), ("wrong", "Invalid API key")):
        response = httpx.post(f"{url}/translate", json={"q": "a", "api_key": key} | ASKED)
        assert (response.status_code, message in response.json()["error"]) == (403, True)
    with pytest.raises(deepl.AuthorizationException):
        deepl_client(server, "wrong").get_usage()
    client = deepl_client(server, "secret")
    assert (client.get_usage().character.count, client.get_usage().character.limit) == (5, 20)
    with pytest.raises(deepl.QuotaExceededException):
        client.translate_text("a" * 16, target_lang="DE")
    sent = {"file": ("a.txt", b"explode")}  # A file that fails is not charged for.
    assert httpx.post(f"{url}/translate_file?api_key=secret", data=ASKED, files=sent).is_error
    assert client.get_usage().character.count == 5
    assert httpx.get(f"{url}/frontend/settings").json()["keyRequired"]


def test_too_many_requests_are_told_when_to_come_again(serving):
    url = serving(requests_per_minute=2).url
    responses = [httpx.post(f"{url}/translate", json={"q": "a"} | ASKED) for _ in range(3)]
    assert [response.status_code for response in responses] == [200, 200, 429]
    assert responses[2].json()["error"].startswith("Slowdown: ")
    assert 1 <= int(responses[2].headers["Retry-After"]) <= 30
    response = httpx.get(f"{url}/v2/usage")
    assert (response.status_code, response.json()["message"][:8]) == (429, "Too many")
    assert httpx.get(f"{url}/health").status_code == 200


@pytest.mark.parametrize(("proxy", "status"), [("127.0.0.1", 200), ("10.0.0.1", 429), (None, 429)])
def test_only_a_trusted_proxy_says_who_asks(serving, proxy, status):
    address = Address(port=0, trusted_proxies=(proxy,) if proxy else ())
    url = serving(address=address, requests_per_minute=1).url
    for client, expected in (("8.8.8.8", 200), ("9.9.9.9", status)):
        sent = {"q": "a"} | ASKED
        response = httpx.post(f"{url}/translate", json=sent, headers={"X-Forwarded-For": client})
        assert response.status_code == expected


def test_an_address_as_a_browser_opens_it():
    assert Address(host="::1", port=80).url == "http://[::1]:80/"
    assert Address("example.org", 443, certificate=Path("a")).url == "https://example.org:443/"
    assert Address().url == "http://127.0.0.1:5000/"


@pytest.fixture
def one_at_once(monkeypatch):
    """What comes while a batch is translated must wait."""
    monkeypatch.setattr("t2t_keras.workbench.server.service.BATCHES_AT_ONCE", 1)


@pytest.mark.usefixtures("one_at_once")
def test_a_full_queue_is_told_at_once(serving):
    source = Source(translator=Gated())
    url = serving([source], max_queue_lines=1).url
    with concurrent.futures.ThreadPoolExecutor() as pool:
        ask = lambda: httpx.post(f"{url}/translate", json={"q": "a"} | ASKED, timeout=20)  # noqa: E731
        first = pool.submit(ask)
        assert source.translator.begun.wait(10)
        further = [pool.submit(ask) for _ in range(2)]
        done, _ = concurrent.futures.wait(further, return_when=concurrent.futures.FIRST_COMPLETED)
        answer = next(iter(done)).result()
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
        source.translator.gate.set()
        assert first.result().json() == {"translatedText": "A"}


@pytest.mark.usefixtures("one_at_once")
def test_what_is_begun_is_not_refused():
    translator, permits, metrics = Gated(), threading.Semaphore(0), Metrics()
    translator.gate = SimpleNamespace(wait=lambda seconds: permits.acquire(timeout=seconds))
    config = ServerConfig(max_batch_lines=1, max_queue_lines=1, reload_seconds=0.0)
    service = TranslationService([Source(translator=translator)], config, metrics)
    asked = ("en", "de"), ["a", "b"], Options()

    async def ask():
        long = asyncio.create_task(service.run(*asked))
        await asyncio.to_thread(translator.begun.wait, 10)
        files = [asyncio.to_thread(service.translate_now, *asked) for _ in range(2)]
        waiting = asyncio.gather(long, *files)
        while b't2t_serve_queued_lines{model="en-de"} 2.0' not in metrics.text():
            await asyncio.sleep(0.01)
        permits.release()
        await asyncio.sleep(0.1)  # "a" is done; a file's line is begun, the other's waits.
        permits.release(5)
        actual = await waiting
        await service.close()
        return [translation.text for translation in actual[0]]

    assert asyncio.run(ask()) == ["A", "B"]


@pytest.mark.usefixtures("one_at_once")
def test_whoever_hangs_up_is_not_translated_for(serving):
    source = Source(translator=Gated())
    url = serving([source]).url
    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(httpx.post, f"{url}/translate", json={"q": "a"} | ASKED, timeout=20)
        assert source.translator.begun.wait(10)
        file = {"files": {"file": ("a.txt", b"unwanted")}, "data": ASKED}
        for path, sent in (
            ("/translate", {"json": {"q": "unwanted"} | ASKED}),
            ("/translate_file", file),
        ):
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(f"{url}{path}", **sent, timeout=0.3)
            while f'route="{path}",status="499"' not in httpx.get(f"{url}/metrics").text:
                pass  # The other may not have come yet.
        assert 't2t_serve_queued_lines{model="en-de"} 0.0' in httpx.get(f"{url}/metrics").text
        source.translator.gate.set()
        first.result()
    assert httpx.post(f"{url}/translate", json={"q": "b"} | ASKED).json() == {"translatedText": "B"}
    assert ["unwanted"] not in source.translator.calls
    used = httpx.get(f"{url}/v2/usage").json()["character_count"]
    assert used == len("ab" + "unwanted"), "of these only the file was begun"


def test_what_takes_too_long_is_ended_and_charged(serving, tmp_path):
    (tmp_path / "keys").write_text("secret\n")
    source = Source(translator=Endless())
    server = serving([source], max_job_seconds=0.05, api_keys_file=tmp_path / "keys")
    asked = {"q": "abc", "api_key": "secret", "glossary": [["a", "b"]]} | ASKED
    for number, (path, kind) in enumerate(
        (("/translate", "text"), ("/translate", "html"), ("/page/translate", "")), 1
    ):
        sent = asked | ({"format": kind} if kind else {})
        response = httpx.post(f"{server.url}{path}", json=sent, timeout=20)
        assert (response.status_code, "takes too long" in response.json()["error"]) == (503, True)
        assert "Retry-After" not in response.headers, "it would take as long again"
        used = httpx.get(f"{server.url}/v2/usage?api_key=secret").json()["character_count"]
        assert used == 3 * number


class EndlessForLongLines(Gated):
    def translate(self, lines, *arguments, **options):
        self.gate.set()
        while len(lines[0]) > 1:
            super().translate(lines)
        return super().translate(lines)


@pytest.mark.usefixtures("one_at_once")
def test_whoever_hangs_up_pays_for_what_was_begun(serving, tmp_path):
    (tmp_path / "keys").write_text("secret\n")
    source = Source(translator=EndlessForLongLines())
    server = serving([source], api_keys_file=tmp_path / "keys")
    address, key = f"{server.url}/translate", {"api_key": "secret"}
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    connection.request("POST", "/translate", json.dumps({"q": "a" * 200_000} | key | ASKED))
    assert source.translator.begun.wait(10)
    connection.close()
    while 'route="/translate",status="499"' not in httpx.get(f"{server.url}/metrics").text:
        pass
    # And what was begun is ended.
    assert httpx.post(address, json={"q": "b"} | key | ASKED, timeout=5).is_success
    used = httpx.get(f"{server.url}/v2/usage?api_key=secret").json()["character_count"]
    assert used == 200_001


@pytest.mark.parametrize(("size", "is_refused"), [(500_000, False), (500_001, True)])
def test_the_terms_of_a_request_are_bounded(serving, size, is_refused):
    terms = [["a" * 400, "b"]] * 1000 + [["c" * (size - 401_000), ""]]
    asked = {"q": "a", "glossary": terms} | ASKED
    response = httpx.post(f"{serving().url}/page/translate", json=asked)
    assert (response.status_code == 413) == is_refused


@pytest.mark.parametrize("log_text", [False, True])
def test_the_log_has_text_only_if_asked(serving, aligning, caplog, log_text):
    caplog.set_level(logging.INFO)
    server = serving([Source(translator=aligning)], log_text=log_text)
    for path in ("/translate", "/page/translate"):
        httpx.post(f"{server.url}{path}", json={"q": "secret words"} | ASKED)
    for word, message in (("explode", "Internal server"), ("refuse", "cannot be translated")):
        asked = {"q": [word, "secret words"]} | ASKED
        response = httpx.post(f"{server.url}/translate?a=secret+words", json=asked)
        assert (response.status_code, message in response.json()["error"]) == (500, True)
        sent = {"file": ("a.txt", f"{word}\nsecret words".encode())}
        assert httpx.post(f"{server.url}/translate_file", data=ASKED, files=sent).is_error
    server.stop()
    assert "upper_case.py" in caplog.text
    assert caplog.text.count("RuntimeError") >= 2
    assert re.search(r"POST /translate 200 \d+ ms", caplog.text)
    assert caplog.text.count("'secret words' -> 'SECRET WORDS'") == 2 * log_text
    # The client of this test logs its addresses.
    own = [record.getMessage() for record in caplog.records if record.name != "httpx"]
    assert any("secret" in message for message in own) == log_text


@pytest.mark.parametrize("path", ["/translate", "/v2/translate"])
def test_pages_of_other_sites_cannot_ask_blindly_either(serving, path):
    server = serving(cors=("https://example.org",))
    own, sent = server.url.removeprefix("http://"), {"q": "a", "text": "a", "target_lang": "DE"}

    def status(**headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        form = sent | ASKED | {"source_lang": "EN"}
        return httpx.post(f"{server.url}{path}", data=form, headers=headers).status_code

    for good in (
        {},
        {"origin": f"http://{own}"},
        {"origin": "https://example.org"},
        {"origin": "https://proxied.org", "sec_fetch_site": "same-origin"},
        {"host": "localhost:5000"},
        {"host": "[::1]"},
    ):
        assert status(**good) == 200
    for bad in (
        {"origin": "https://evil.org", "sec_fetch_site": "cross-site"},
        {"origin": "https://other.proxied.org", "sec_fetch_site": "same-site"},
        {"origin": "null"},
        # A name that its owner has lead to this machine.
        {
            "host": "evil.org:5000",
            "origin": "http://evil.org:5000",
            "sec_fetch_site": "same-origin",
        },
        {"host": "127.0.0.1.evil.org"},
    ):
        assert status(**bad) == 403


def test_tls(serving, tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate} -days 1"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command.split(), *subject], check=True, capture_output=True)
    url = serving(address=Address(port=0, certificate=certificate, key=key)).url
    assert url.startswith("https://")
    trusting = ssl.create_default_context(cafile=certificate)
    response = httpx.post(f"{url}/translate", json={"q": "a"} | ASKED, verify=trusting)
    assert response.json() == {"translatedText": "A"}
    with refused("bad_certificate", key):
        serving(address=Address(port=0, certificate=key, key=key))


def test_files_that_cannot_be_used_are_named(serving):
    with refused("not_read", "a" * 300):
        serving(api_keys_file=Path("a" * 300))


def test_a_server_that_does_not_start_says_so(monkeypatch):
    async def startup(server, sockets=None):
        server.should_exit = True  # As older uvicorns do, newer ones exit.
        started.append(server)

    started = []
    monkeypatch.setattr(uvicorn.Server, "startup", startup)
    with refused("server_not_started"):
        run.serve([Source()], address=Address(port=0))
    assert [server.ends_process for server in started] == [True]


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_both_signals_end_it_while_it_runs(serving, kind):
    server, before = serving().server, signal.getsignal(kind)
    with server.capture_signals():
        assert signal.getsignal(kind) == server.handle_exit
        server.handle_exit(kind, None)
    assert (server.should_exit, signal.getsignal(kind)) == (True, before)


@pytest.mark.parametrize("stream", ["/dev/full", None])
def test_a_failing_standard_output_does_not_keep_it_from_serving(serving, monkeypatch, stream):
    with contextlib.ExitStack() as open_files:
        full = stream and open_files.enter_context(FullStream(stream))
        monkeypatch.setattr(sys, "stdout", full)
        assert httpx.get(f"{serving().url}/health").status_code == 200


class FullStream(io.StringIO):
    """A standard output on a full disk."""

    def flush(self):
        if not self.closed:
            raise OSError(28, "No space left on device")

    def close(self):
        with contextlib.suppress(OSError):
            super().close()


def test_an_address_that_is_taken_is_refused(serving):
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        refused("cannot_listen", taken.getsockname()[1]),
    ):
        serving(address=Address(port=taken.getsockname()[1]))


def test_the_end_waits_for_all_that_was_asked(serving, monkeypatch):
    monkeypatch.setattr(run, "SECONDS_TO_ACCEPT", 0.5)
    source = Source(translator=Gated())
    server = serving([source])
    client = httpx.Client(base_url=server.url, timeout=20)
    client.get("/health")  # Its connection stays open.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = [
            pool.submit(httpx.post, f"{server.url}/translate", json={"q": text} | ASKED, timeout=20)
            for text in "abc"
        ]
        assert source.translator.begun.wait(10)
        while 'route="/translate"' in httpx.get(f"{server.url}/metrics").text:
            pass
        server.server.should_exit = True
        late = pool.submit(client.post, "/translate", json={"q": "late"} | ASKED)
        source.translator.gate.set()
        actual = [request.result().json()["translatedText"] for request in asked]
        assert actual == ["A", "B", "C"]
        assert late.result().json() == {"translatedText": "LATE"}
    client.close()
    server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/health")


def test_the_end_loses_nothing_of_busy_clients(serving, monkeypatch):
    monkeypatch.setattr(run, "SECONDS_TO_ACCEPT", 1.5)
    server = serving()
    host = server.url.removeprefix("http://")
    busy = threading.Barrier(9)

    def ask_until_told():
        connection = http.client.HTTPConnection(host, timeout=20)
        for number in range(100_000):
            connection.request("POST", "/translate", json.dumps({"q": "a"} | ASKED))
            answer = connection.getresponse()
            assert json.loads(answer.read()) == {"translatedText": "A"}
            if number == 3:
                busy.wait(20)
            if answer.will_close:
                connection.close()
                return

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        clients = [pool.submit(ask_until_told) for _ in range(8)]
        busy.wait(20)
        server.server.should_exit = True
        for client in clients:
            client.result()


def test_the_process_ends_in_time_whatever_is_unfinished(serving, monkeypatch):
    ended = concurrent.futures.Future()
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    monkeypatch.setattr(run.os, "_exit", ended.set_result)
    server = serving(stop_seconds=0.1)
    server.server.ends_process = True
    server.stop()
    assert ended.result(10) == 0


def test_a_page_is_there_and_nothing_is_loaded_from_a_network(serving):
    url = serving().url
    page = httpx.get(f"{url}/")
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r'(src|href)="(https?:)?//', page.text)
    assert httpx.get(f"{url}/page.js").status_code == 200
    assert httpx.get(f"{url}/../app.py").status_code == 404
    for path in ("docs", "redoc", "openapi.json"):
        assert httpx.get(f"{url}/{path}").status_code == 404
    assert json.loads(httpx.get(f"{url}/nothing").content) == {"error": "Not Found"}
