"""A stand-in for TensorFlow Serving: its gRPC and REST interfaces over a bare SavedModel.

A process of its own, with TensorFlow, TensorFlow Text and the official messages; nothing of the
package under test is imported. What it refuses it refuses with the codes and texts of TensorFlow
Serving (servables/tensorflow/predict_util.cc, model_servers/http_rest_api_handler.cc,
util/json_tensor.cc).

    python stand_in_server.py MODEL_DIR NAME [--tls=CERTIFICATE,KEY] [--client_ca=CERTIFICATE]

prints one line of JSON, {"grpc": port, "rest": port, "grpc_tls": port, ...}, when it serves, and
ends when its standard input does. A request asks for faults in its metadata or headers:

    x-fail: KEY:N:CODE   the first N requests with this KEY fail with the gRPC status CODE
    x-delay: SECONDS     the answer takes so long
    x-answer: TEXT       the answer is this text, whatever was asked
"""

import argparse
import collections
import concurrent.futures
import http.server
import json
import os
import ssl
import sys
import threading
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import grpc
import tensorflow as tf
import tensorflow_text  # noqa: F401 - gives TensorFlow the operators of the vocabulary
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
)

CODES = {code.value[0]: code for code in grpc.StatusCode}
# What TensorFlow Serving makes of a status in HTTP; everything else is 500.
HTTP_STATUS = {
    "INVALID_ARGUMENT": 400,
    "NOT_FOUND": 404,
    "FAILED_PRECONDITION": 412,
    "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


class RefusedError(Exception):
    """A request that is not answered, with the gRPC status."""

    def __init__(self, code: str, text: str):
        super().__init__(text)
        self.code, self.text = code, text


class Model:
    """A version of a model, as TensorFlow Serving holds it."""

    def __init__(self, model_dir: Path, name: str):
        self.name, self.version = name, int(model_dir.name)
        self._loaded = tf.saved_model.load(str(model_dir))
        content = (model_dir / "saved_model.pb").read_bytes()
        (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
        self.signatures = {
            key: signature
            for key, signature in graph.signature_def.items()
            if not key.startswith("__")
        }
        warmup = model_dir / "assets.extra" / "tf_serving_warmup_requests"
        if warmup.exists():
            for record in tf.data.TFRecordDataset(str(warmup)).as_numpy_iterator():
                log = prediction_log_pb2.PredictionLog.FromString(record)
                request = log.predict_log.request
                request.model_spec.name = name
                self.predict(request)

    def predict(self, request, for_rest: bool = False) -> dict[str, tf.Tensor]:
        """Returns the outputs, or raises `RefusedError`."""
        spec = request.model_spec
        self.check_found(spec)
        key = spec.signature_name or "serving_default"
        if key not in self.signatures:
            raise RefusedError("FAILED_PRECONDITION", f'Serving signature key "{key}" not found.')
        signature = self.signatures[key]
        # REST knows nothing of defaults.
        defaults = {} if for_rest else signature.defaults
        given = {**defaults, **request.inputs}
        extra, missing = set(given) - set(signature.inputs), set(signature.inputs) - set(given)
        if extra or missing:
            raise RefusedError(
                "INVALID_ARGUMENT",
                f"input size does not match signature. Sent extra: {sorted(extra)}. Missing but "
                f"required: {sorted(missing)}.",
            )
        inputs = {}
        for name, proto in given.items():
            info = signature.inputs[name]
            try:
                array = tf.make_ndarray(proto)
            except (TypeError, ValueError) as error:
                raise RefusedError(
                    "INVALID_ARGUMENT", f"Tensor {name} is malformed: {error}"
                ) from error
            expected = tf.TensorShape(info.tensor_shape)
            if proto.dtype != info.dtype or not expected.is_compatible_with(array.shape):
                raise RefusedError(
                    "INVALID_ARGUMENT",
                    f"Tensor {name}: expected {tf.as_dtype(info.dtype).name} {expected}, got "
                    f"{tf.as_dtype(proto.dtype).name} {array.shape}.",
                )
            inputs[name] = tf.constant(array, info.dtype)
        try:
            return self._loaded.signatures[key](**inputs)
        except tf.errors.OpError as error:
            raise RefusedError(CODES[error.error_code].name, error.message) from error

    def check_found(self, spec) -> None:
        """Raises `RefusedError` unless this is the model that is asked for."""
        version = spec.version.value if spec.HasField("version") else self.version
        if spec.name != self.name or version != self.version:
            wanted = version if spec.HasField("version") else "Latest"
            raise RefusedError(
                "NOT_FOUND", f"Servable not found for request: {wanted}({spec.name})"
            )


class Faults:
    """What a request's metadata asks for."""

    def __init__(self):
        self._counts, self._lock = collections.Counter(), threading.Lock()

    def before(self, metadata: dict[str, str]) -> None:
        """Waits or refuses, as asked."""
        if "x-fail" in metadata:
            key, most, code = metadata["x-fail"].split(":")
            with self._lock:
                self._counts[key] += 1
                count = self._counts[key]
            if count <= int(most):
                raise RefusedError(code, f"fault {count} of {most}")
        time.sleep(float(metadata.get("x-delay", 0)))


class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    """The gRPC interface."""

    def __init__(self, model: Model, faults: Faults):
        self._model, self._faults = model, faults

    def Predict(self, request, context):  # noqa: N802
        """Answers a prediction."""
        try:
            metadata = dict(context.invocation_metadata())
            self._faults.before(metadata)
            response = predict_pb2.PredictResponse(model_spec=request.model_spec)
            if "x-answer" in metadata:
                text = tf.make_tensor_proto([metadata["x-answer"].encode()])
                response.outputs["translation"].CopyFrom(text)
                return response
            for name, tensor in self._model.predict(request).items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(tensor))
            response.model_spec.version.value = self._model.version
            return response
        except RefusedError as refused:
            return context.abort(grpc.StatusCode[refused.code], refused.text)

    def GetModelMetadata(self, request, context):  # noqa: N802
        """Answers what the signatures are."""
        try:
            self._model.check_found(request.model_spec)
        except RefusedError as refused:
            return context.abort(grpc.StatusCode[refused.code], refused.text)
        if list(request.metadata_field) != ["signature_def"]:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Metadata field must be signature_def")
        signatures = get_model_metadata_pb2.SignatureDefMap()
        for key, signature in self._model.signatures.items():
            kept = meta_graph_pb2.SignatureDef()
            kept.CopyFrom(signature)
            kept.ClearField("defaults")
            signatures.signature_def[key].CopyFrom(kept)
        response = get_model_metadata_pb2.GetModelMetadataResponse(model_spec=request.model_spec)
        response.metadata["signature_def"].Pack(signatures)
        return response


def json_outputs(model: Model, body: bytes, name: str, version: str | None) -> dict:
    """Returns the answer to the JSON of a predict request in the columnar form."""
    try:
        asked = json.loads(body)
    except ValueError as error:
        raise RefusedError("INVALID_ARGUMENT", f"JSON Parse error: {error}") from error
    if not isinstance(asked, dict) or "inputs" not in asked:
        raise RefusedError("INVALID_ARGUMENT", "Missing 'inputs' or 'instances' key")
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    if version is not None:
        request.model_spec.version.value = int(version)
    model.check_found(request.model_spec)
    key = asked.get("signature_name", "serving_default")
    request.model_spec.signature_name = key
    if key not in model.signatures:
        text = f'Serving signature name: "{key}" not found in signature def'
        raise RefusedError("INVALID_ARGUMENT", text)
    infos, inputs = model.signatures[key].inputs, asked["inputs"]
    if not isinstance(inputs, dict):
        if len(infos) > 1:
            raise RefusedError(
                "INVALID_ARGUMENT", "inputs is a plain value/list, but expecting object"
            )
        inputs = {next(iter(infos)): inputs}
    for input_name, info in infos.items():
        if input_name not in inputs:
            text = f"Missing named input: {input_name} in 'inputs' object."
            raise RefusedError("INVALID_ARGUMENT", text)
        try:
            proto = tf.make_tensor_proto(inputs[input_name], info.dtype)
        except (TypeError, ValueError) as error:
            text = f"JSON Value: {inputs[input_name]} not formatted correctly"
            raise RefusedError("INVALID_ARGUMENT", text) from error
        request.inputs[input_name].CopyFrom(proto)
    outputs = {}
    for output_name, tensor in model.predict(request, for_rest=True).items():
        values = tensor.numpy()
        if tensor.dtype == tf.string:
            values = tf.nest.map_structure(bytes.decode, values.tolist())
            outputs[output_name] = values
        else:
            outputs[output_name] = values.tolist()
    return {"outputs": next(iter(outputs.values())) if len(outputs) == 1 else outputs}


def rest_handler(model: Model, faults: Faults) -> type:
    """Returns the REST interface."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            metadata = {key.lower(): value for key, value in self.headers.items()}
            try:
                faults.before(metadata)
                if "x-answer" in metadata:
                    self.answer(200, metadata["x-answer"].encode())
                    return
                path, _, method = self.path.removeprefix("/v1/models/").partition(":")
                name, _, version = path.partition("/versions/")
                if not self.path.startswith("/v1/models/") or method != "predict":
                    raise RefusedError("INVALID_ARGUMENT", f"Malformed request: POST {self.path}")
                found = json_outputs(model, body, name, version or None)
                self.answer(200, json.dumps(found).encode())
            except RefusedError as refused:
                status = HTTP_STATUS.get(refused.code, 500)
                self.answer(status, json.dumps({"error": refused.text}).encode())

        def answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    return Handler


class HttpServer(http.server.ThreadingHTTPServer):
    """An HTTP server that says nothing of clients that go away."""

    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        """See the class."""


def serve(arguments: argparse.Namespace) -> None:
    """Serves until standard input ends."""
    model, faults = Model(Path(arguments.model_dir), arguments.name), Faults()
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(arguments.workers),
        options=[("grpc.max_receive_message_length", 2**26)],
    )
    service = Service(model, faults)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, server)
    handler = rest_handler(model, faults)
    ports = {"grpc": server.add_insecure_port("127.0.0.1:0")}
    web = {"rest": HttpServer(("127.0.0.1", 0), handler)}
    if arguments.tls:
        certificate, key = arguments.tls.split(",")
        pairs = [(Path(key).read_bytes(), Path(certificate).read_bytes())]
        for name, client_ca in (("tls", ""), ("mutual", arguments.client_ca)):
            if name == "mutual" and not client_ca:
                continue
            root = Path(client_ca).read_bytes() if client_ca else None
            credentials = grpc.ssl_server_credentials(pairs, root, bool(client_ca))
            ports[f"grpc_{name}"] = server.add_secure_port("127.0.0.1:0", credentials)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            if client_ca:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(client_ca)
            secure = HttpServer(("127.0.0.1", 0), handler)
            # The handshake is done by the thread that reads, not by the one that accepts.
            secure.socket = context.wrap_socket(
                secure.socket, server_side=True, do_handshake_on_connect=False
            )
            web[f"rest_{name}"] = secure
    server.start()
    for web_server in web.values():
        threading.Thread(target=web_server.serve_forever, daemon=True).start()
    ports |= {name: web_server.server_port for name, web_server in web.items()}
    print(json.dumps({**ports, "pid": os.getpid(), "version": model.version}), flush=True)
    sys.stdin.read()
    server.stop(None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model_dir")
    parser.add_argument("name")
    parser.add_argument("--tls", default="", help="certificate and key, both PEM, with a comma")
    parser.add_argument("--client_ca", default="", help="whose clients the mutual ports let in")
    parser.add_argument("--workers", type=int, default=8)
    serve(parser.parse_args())
