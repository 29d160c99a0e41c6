"""Stand-ins for TensorFlow Serving: its gRPC and REST interfaces over a bare SavedModel.

They use TensorFlow, TensorFlow Text and the official messages, nothing of the package under test,
and refuse with the codes and texts of TensorFlow Serving (servables/tensorflow/predict_util.cc,
model_servers/http_rest_api_handler.cc, util/json_tensor.cc).
"""

import concurrent.futures
import contextlib
import functools
import http.server
import json
import ssl
import threading
import urllib.parse
from pathlib import Path

import grpc
import tensorflow as tf
import tensorflow_text  # noqa: F401 - gives TensorFlow the operators of the vocabulary
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

STATUS = {status.value[0]: status for status in grpc.StatusCode}
# TensorFlow Serving's status in HTTP; every other one is 500.
HTTP_STATUS = {"INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "FAILED_PRECONDITION": 412}
HTTP_STATUS |= {"RESOURCE_EXHAUSTED": 429, "UNAVAILABLE": 503}


def refusal(status: str, text: str) -> tf.errors.OpError:
    """Returns the error of a request that is not answered, with the gRPC status."""
    return tf.errors.OpError(None, None, text, grpc.StatusCode[status].value[0])


class Model:
    """A version of a model, as TensorFlow Serving holds it."""

    def __init__(self, model_dir: Path, name: str):
        self.spec = (name, int(model_dir.name))
        self._loaded = tf.saved_model.load(str(model_dir))
        content = (model_dir / "saved_model.pb").read_bytes()
        (self.graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs

    def warm_up(self, model_dir: Path) -> list:
        """Runs the requests in the export, as TensorFlow Serving does, and returns them."""
        path = model_dir / "assets.extra" / "tf_serving_warmup_requests"
        records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
        logs = map(prediction_log_pb2.PredictionLog.FromString, records)
        requests = [log.predict_log.request for log in logs]
        for request in requests:
            self(request)
        return requests

    def __call__(self, request, metadata=None, for_rest=False):
        """Returns a PredictResponse, or raises a `refusal`."""
        spec = request.model_spec
        version = spec.version.value if spec.HasField("version") else self.spec[1]
        if (spec.name, version) != self.spec:
            raise refusal("NOT_FOUND", f"Servable not found for request: {spec.name}")
        key = spec.signature_name or "serving_default"
        if key not in self.graph.signature_def:
            status = "INVALID_ARGUMENT" if for_rest else "FAILED_PRECONDITION"
            raise refusal(status, f'Serving signature {"name" if for_rest else "key"} "{key}"')
        signature = self.graph.signature_def[key]
        # REST knows nothing of defaults.
        tensors = {**({} if for_rest else signature.defaults), **request.inputs}
        if set(tensors) != set(signature.inputs):
            text = f"input size does not match signature: {sorted(tensors)}"
            raise refusal("INVALID_ARGUMENT", f"{text}, not {sorted(signature.inputs)}")
        inputs = {
            name: tf.constant(tf.make_ndarray(tensor), signature.inputs[name].dtype)
            for name, tensor in tensors.items()
        }
        return response(spec, self._loaded.signatures[key](**inputs))


def response(spec, outputs):
    tensors = {name: tf.make_tensor_proto(values) for name, values in outputs.items()}
    return predict_pb2.PredictResponse(model_spec=spec, outputs=tensors)


@contextlib.contextmanager
def start_grpc(predict, folder=None, mutual=False, workers=8):
    """Serves while it lasts; gives the port.

    Args:
      predict: from PredictRequest and metadata to PredictResponse or its bytes; raises `refusal`s.
      folder: of server.pem and server.key; None = not encrypted.
      mutual: whether clients need a certificate, this one.
      workers: how many requests at once.
    """

    def answer(request, context):
        try:
            return predict(request, dict(context.invocation_metadata()))
        except tf.errors.OpError as error:
            return context.abort(STATUS[error.error_code], error.message)

    method = grpc.unary_unary_rpc_method_handler(
        answer,
        predict_pb2.PredictRequest.FromString,
        lambda message: message if isinstance(message, bytes) else message.SerializeToString(),
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
    yield port
    server.stop(None)


def json_request(path: str, body: bytes):
    """Returns the PredictRequest of JSON in the columnar form."""
    name, _, version = path.removeprefix("/v1/models/").removesuffix(":predict").partition("/")
    asked = json.loads(body)
    inputs = {key: tf.make_tensor_proto(values) for key, values in asked["inputs"].items()}
    request = predict_pb2.PredictRequest(inputs=inputs)
    request.model_spec.name = urllib.parse.unquote(name)
    request.model_spec.signature_name = asked["signature_name"]
    if version:
        request.model_spec.version.value = int(version.removeprefix("versions/"))
    return request


def json_response(predicted) -> bytes:
    outputs = {name: tf.make_ndarray(tensor).tolist() for name, tensor in predicted.outputs.items()}
    return json.dumps({"outputs": outputs}, default=bytes.decode).encode()


@contextlib.contextmanager
def start_rest(predict, folder=None, mutual=False):
    """As `start_grpc`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                actual = predict(json_request(self.path, body), dict(self.headers))
                status, content = (
                    200,
                    actual if isinstance(actual, bytes) else json_response(actual),
                )
            except tf.errors.OpError as error:
                status = HTTP_STATUS.get(STATUS[error.error_code].name, 500)
                content = json.dumps({"error": error.message}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if folder:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "server.pem")
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        context.verify_mode = ssl.CERT_REQUIRED if mutual else ssl.CERT_NONE
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@contextlib.contextmanager
def serve(model: Model, workers: int = 8):
    """Serves a model while it lasts; gives the ports."""
    rest = start_rest(functools.partial(model, for_rest=True))
    with start_grpc(model, workers=workers) as grpc_port, rest as rest_port:
        yield {"grpc": grpc_port, "rest": rest_port}
