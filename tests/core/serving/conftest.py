"""A translator of random weights, its export, and a stand-in for TensorFlow Serving.

The stand-in translates into capitals.
"""

import collections
import contextlib
import shutil
import subprocess
import time

import numpy as np
import pytest
import stand_in_server
from served_models import (  # noqa: F401
    connect,
    expected,
    export_ports,
    exported,
    lines,
    loaded,
    protocol,
    served,
    small_translator,
    translator,
)


class Upper:
    """The model.

    Attributes:
      address: "host:port" of its server.
      plan: what to do with the next requests: a gRPC status to fail with, seconds to wait, or the
        bytes to reply.
      requests: (name, version, signature, texts, metadata) of each request.
    """

    def __init__(self):
        self.plan, self.requests = collections.deque(), []

    def __call__(self, request, metadata):
        spec = request.model_spec
        version = spec.version.value if spec.HasField("version") else None
        texts = [text.decode() for text in request.inputs["text"].string_val]
        self.requests.append((spec.name, version, spec.signature_name, texts, metadata))
        step = self.plan.popleft() if self.plan else None
        if isinstance(step, bytes):
            return step
        if isinstance(step, float):
            time.sleep(step)
        elif step or "bad" in texts:
            text = f"fault {len(self.requests)}\nof \x1b]0;the server: {spec.signature_name}"
            raise stand_in_server.refusal(step or "INVALID_ARGUMENT", text)
        cut = [int("long" in text) for text in texts]
        outputs = {"translation": [text.upper() for text in texts], "cut": np.int32(cut)}
        outputs["score"] = np.full(len(texts), -0.5, np.float32)
        return stand_in_server.response(spec, outputs)


@pytest.fixture
def start_server(protocol):  # noqa: F811
    """start_server(**of start_grpc): the model, whose server ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(**settings):
            model = Upper()
            server = getattr(stand_in_server, f"start_{protocol}")(model, **settings)
            model.address = f"127.0.0.1:{stack.enter_context(server)}"
            return model

        yield start


@pytest.fixture
def server(start_server):
    return start_server()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """Folder with server.pem, signed by itself, and server.key."""
    if not shutil.which("openssl"):
        pytest.skip("needs openssl to make certificates")
    folder = tmp_path_factory.mktemp("certificates")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    command += " -subj /CN=server -addext subjectAltName=IP:127.0.0.1,DNS:localhost"
    files = ["-keyout", folder / "server.key", "-out", folder / "server.pem"]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return folder
