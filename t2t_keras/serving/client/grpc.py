"""Translations over gRPC."""

import json
from collections.abc import Sequence

import grpc
from google.protobuf.message import DecodeError

from t2t_keras.serving import messages
from t2t_keras.serving.client.base import MAX_REPLY_BYTES, OUTPUTS, Client, max_reply_bytes

_MAX_ATTEMPTS = 5  # gRPC's own limit


class GrpcClient(Client):
    """A client of TensorFlow Serving over gRPC; see `Client`."""

    _malformed = (DecodeError, ValueError)

    def _connect(self, files: list[bytes | None]) -> None:
        options = _options(self.max_attempts)
        if self.tls:
            credentials = grpc.ssl_channel_credentials(*files)
            self._channel = grpc.secure_channel(self.address, credentials, options)
        else:
            self._channel = grpc.insecure_channel(self.address, options)
        self._call = self._channel.unary_unary(
            messages.PREDICT_METHOD,
            request_serializer=messages.PredictRequest.SerializeToString,
            response_deserializer=bytes,
        )

    def _predict(self, texts: Sequence[str]) -> dict[str, list | None]:
        request = messages.predict_request(
            self.name, self.signature, self.version, text=messages.string_tensor(texts)
        )
        try:
            reply = self._call(request, timeout=self.timeout, metadata=self.metadata)
        except grpc.RpcError as error:
            raise self._error(error.code().name, error.details() or "") from error
        if len(reply) > (most := max_reply_bytes(texts)):
            raise ValueError(f"more than {most:,} bytes")
        outputs = messages.PredictResponse.FromString(reply).outputs
        known = {each.key: each.value for each in outputs if each.key in OUTPUTS}
        return dict.fromkeys(each.key for each in outputs) | {
            name: messages.tensor_values(tensor, len(texts)) for name, tensor in known.items()
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
