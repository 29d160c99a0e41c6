"""Translations over gRPC."""

import json
from collections.abc import Sequence

import grpc
from google.protobuf.message import DecodeError

from t2t_keras.serving import messages
from t2t_keras.serving.client.base import MAX_REPLY_BYTES, OUTPUTS, Client, Endpoint

_MAX_ATTEMPTS = 5  # gRPC's own limit


class GrpcClient(Client):
    """A client of TensorFlow Serving over gRPC; see `Client`."""

    _malformed = (DecodeError, ValueError)

    def __init__(self, endpoint: Endpoint):
        super().__init__(endpoint)
        options = _options(endpoint.max_attempts)
        if endpoint.tls:
            credentials = grpc.ssl_channel_credentials(*endpoint.tls_files())
            self._channel = grpc.secure_channel(endpoint.address, credentials, options)
        else:
            self._channel = grpc.insecure_channel(endpoint.address, options)
        self._call = self._channel.unary_unary(
            messages.PREDICT_METHOD,
            request_serializer=messages.PredictRequest.SerializeToString,
            response_deserializer=bytes,
        )

    def _predict(self, texts: Sequence[str]) -> dict[str, list | None]:
        endpoint = self._endpoint
        request = messages.predict_request(
            endpoint.name, endpoint.signature, endpoint.version, text=messages.string_tensor(texts)
        )
        try:
            reply = self._call(request, timeout=endpoint.timeout, metadata=endpoint.metadata)
        except grpc.RpcError as error:
            raise self._error(error.code().name, error.details() or "") from error
        return {
            each.key: messages.tensor_values(each.value, len(texts))
            if each.key in OUTPUTS
            else None
            for each in messages.PredictResponse.FromString(reply).outputs
        }

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
