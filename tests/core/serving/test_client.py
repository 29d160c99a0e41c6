"""Clients against a stand-in for TensorFlow Serving, and lines and streams through them."""

import contextlib
import io
import json
import resource
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import tensorflow as tf
from refusals import refused
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import predict_pb2

from t2t_keras.decoding.translation import Translation
from t2t_keras.errors import UserError
from t2t_keras.serving.client import (
    MAX_REPLY_BYTES,
    max_reply_bytes,
    translate_lines,
    translate_stream,
)


def test_sends_the_request_and_reads_the_answers(server, connect):
    metadata = (("user", "me"), ("token", "a=b"))
    client = connect(server.address, version=3, signature="other", metadata=metadata)
    texts = ["a long dog", "ü 🐈"]
    translations = client.translate(texts)
    assert translations == [Translation("A LONG DOG", -0.5, cut=1), Translation("Ü 🐈", -0.5)]
    connect(server.address).translate(["a"])
    connect(server.address, version=0).translate(["a"])
    asked, default, first = server.requests
    assert asked[:4] == ("ende", 3, "other", texts)
    assert set(metadata) <= asked[4].items()
    assert default[1:3] == (None, "serving_default")
    assert first[1] == 0
    connect(server.address, name="en/de ü").translate(["a"])
    assert server.requests[-1][0] == "en/de ü"


def test_retries_while_the_server_is_unavailable(server, connect):
    """Also a request that is larger than gRPC keeps for another attempt by default."""
    server.plan.extend(["UNAVAILABLE", "RESOURCE_EXHAUSTED"])
    text = "a" * 2**19
    assert connect(server.address).translate([text])[0].text == text.upper()
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "most", "attempts"),
    [("UNAVAILABLE", 1, 1), ("RESOURCE_EXHAUSTED", 3, 3), ("INTERNAL", 3, 1)],
)
def test_fails_after_the_last_attempt(server, connect, status, most, attempts):
    server.plan.extend([status] * 9)
    with refused("no_answer", f"fault {attempts} ") as caught:
        connect(server.address, max_attempts=most).translate(["a"])
    assert len(server.requests) == attempts
    # One line, and nothing that a terminal would obey.
    assert str(caught.value).isprintable()


def test_an_unknown_signature(server, connect):
    server.plan.append("INVALID_ARGUMENT")
    with refused("no_answer", "FAILED_PRECONDITION", "--signature_name"):
        connect(server.address, signature="Signature Name").translate(["a"])


def test_no_reply_in_time(server, connect):
    server.plan.append(1.5)
    start, names = time.monotonic(), ["DEADLINE_EXCEEDED", "0.3 s", "--timeout_secs"]
    with refused("no_answer", f"'ende' version 3 at {server.address}", *names):
        connect(server.address, version=3, timeout=0.3).translate(["a"])
    assert time.monotonic() - start < 1.5


@pytest.mark.parametrize("host", ["127.0.0.1", "a..b"])
def test_no_server(protocol, connect, host):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    code = "malformed_answer" if (protocol, host) == ("rest", "a..b") else "no_answer"
    with refused(code, host):
        connect(f"{host}:{port}", max_attempts=2).translate(["a"])


def _tensor(dtype=1, sizes=(1,), **values):
    shape = {"dim": [{"size": size} for size in sizes]}
    return tensor_pb2.TensorProto(dtype=dtype, tensor_shape=shape, **values)


def _grpc_reply(**changes):
    """Returns a good reply for one text, but for the tensors in `changes`."""
    tensors = {"translation": tf.make_tensor_proto(["A"]), "score": tf.make_tensor_proto([-0.5])}
    return predict_pb2.PredictResponse(outputs={**tensors, **changes}).SerializeToString()


def _rest_reply(**changes):
    return json.dumps({"outputs": {"translation": ["A"], "score": [-0.5], **changes}}).encode()


@pytest.mark.parametrize("protocol", ["grpc"], indirect=True)
@pytest.mark.parametrize("cut", [_tensor(3, [2], int_val=[7]), tf.make_tensor_proto([7, 7])])
def test_all_forms_of_tensors_are_read(server, connect, cut):
    """The last value stands for all that follow."""
    tensors = {"translation": tf.make_tensor_proto(["ü 🐈", ""]), "cut": cut}
    server.plan.append(_grpc_reply(**tensors, score=_tensor(sizes=[2], float_val=[-1.25])))
    translations = connect(server.address).translate(["a", "b"])
    assert translations == [Translation("ü 🐈", -1.25, cut=7), Translation("", -1.25, cut=7)]


GRPC_REPLIES = {
    "no message": b"\xff\xff",
    "no outputs": b"",
    "300 million scores": _grpc_reply(score=_tensor(1, [300_000_000], float_val=[-0.5])),
    "negative size": _grpc_reply(score=_tensor(1, [-1], float_val=[-0.5])),
    "no score": _grpc_reply(score=_tensor()),
    "five bytes": _grpc_reply(score=_tensor(tensor_content=b"12345")),
    "infinite": _grpc_reply(score=_tensor(float_val=[float("inf")])),
    "scores of strings": _grpc_reply(score=_tensor(7, string_val=[b"1"])),
    "float64": _grpc_reply(score=_tensor(2, double_val=[-0.5])),
    "not UTF-8": _grpc_reply(translation=_tensor(7, string_val=[b"\xff"])),
    "cut below 0": _grpc_reply(cut=_tensor(3, int_val=[-1])),
    "too long": b" " * (MAX_REPLY_BYTES + 1),
    # Good but for their size, of which a message would take many times as much.
    "a million empty outputs": _grpc_reply() + b"\n\x00" * 10**6,
}
REST_REPLIES = {
    "HTML": b"<html>hello</html>",
    "a list": b"[1]",
    "outputs without names": b'{"outputs": ["a"]}',
    "no score": b'{"outputs": {"translation": ["A"]}}',
    "a long name": b'{"outputs": {"%s": ["A"]}}' % (b"long" * 10_000),
    "nested": b"[" * 200_000 + b"]" * 200_000,
    "1e400": _rest_reply().replace(b"-0.5", b"1e400"),
    "400 digits": _rest_reply().replace(b"-0.5", b"1" * 400),
    "NaN": _rest_reply(score=[float("nan")]),
    "true": _rest_reply(score=[True]),
    "a surrogate": _rest_reply(translation=["\ud800"]),
    "a string": _rest_reply(translation="A"),
    "two texts": _rest_reply(translation=["A", "B"]),
    "cut below 0": _rest_reply(cut=[-1]),
    "cut in parts": _rest_reply(cut=[0.5]),
    "half a million lists": _rest_reply(more=[[]] * 500_000),
}


@pytest.mark.parametrize(
    ("protocol", "reply"),
    [("grpc", name) for name in GRPC_REPLIES] + [("rest", name) for name in REST_REPLIES],
    indirect=["protocol"],
)
def test_malformed_replies_are_refused(protocol, reply, server, connect):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    server.plan.append({"grpc": GRPC_REPLIES, "rest": REST_REPLIES}[protocol][reply])
    code = "no_answer" if (protocol, reply) == ("grpc", "too long") else "malformed_answer"
    with refused(code, server.address) as caught:
        connect(server.address, max_attempts=1).translate(["a"])
    assert len(str(caught.value)) < 800
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


OK = b"HTTP/1.1 200 OK\r\n"
LATE = b"HTTP/1.1 503 X\r\nContent-Length: 0\r\nRetry-After: "
RAW_REPLIES = {
    "no HTTP": ([b"hello\r\n\r\n"], "no_answer", "UNAVAILABLE"),
    "huge length": ([OK + b"Content-Length: %d\r\n\r\n{}" % 10**40], "malformed_answer", ""),
    "no date": ([LATE + b"a \x0b b\r\n\r\n"], "malformed_answer", "header: a b."),
    "negative length": ([OK + b"Content-Length: -5\r\n\r\n{}"], "malformed_answer", ""),
    "chunk": (
        [OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n{}"],
        "malformed_answer",
        "",
    ),
    "late retry": (
        [LATE + b"Mon, 01 Jan 99999999999 00:00:00 GMT\r\n\r\n"],
        "malformed_answer",
        "",
    ),
    "long error": ([b"HTTP/1.1 500 X\r\n\r\n", *[b"[" * 5000] * 60], "no_answer", "HTTP 500"),
    "many headers": ([OK + b"X: a\r\n" * 1000 + b"\r\n"], "no_answer", "UNAVAILABLE"),
    "slow headers": ([OK, *[b"X"] * 60], "no_answer", "DEADLINE_EXCEEDED"),
    "slow body": (
        [OK + b"Content-Length: 9999\r\n\r\n", *[b"X"] * 6000],
        "no_answer",
        "DEADLINE_EXCEEDED",
    ),
}


@pytest.mark.parametrize("protocol", ["rest"], indirect=True)
@pytest.mark.parametrize("reply", RAW_REPLIES)
def test_malformed_or_slow_http_is_refused(reply, connect):
    pieces, code, status = RAW_REPLIES[reply]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                for piece in pieces:
                    connection.sendall(piece)
                    time.sleep(0.01)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with refused(code, status):
            connect(address, max_attempts=1 + (b"503" in pieces[0]), timeout=0.3).translate(["a"])
    # The client hangs up.
    thread.join(10)
    assert not thread.is_alive()


# What a proxy answers too: whether it is tried again.
HTTP_CODES = [
    (302, "UNKNOWN", 1),
    (400, "INVALID_ARGUMENT", 1),
    (404, "NOT_FOUND --servable_version", 1),
    (408, "DEADLINE_EXCEEDED --timeout_secs", 1),
    (412, "FAILED_PRECONDITION --signature_name", 1),
    (429, "RESOURCE_EXHAUSTED --concurrency", 2),
    (501, "UNIMPLEMENTED TensorFlow", 1),
    (502, "UNAVAILABLE 8501", 2),
    (503, "UNAVAILABLE 8501", 2),
    (504, "DEADLINE_EXCEEDED --timeout_secs", 2),
]


@pytest.mark.parametrize("protocol", ["rest"], indirect=True)
@pytest.mark.parametrize(("code", "name", "attempts"), HTTP_CODES)
def test_codes_of_http(connect, code, name, attempts):
    head = b"HTTP/1.1 %d X\r\nLocation: /other\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    seen = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        seen.append(connection.recv(65536))
                        connection.sendall(head % code)

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with refused("no_answer", *name.split()):
            connect(address, max_attempts=2, timeout=5).translate(["a"])
    assert len(seen) == attempts


def test_tls(start_server, connect, certificates):
    encrypted = start_server(folder=certificates)
    mutual = start_server(folder=certificates, mutual=True)
    certificate, key = (str(certificates / f"server.{end}") for end in ("pem", "key"))
    trust = {"tls": True, "ca_file": certificate}
    own = {"cert_file": certificate, "key_file": key}
    for server, settings in ((encrypted, trust), (mutual, trust | own)):
        assert connect(server.address, **settings).translate(["a"])[0].text == "A"
    for server, settings in (
        (encrypted, {"tls": True}),  # an issuer that the system does not trust
        (mutual, trust),  # no certificate of its own
        (encrypted, {}),
        (start_server(), trust),
    ):
        with pytest.raises(UserError) as refusal:
            connect(server.address, max_attempts=1, **settings).translate(["a"])
        assert refusal.value.code in ("no_answer", "malformed_answer")


@pytest.mark.parametrize(
    ("protocol", "name"),
    [("grpc", "none.pem"), ("rest", "none.pem"), ("rest", "text.pem")],
    indirect=["protocol"],
)
def test_a_file_that_is_no_certificate(connect, tmp_path, name):
    (tmp_path / "text.pem").write_text("text")
    with refused("bad_certificate", "--tls_ca_file"):
        connect("127.0.0.1:1", tls=True, ca_file=str(tmp_path / name))


@pytest.mark.parametrize("protocol", ["rest"], indirect=True)
@pytest.mark.parametrize(
    ("changes", "code", "flag"),
    [
        ({"address": "localhost"}, "bad_value", "--server"),
        ({"address": "http://localhost:8501"}, "bad_value", "--server"),
        ({"address": "localhost:65536"}, "bad_value", "--server"),
        ({"address": "localhost:0"}, "bad_value", "--server"),
        ({"address": "user@host:8501"}, "bad_value", "--server"),
        ({"name": "\udcff"}, "bad_value", "--servable_name"),
        ({"timeout": 1_000_001}, "bad_value", "--timeout_secs"),
        ({"timeout": 0}, "bad_value", "--timeout_secs"),
        ({"timeout": float("nan")}, "bad_value", "--timeout_secs"),
        ({"metadata": (("Big", "x"),)}, "bad_value", "--metadata"),
        ({"metadata": (("key", "ü"),)}, "bad_value", "--metadata"),
        ({"metadata": (("key-bin", "x"),)}, "bad_value", "--metadata"),
        ({"ca_file": "server.pem"}, "conflicting_settings", "--tls."),
        (
            {"cert_file": "client.pem", "key_file": "client.key"},
            "conflicting_settings",
            "--tls.",
        ),
        ({"tls": True, "cert_file": "client.pem"}, "conflicting_settings", "--tls_key_file"),
        ({"tls": True, "key_file": "client.key"}, "conflicting_settings", "--tls_cert_file"),
    ],
)
def test_invalid_settings(connect, changes, code, flag):
    with refused(code, flag):
        connect(**{"address": "[::1]:8500", **changes})


@pytest.mark.parametrize("changes", [{"address": "a.b-c:65535"}, {"timeout": 1_000_000}])
def test_the_largest_settings(connect, changes):
    connect(**{"address": "[::1]:8500", **changes})


def test_clients_need_no_tensorflow():
    code = """
import sys
sys.modules["tensorflow"] = sys.modules["keras"] = None
from t2t_keras.bin import t2t_query_server
from t2t_keras.serving import client
client.GrpcClient("127.0.0.1:1", "a").close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_reply_may_have_a_mebibyte_and_64_kib_a_line():
    most = [max_reply_bytes(["a"] * lines) for lines in (0, 1, 496, 497)]
    assert most == [2**20, 2**20 + 2**16, 2**25, 2**25]


@pytest.mark.parametrize("over", [0, 1])
def test_a_reply_may_be_as_long(server, connect, protocol, over):
    reply = {"grpc": _grpc_reply, "rest": _rest_reply}[protocol]()
    more = max_reply_bytes(["a"]) + over - len(reply)
    if protocol == "grpc":  # A field that it does not know.
        more -= 4
        reply += bytes([15 << 3 | 2, more & 127 | 128, more >> 7 & 127 | 128, more >> 14])
    server.plan.append(reply + b" " * more)
    client = connect(server.address, max_attempts=1)
    if over:
        with refused("malformed_answer"):
            client.translate(["a"])
    else:
        assert client.translate(["a"]) == [Translation("A", -0.5)]


def upper(texts):
    return [Translation(text.upper(), -1.0) for text in texts]


@pytest.mark.parametrize("batch_size", [1, 7, 100])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_order_and_blank_lines(batch_size, concurrency):
    sent = []

    def translate(texts):
        time.sleep(0.002 * max(0, 5 - len(sent)))  # the first requests take longest
        sent.extend(texts)
        return upper(texts)

    lines = [" " if i % 5 == 0 else f"line {i}" for i in range(23)]
    actual = [line.text for line in translate_lines(translate, lines, batch_size, concurrency)]
    assert actual == ["" if i % 5 == 0 else f"LINE {i}" for i in range(23)]
    assert sorted(sent) == sorted(line for line in lines if line.strip())


def test_a_reader_that_has_gone_ends_it():
    class Gone(io.BytesIO):
        def write(self, _):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        translate_stream(upper, io.BytesIO(b"a\nb\n"), Gone(), 1, 1)


def test_what_cannot_be_written_is_not_written_again_at_exit():
    with Path("/dev/full").open("wb") as target, refused("not_written", "line 1:"):
        translate_stream(upper, io.BytesIO(b"a\n"), target, 1, 1)


def test_requests_at_once():
    together = threading.Barrier(3, timeout=10)

    def translate(texts):
        together.wait()  # breaks unless three wait at once
        return upper(texts)

    assert len([*translate_lines(translate, ["a"] * 6, 1, 3)]) == 6


@pytest.mark.parametrize(
    ("source", "batch_size", "code", "named", "written"),
    [
        (b"0\n1\n2\n3\n4\nbad\n6\n7\n", 2, "no_answer", ["gone", "5"], b"0\n1\n2\n3\n"),
        (b"one\n\ntwo\n\xff!\nthree\n", 2, "not_utf8", ["the input:4 "], b"ONE\n\nTWO\n"),
        (b"one\n\ntwo\n\xff!\nthree\n", 10, "not_utf8", ["the input:4 "], b"ONE\n\nTWO\n"),
    ],
)
@pytest.mark.parametrize("concurrency", [1, 4])
def test_the_lines_before_an_error_are_written(
    source, batch_size, code, named, written, concurrency
):
    def translate(texts):
        if "bad" in texts:
            raise UserError("gone", code="no_answer")
        return upper(texts)

    target = io.BytesIO()
    with refused(code, *named):
        translate_stream(translate, io.BytesIO(source), target, batch_size, concurrency)
    assert target.getvalue() == written


@pytest.mark.parametrize("is_terminal", [False, True])
def test_only_a_line_feed_ends_a_line_and_terminals_get_no_control_characters(is_terminal):
    source = io.BytesIO("\ufeffone\r\ntwo\u2028three\nlast".encode())
    target = type("Target", (io.BytesIO,), {"isatty": lambda self: is_terminal})()
    broken = [Translation("a\nb\tc\x07\rd", -1.0, cut=7)]
    translate = lambda texts: upper(texts) if texts != ["last"] else broken  # noqa: E731
    assert translate_stream(translate, source, target, 1, 1) == (3, 1, 1)
    bell = r"\x07" if is_terminal else "\x07"
    lines = target.getvalue().decode().split("\n")
    assert (lines[0], lines[2:]) == ("ONE", [f"a b c{bell} d", ""])
    assert is_terminal or lines[1] == "TWO\u2028THREE"


def test_a_program_that_writes_a_line_and_waits_for_its_translation_gets_it():
    near, far = socket.socketpair()
    streams = far.makefile("rb"), far.makefile("wb")
    thread = threading.Thread(target=translate_stream, args=(upper, *streams, 1, 1))
    thread.start()
    near.settimeout(10)
    with near, far:
        for line in (b"one\n", b"two\n"):
            near.sendall(line)
            assert near.recv(100) == line.upper()
        near.shutdown(socket.SHUT_WR)
        thread.join()


def test_equals_in_process(connect, export_ports, protocol, exported, lines, expected):
    address = f"127.0.0.1:{export_ports[protocol]}"
    for version in (None, int(exported.name)):
        assert connect(address, name="translate", version=version).translate(lines) == expected


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        ({"signature": "score"}, "INVALID_ARGUMENT"),
        ({"name": "other"}, "--servable_name"),
        ({"version": 5}, "--servable_version"),
        ({"signature": "best"}, "--signature_name"),
    ],
)
def test_refusals(connect, export_ports, protocol, settings, flag):
    client = connect(f"127.0.0.1:{export_ports[protocol]}", **{"name": "translate", **settings})
    with refused("no_answer", flag):
        client.translate(["a"])
