"""Translations over gRPC."""

import json
from collections.abc import Sequence

import grpc
from google.protobuf.message import DecodeError

from t2t_keras.decoding.source_text import check_lines
from t2t_keras.decoding.translation import Translation
from t2t_keras.serving import messages
from t2t_keras.serving.client.endpoint import MAX_REPLY_BYTES, OUTPUTS, Endpoint

_MAX_ATTEMPTS = 5  # gRPC's own limit


class GrpcClient:
    """A client of TensorFlow Serving over gRPC; threads may share it.

    Raises:
      UserError: a TLS file cannot be read.
    """

    def __init__(self, endpoint: Endpoint):
        self._endpoint = endpoint
        options = _options(endpoint.max_attempts)
        if endpoint.tls:
            files = endpoint.tls.contents()
            credentials = grpc.ssl_channel_credentials(
                files["ca_file"], files["key_file"], files["cert_file"]
            )
            self._channel = grpc.secure_channel(endpoint.address, credentials, options)
        else:
            self._channel = grpc.insecure_channel(endpoint.address, options)
        self._predict = self._channel.unary_unary(
            messages.PREDICT_METHOD,
            request_serializer=messages.PredictRequest.SerializeToString,
            response_deserializer=bytes,
        )

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Returns the translation of each text.

        Raises:
          UserError: there is none, or a text is not UTF-8.
        """
        check_lines(texts)
        endpoint = self._endpoint
        request = messages.predict_request(
            endpoint.name, endpoint.signature, endpoint.version, text=messages.string_tensor(texts)
        )
        try:
            reply = self._predict(request, timeout=endpoint.timeout, metadata=endpoint.metadata)
        except grpc.RpcError as error:
            raise endpoint.error(error.code().name, error.details() or "") from error
        try:
            outputs = messages.PredictResponse.FromString(reply).outputs
            values = {
                each.key: messages.tensor_values(each.value, len(texts))
                if each.key in OUTPUTS
                else None
                for each in outputs
            }
        except (DecodeError, ValueError) as error:
            raise endpoint.malformed(f"{type(error).__name__}: {error}") from error
        return endpoint.translations(values, len(texts))

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()


def _options(attempts: int) -> list[tuple[str, int | str]]:
    policy = {
        "maxAttempts": min(attempts, _MAX_ATTEMPTS),
        "initialBackoff": "0.2s",
        "maxBackoff": "5s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
    }
    config = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]} if attempts > 1 else {}
    return [
        ("grpc.service_config", json.dumps(config)),
        ("grpc.enable_retries", int(attempts > 1)),
        # A request larger than this buffer would not be retried.
        ("grpc.per_rpc_retry_buffer_size", 2**30),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", MAX_REPLY_BYTES),
        # Otherwise a lost connection is not tried again for a second.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
    ]
