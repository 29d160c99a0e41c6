"""Both clients against a stand-in for TensorFlow Serving, in a process of its own."""

import dataclasses
import socket
import subprocess
import sys
import threading
import time

import grpc
import numpy as np
import pytest
from tensorflow_serving.apis import get_model_metadata_pb2, prediction_service_pb2_grpc

from t2t_keras.errors import UserError
from t2t_keras.serving.clients import GrpcClient, RestClient, translate
from t2t_keras.serving.query import translate_lines
from t2t_keras.serving.retries import Retries
from t2t_keras.serving.server_address import Served, Tls

CLIENTS = {"grpc": GrpcClient, "rest": RestClient}
QUICK = Retries(attempts=3, first_wait=0.02, timeout=20.0)


@pytest.fixture(params=CLIENTS)
def protocol(request):
    return request.param


@pytest.fixture
def ask(server, protocol):
    """ask(texts, retries, port, **of Served): what the server answers."""

    def ask(texts, retries=QUICK, port=protocol, **changes):
        number = server.get(port, port)
        served = Served(f"127.0.0.1:{number}", **{"name": "translate", **changes})
        client = CLIENTS[protocol](served)
        try:
            return translate(client, texts, retries)
        finally:
            client.close()

    return ask


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_equals_in_process(ask, server, translator, lines):
    expected = translator.translate(lines)
    for version in (None, server["version"]):
        found = ask(lines, version=version)
        assert [answer.text for answer in found] == [translation.text for translation in expected]
        scores = [translation.score for translation in expected]
        np.testing.assert_allclose([answer.score for answer in found], scores, atol=1e-5)


def test_many_lines_over_one_client(server, protocol, translator, lines):
    client = CLIENTS[protocol](Served(f"127.0.0.1:{server[protocol]}", "translate"))
    many = lines * 8
    found = translate_lines(lambda texts: translate(client, texts, QUICK), many, 3, 4)
    texts = [answer.text for answer in found]
    client.close()
    assert texts == [translation.text for translation in translator.translate(lines)] * 8


@pytest.mark.parametrize("code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED"])
def test_what_fails_for_the_moment_is_tried_again(ask, protocol, code, translator, lines):
    fault = (("x-fail", f"{protocol}-{code}:2:{code}"),)
    assert ask([lines[0]], metadata=fault)[0].text == translator.translate([lines[0]])[0].text


@pytest.mark.parametrize("code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED"])
def test_only_so_often(ask, protocol, code):
    fault = (("x-fail", f"{protocol}-{code}-often:9:{code}"),)
    with pytest.raises(UserError, match=r"fault 3 of 9.*It was tried 3 times"):
        ask(["a"], metadata=fault)


def test_what_stays_wrong_is_not_tried_again(ask, protocol):
    fault = (("x-fail", f"{protocol}-internal:1:INTERNAL"),)
    with pytest.raises(UserError, match=r"refused the request: (INTERNAL|HTTP 500): fault 1 of 1"):
        ask(["a"], metadata=fault)


def test_deadline(ask):
    start = time.monotonic()
    with pytest.raises(UserError, match=r"no answer within 0.3 s .*--timeout_secs"):
        ask(["a"], dataclasses.replace(QUICK, timeout=0.3), metadata=(("x-delay", "3"),))
    assert time.monotonic() - start < 2


def test_no_server(ask):
    with pytest.raises(
        UserError, match=r"No server answers at 127.0.0.1:\d+ over .* tried 3 times"
    ):
        ask(["a"], port=free_port())


def test_a_server_that_comes_late(ask, server, protocol, translator, lines):
    """A port that nobody listens on at first, and that leads to the server later."""
    late, closing = free_port(), threading.Event()

    def forward():
        time.sleep(0.4)
        with socket.create_server(("127.0.0.1", late)) as listener:
            listener.settimeout(10)
            near = listener.accept()[0]
            far = socket.create_connection(("127.0.0.1", server[protocol]))
            pairs = [(near, far), (far, near)]
            pumps = [threading.Thread(target=pump, args=pair, daemon=True) for pair in pairs]
            for thread in pumps:
                thread.start()
            closing.wait(20)
            near.close()
            far.close()

    def pump(one, other):
        try:
            while content := one.recv(65536):
                other.sendall(content)
        except OSError:
            pass

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()
    retries = Retries(attempts=40, first_wait=0.1, longest_wait=0.2, timeout=20)
    try:
        assert ask([lines[0]], retries, late)[0].text == translator.translate([lines[0]])[0].text
    finally:
        closing.set()
        thread.join(10)


def test_no_such_model(ask):
    with pytest.raises(UserError, match=r"no servable 'other' at .*Servable not found.*--servable"):
        ask(["a"], name="other")
    with pytest.raises(UserError, match=r"no servable 'translate' version 5 at"):
        ask(["a"], version=5)


def test_no_such_signature(ask):
    with pytest.raises(UserError, match=r"has no signature 'best'.*--signature_name"):
        ask(["a"], signature="best")


def test_malformed_answers(ask, protocol):
    answers = {
        "grpc": ["translation only"],
        "rest": [
            "<html>hello</html>",
            "[1]",
            '{"outputs": ["a"]}',
            '{"outputs": {"translation": ["a", "b"], "score": [1]}}',
            '{"outputs": {"translation": [1], "score": [1]}}',
            '{"outputs": {"translation": ["a"], "score": ["high"]}}',
            '{"outputs": {"translation": 7, "score": [1]}}',
        ],
    }
    for answer in answers[protocol]:
        with pytest.raises(UserError, match=r"is not what TensorFlow Serving answers|are needed"):
            ask(["a"], metadata=(("x-answer", answer),))


def test_the_other_protocols_port(ask, protocol):
    other = {"grpc": "rest", "rest": "grpc"}[protocol]
    with pytest.raises(UserError, match=r"No server answers|is not what|refused"):
        ask(["a"], port=other)


def test_tls(ask, server, protocol, certificates, translator, lines):
    if certificates is None:
        pytest.skip("needs openssl to make certificates")
    expected = translator.translate(lines[:1])[0].text
    trust = Tls(ca_file=str(certificates / "server.pem"))
    assert ask(lines[:1], port=f"{protocol}_tls", tls=trust)[0].text == expected
    own = {
        name: str(certificates / f"client.{end}")
        for name, end in (("cert_file", "pem"), ("key_file", "key"))
    }
    both = dataclasses.replace(trust, **own)
    assert ask(lines[:1], port=f"{protocol}_mutual", tls=both)[0].text == expected


def test_tls_that_does_not_fit(ask, protocol, certificates, tmp_path):
    if certificates is None:
        pytest.skip("needs openssl to make certificates")
    refused = r"No encrypted connection|No server answers"
    trust = Tls(ca_file=str(certificates / "server.pem"))
    for port, tls in (
        (f"{protocol}_tls", Tls(ca_file=str(certificates / "client.pem"))),  # another issuer
        (f"{protocol}_mutual", trust),  # no certificate of its own
        (f"{protocol}_tls", None),
        (protocol, trust),
    ):
        with pytest.raises(UserError, match=refused + "|is not what"):
            ask(["a"], dataclasses.replace(QUICK, attempts=1), port=port, tls=tls)
    with pytest.raises(UserError, match=r"--tls_ca_file=.* cannot be read: No such file"):
        ask(["a"], tls=Tls(ca_file=str(tmp_path / "none.pem")))
    with pytest.raises(UserError, match="belong together"):
        Tls(cert_file="client.pem")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"address": "localhost"}, "not of the form host:port"),
        ({"address": "http://localhost:8501"}, "not of the form host:port"),
        ({"address": "localhost:85000"}, "a port up to 65535"),
        ({"address": "a..b:8501"}, "not of the form host:port"),
        ({"metadata": (("Big", "x"),)}, "a key is of small letters"),
        ({"metadata": (("key", "ü"),)}, "printable ASCII"),
    ],
)
def test_what_no_server_can_be_asked_with(changes, message):
    with pytest.raises(UserError, match=message):
        Served(**{"address": "localhost:8500", "name": "translate", **changes})


def test_addresses():
    assert (Served("[::1]:8500", "a").host, Served("[::1]:8500", "a").port) == ("::1", 8500)


def test_metadata_names_the_signature(server):
    """GetModelMetadata, with the official client; t2t-query-server does not need it."""
    with grpc.insecure_channel(f"127.0.0.1:{server['grpc']}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        request.model_spec.name = "translate"
        response = stub.GetModelMetadata(request, timeout=20)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    default = signatures.signature_def["serving_default"]
    assert default.method_name == "tensorflow/serving/predict"
    assert (set(default.inputs), set(default.outputs)) == (
        {"text"},
        {"translation", "score", "cut"},
    )


def test_clients_need_no_tensorflow():
    code = """
import sys
sys.modules["tensorflow"] = sys.modules["keras"] = None
from t2t_keras.bin import t2t_query_server
from t2t_keras.serving import clients, messages, query
clients.GrpcClient(clients.Served("127.0.0.1:1", "a")).close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
