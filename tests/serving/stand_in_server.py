"""Stand-ins for TensorFlow Serving: its gRPC and REST interfaces over a bare SavedModel.

They use TensorFlow, TensorFlow Text and the official messages, nothing of the package under test,
and refuse with the codes and texts of TensorFlow Serving (servables/tensorflow/predict_util.cc,
model_servers/http_rest_api_handler.cc, util/json_tensor.cc).

    python stand_in_server.py MODEL_DIR NAME WORKERS

prints {"grpc": port, "rest": port} when it serves, and ends when its standard input does.
"""

import concurrent.futures
import contextlib
import http.server
import json
import ssl
import sys
import threading
from pathlib import Path

import grpc
import tensorflow as tf
import tensorflow_text  # noqa: F401 - gives TensorFlow the operators of the vocabulary
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

CODES = {code.value[0]: code.name for code in grpc.StatusCode}
# TensorFlow Serving's status in HTTP; every other one is 500.
HTTP_STATUS = {"INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "FAILED_PRECONDITION": 412}
HTTP_STATUS |= {"RESOURCE_EXHAUSTED": 429, "UNAVAILABLE": 503}


class RefusedError(Exception):
    """A request that is not answered, with the gRPC status."""

    def __init__(self, code: str, text: str):
        super().__init__(text)
        self.code, self.text = code, text


class Model:
    """A version of a model, as TensorFlow Serving holds it."""

    def __init__(self, model_dir: Path, name: str):
        self.spec = (name, int(model_dir.name))
        self._loaded = tf.saved_model.load(str(model_dir))
        content = (model_dir / "saved_model.pb").read_bytes()
        (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
        self._signatures = graph.signature_def

    def warm_up(self, model_dir: Path):
        """Runs the requests in the export, as TensorFlow Serving does."""
        path = model_dir / "assets.extra" / "tf_serving_warmup_requests"
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            self(prediction_log_pb2.PredictionLog.FromString(record).predict_log.request)

    def __call__(self, request, metadata=None, for_rest=False):
        """Returns a PredictResponse, or raises `RefusedError`."""
        spec = request.model_spec
        version = spec.version.value if spec.HasField("version") else self.spec[1]
        if (spec.name, version) != self.spec:
            raise RefusedError("NOT_FOUND", f"Servable not found for request: {spec.name}")
        key = spec.signature_name or "serving_default"
        if key not in self._signatures:
            code = "INVALID_ARGUMENT" if for_rest else "FAILED_PRECONDITION"
            raise RefusedError(code, f'Serving signature {"name" if for_rest else "key"} "{key}"')
        signature = self._signatures[key]
        # REST knows nothing of defaults.
        given = {**({} if for_rest else signature.defaults), **request.inputs}
        if set(given) != set(signature.inputs):
            text = f"input size does not match signature: {sorted(given)}"
            raise RefusedError("INVALID_ARGUMENT", f"{text}, not {sorted(signature.inputs)}")
        inputs = {
            name: tf.constant(tf.make_ndarray(each), signature.inputs[name].dtype)
            for name, each in given.items()
        }
        try:
            outputs = self._loaded.signatures[key](**inputs)
        except tf.errors.OpError as error:
            raise RefusedError(CODES[error.error_code], error.message) from error
        return response(spec, outputs)


def response(spec, outputs):
    """Returns a PredictResponse."""
    made = predict_pb2.PredictResponse(model_spec=spec)
    for name, values in outputs.items():
        made.outputs[name].CopyFrom(tf.make_tensor_proto(values))
    return made


def start_grpc(predict, workers=8, folder=None, mutual=False):
    """Starts a server; returns its port and what ends it.

    Args:
      predict: from PredictRequest and metadata to PredictResponse or its bytes; raises
        `RefusedError`.
      workers: how many requests at once.
      folder: of server.pem and server.key; None = not encrypted.
      mutual: whether clients need a certificate, this one.
    """

    def answer(request, context):
        try:
            return predict(request, dict(context.invocation_metadata()))
        except RefusedError as refused:
            return context.abort(grpc.StatusCode[refused.code], refused.text)

    method = grpc.unary_unary_rpc_method_handler(
        answer,
        predict_pb2.PredictRequest.FromString,
        lambda found: found if isinstance(found, bytes) else found.SerializeToString(),
    )
    service = "tensorflow.serving.PredictionService"
    handler = grpc.method_handlers_generic_handler(service, {"Predict": method})
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(workers), [handler])
    if folder:
        pair = [(folder / f"server.{end}").read_bytes() for end in ("key", "pem")]
        credentials = grpc.ssl_server_credentials([pair], pair[1] if mutual else None, mutual)
        port = server.add_secure_port("127.0.0.1:0", credentials)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return port, lambda: server.stop(None)


def json_request(path: str, body: bytes):
    """Returns the PredictRequest of JSON in the columnar form."""
    name, _, version = path.removeprefix("/v1/models/").removesuffix(":predict").partition("/")
    asked = json.loads(body)
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = asked["signature_name"]
    if version:
        request.model_spec.version.value = int(version.removeprefix("versions/"))
    for key, values in asked["inputs"].items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(values))
    return request


def json_response(found) -> bytes:
    """Returns the JSON of a PredictResponse."""
    outputs = {
        name: tf.nest.map_structure(
            lambda each: each.decode() if isinstance(each, bytes) else each,
            tf.make_ndarray(tensor).tolist(),
        )
        for name, tensor in found.outputs.items()
    }
    return json.dumps({"outputs": outputs}).encode()


class HttpServer(http.server.ThreadingHTTPServer):
    """An HTTP server for many clients; it says nothing of those that go away."""

    request_queue_size = 256

    def handle_error(self, *_):
        """See the class."""


def start_rest(predict, workers=8, folder=None, mutual=False):
    """As `start_grpc`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                found = predict(json_request(self.path, body), dict(self.headers))
                status, content = 200, found if isinstance(found, bytes) else json_response(found)
            except RefusedError as refused:
                status = HTTP_STATUS.get(refused.code, 500)
                content = json.dumps({"error": refused.text}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = HttpServer(("127.0.0.1", 0), Handler)
    if folder:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        if mutual:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(folder / "server.pem")
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server.server_port, lambda: (server.shutdown(), server.server_close())


@contextlib.contextmanager
def serve(model: Model, workers: int = 8):
    """Serves a model while it lasts; gives the ports."""
    grpc_port, stop_grpc = start_grpc(model, workers)
    rest_port, stop_rest = start_rest(lambda *request: model(*request, for_rest=True))
    yield {"grpc": grpc_port, "rest": rest_port}
    stop_grpc()
    stop_rest()


if __name__ == "__main__":
    served = Model(Path(sys.argv[1]), sys.argv[2])
    served.warm_up(Path(sys.argv[1]))
    with serve(served, int(sys.argv[3])) as ports:
        print(json.dumps(ports), flush=True)
        sys.stdin.read()
