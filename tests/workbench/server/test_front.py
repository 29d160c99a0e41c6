"""Bodies before the key, and of odd forms: in process, a message of ASGI at a time."""

import asyncio
import json
import re
import tempfile

import pytest
from upper_case import ASKED, Source

from t2t_keras.workbench.server.access import Access
from t2t_keras.workbench.server.app import Bodies, make_app
from t2t_keras.workbench.server.config import MEBIBYTE, ServerConfig
from t2t_keras.workbench.server.requests import ApiError, describe_stacks

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MIB = b" " * MEBIBYTE


def multipart(parts, charset=""):
    """Returns the content type and the body of a form with these heads and contents."""
    lines = [
        f"--x\r\nContent-Disposition: form-data; {head}\r\n\r\n{text}\r\n" for head, text in parts
    ]
    charset = f"; charset={charset}" * bool(charset)
    return f"multipart/form-data; boundary=x{charset}", ("".join(lines) + "--x--\r\n").encode()


class Asked:
    """What an app answers to a request, and how much of its body it has taken."""

    def __init__(
        self, app, path, kind="", body=b"", method="POST", query=b"", leaves=False, **headers
    ):
        self.status, self.content, self.taken = 0, b"", 0
        headers = {"host": "127.0.0.1", "content-type": kind} | headers
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        chunks = [body[start : start + 65_536] for start in range(0, len(body), 65_536)] or [b""]

        async def receive():
            if self.taken == len(chunks):
                if leaves:
                    return {"type": "http.disconnect"}
                await asyncio.sleep(60)
            self.taken += 1
            more = leaves or self.taken < len(chunks)
            return {"type": "http.request", "body": chunks[self.taken - 1], "more_body": more}

        async def send(message):
            self.status = message.get("status", self.status)
            self.content += message.get("body", b"")

        asyncio.run(app(scope, receive, send))


@pytest.fixture
def app():
    return make_app([Source()], ServerConfig(reload_seconds=0.0, max_wait_ms=0.0))


@pytest.fixture
def keyed(tmp_path):
    """An app that needs the key "secret"."""
    (tmp_path / "keys").write_text("secret\n")
    settings = ServerConfig(reload_seconds=0.0, api_keys_file=tmp_path / "keys", max_wait_ms=0.0)
    return make_app([Source()], settings)


@pytest.mark.parametrize(
    ("charset", "status"),
    [
        ("", 200),
        ("utf-8", 200),
        ('"ISO-8859-1"', 200),
        ("punycode", 400),
        ("utf-8; charset=punycode", 400),
        ("idna", 400),
        ("utf-7", 400),
    ],
)
def test_forms_are_in_utf_8_or_latin_1(app, charset, status):
    form = multipart(
        [(f'name="{name}"', text) for name, text in ({"q": "a"} | ASKED).items()], charset
    )
    assert Asked(app, "/translate", *form).status == status


def bodies(key):
    """Yields a path, and a kind and a body with a key, in each way in which one can come."""
    texts = {"q": "a"} | ASKED
    yield "/translate", JSON, json.dumps(texts | {"api_key": key}).encode()
    yield "/translate", FORM, f"q=a&source=en&target=de&api_key={key}".encode()
    parts = [(f'name="{name}"', text) for name, text in ({"api_key": key} | texts).items()]
    yield "/translate", *multipart(parts)
    yield "/translate_file", *multipart([*parts, ('name="file"; filename="a.txt"', "a")])


@pytest.mark.parametrize(("key", "status"), [("secret", 200), ("wrong", 403), ("", 403)])
def test_a_key_may_come_in_the_body(keyed, key, status):
    for path, kind, body in bodies(key):
        if path != "/translate_file" or status == 403:
            assert Asked(keyed, path, kind, body).status == status


@pytest.mark.parametrize("kind", [JSON, FORM, "multipart/form-data; boundary=x"])
def test_without_a_key_nothing_is_parsed(keyed, kind):
    """What cannot be read is refused for its key all the same."""
    path = "/translate"
    assert Asked(keyed, path, kind, b"[" * 200_000 + b"=&" * 3_000).status == 403
    assert Asked(keyed, path, kind, b"\xff", authorization="Bearer wrong").status == 403


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (FORM, b"q=1&source=en&target=de&api_key=%73ecret"),
        (FORM.title(), b"q=1&source=en&target=de&auth_key=secret"),
        (JSON, b'{"q": "1", "source": "en", "target": "de", "api_key": "\\u0073ecret"}'),
        # After its first MiB, which is the limit for files only.
        (JSON, b'{"q": "1", "source": "en", "target": "de",' + MIB + b'"auth_key": "secret"}'),
    ],
)
def test_how_a_key_is_written_in_a_body(keyed, kind, body):
    assert Asked(keyed, "/translate", kind, body).status == 200
    assert Asked(keyed, "/translate", kind, body.replace(b"ecret", b"ecre")).status == 403


@pytest.mark.parametrize(
    ("head", "address", "status"), [("secret", "no", 200), ("no", "secret", 403)]
)
def test_a_key_in_the_head_comes_before_one_in_the_address(keyed, head, address, status):
    query = f"api_key={address}&q=1&source=en&target=de".encode()
    answer = Asked(keyed, "/translate", query=query, authorization=f"bearer {head}")
    assert answer.status == status


@pytest.mark.parametrize(("more", "status"), [(0, 400), (1, 413)])
@pytest.mark.parametrize("has_length", [True, False])
def test_the_largest_body(more, status, has_length):
    app = make_app([Source()], ServerConfig(reload_seconds=0.0, max_characters=1))
    body = b" " * (12 + MEBIBYTE + more)
    headers = {"content-length": str(len(body))} if has_length else {}
    answer = Asked(app, "/translate", JSON, body, **headers)
    assert (answer.status, answer.taken == 0) == (status, has_length and status == 413)


def test_the_largest_text_may_come_in_escapes():
    app = make_app([Source()], ServerConfig(reload_seconds=0.0, max_characters=150_000))
    body = b'{"q": "' + rb"\ud83d\ude00" * 150_000 + b'", "source": "en", "target": "de"}'
    assert Asked(app, "/translate", JSON, body).status == 200
    app = make_app([Source()], ServerConfig(reload_seconds=0.0, max_characters=300_000))
    parts = {"q": "\U0001f600" * 300_000} | ASKED  # More than 1 MiB.
    form = multipart([(f'name="{name}"', text) for name, text in parts.items()])
    assert Asked(app, "/translate", *form).status == 200


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"q=%C3%A9+%26&q=other", "\u00e9 &"),
        ("q=\u00e9".encode(), "\u00e9"),  # As curl -d sends it.
        ("q=\u00e9".encode("latin-1"), "\u00e9"),
    ],
)
def test_characters_of_a_form(app, body, text):
    answer = Asked(app, "/translate", FORM, b"source=en&target=de&format=&" + body)
    translated_text = json.loads(answer.content)["translatedText"]
    assert (
        translated_text if isinstance(translated_text, str) else translated_text[0]
    ) == text.upper()


@pytest.mark.parametrize("path", ["/detect", "/v2/usage", "/v2/languages"])
def test_a_body_in_json_is_an_object(app, path):
    for body, status in ((b"[]", 400), (b"3", 400), (b"null", 400), (b'{"q": "a"}', 200)):
        assert Asked(app, path, JSON, body).status == status


def test_the_first_of_several_values_counts(app):
    query = b"q=a&source=en&source=xx&target=de&target=xx"
    assert Asked(app, "/translate", query=query).status == 200


@pytest.mark.parametrize(("more", "status"), [(0, 400), (1, 413)])
def test_the_largest_body_of_a_glossary(app, more, status):
    body = b" " * (11 * MEBIBYTE + more)
    length = {"content-length": str(len(body))}
    assert Asked(app, "/v2/glossaries", JSON, body, **length).status == status


def test_a_text_about_keys_does_not_hide_the_key(keyed):
    """Nor does it cost any time: so many are looked at."""
    for count, status in ((15, 200), (16, 403)):
        asked = {"q": ["1"], "x": [{"api_key": "no"}] * count, "api_key": "secret"} | ASKED
        assert Asked(keyed, "/translate", JSON, json.dumps(asked).encode()).status == status


def test_a_form_has_one_file_which_is_closed(app, monkeypatch):
    opened, spooled = [], tempfile.SpooledTemporaryFile

    def open_file(*arguments, **options):
        opened.append(spooled(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr("starlette.formparsers.SpooledTemporaryFile", open_file)
    parts = [(f'name="file"; filename="{name}"', "x") for name in ("a.exe", "b.exe")]
    for count in (1, 2):
        fields = [('name="source"', "en"), ('name="target"', "de"), *parts[:count]]
        answer = Asked(app, "/translate_file", *multipart(fields))
        assert (answer.status, b"file format not" in answer.content) == (400, count == 1)
    assert [file.closed for file in opened] == [True, True]


def test_an_error_is_logged_with_its_causes_and_without_what_they_say():
    secret = "secret"
    try:
        try:
            raise KeyError(secret)
        except KeyError:
            raise ValueError(secret)  # noqa: B904 (of which it is the context)
    except ValueError as error:
        text = describe_stacks(error)
    assert re.findall("^[A-Z].*", text, re.MULTILINE) == ["KeyError", "ValueError"]
    assert text.count("raise ") == 2
    assert '"secret"' not in text


def refuse(*arguments, **options):
    raise AssertionError("a body was parsed before the key")


@pytest.mark.parametrize("path", ["/translate", "/v2/translate", "/page/translate"])
def test_whoever_leaves_during_a_body_is_no_failure_of_the_server(app, keyed, path):
    for front in (app, keyed):
        assert Asked(front, path, JSON, b'{"api_key": "secret", "q": ', leaves=True).status == 499


@pytest.mark.parametrize("headers", [{}, {"authorization": "DeepL-Auth-Key wrong"}])
def test_a_file_without_a_key_is_not_received(keyed, headers, monkeypatch):
    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", refuse)
    parts = [('name="file"; filename="a.txt"', "a" * 8 * MEBIBYTE), ('name="api_key"', "secret")]
    answer = Asked(keyed, "/v2/document", *multipart(parts), **headers)
    assert answer.status == 403
    assert answer.taken <= (0 if headers else 17)


def test_a_file_after_its_key_is_received_whole(keyed):
    file = ('name="file"; filename="a.exe"', "a" * 4 * MEBIBYTE)  # More than a text may be.
    answer = Asked(keyed, "/v2/document", *multipart([('name="api_key"', "secret"), file]))
    assert (answer.status, b"file extension '.exe'" in answer.content) == (400, True)


def test_what_addresses_send_at_once_is_bounded(app, monkeypatch):
    monkeypatch.setattr("t2t_keras.workbench.server.app._MAX_HELD_BYTES_PER_ADDRESS", 1000)
    for size, status in ((900, 400), (1001, 429), (1000, 400)):
        assert Asked(app, "/translate", JSON, b"[" + b" " * (size - 1)).status == status
    bodies = Bodies(Access(), ServerConfig())
    monkeypatch.setattr("t2t_keras.workbench.server.app._MAX_HELD_BYTES", 1500)
    bodies.hold("1.1.1.1", 900)
    bodies.hold("2.2.2.2", 600)
    with pytest.raises(ApiError) as refused:
        bodies.hold("3.3.3.3", 1)
    assert (refused.value.status, refused.value.retry_after) == (503, 5)


@pytest.mark.parametrize(
    ("count", "status"), [(1000, 200), (2000, 413), (2001, 414), (32_000, 414)]
)
def test_parameters_of_an_address_are_counted_before_they_are_read(app, count, status):
    assert Asked(app, "/detect", query=b"&".join([b"q=a"] * count)).status == status


@pytest.mark.parametrize(("lists", "status"), [(99_999, 400), (100_000, 413)])
def test_lists_of_a_body_are_counted_before_they_are_made(app, lists, status):
    body = b'{"q": [' + b",".join([b"[]"] * (lists - 1)) + b"]}"
    assert Asked(app, "/translate", JSON, body).status == status
