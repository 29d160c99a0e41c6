"""Translations over REST (HTTP and JSON)."""

import http.client
import json
import ssl
import threading
import urllib.parse
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import urllib3

from t2t_keras.errors import UserError
from t2t_keras.serving.client.base import MAX_REPLY_BYTES, Client, Endpoint

_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_RETRIED = (429, 502, 503, 504)


class RestClient(Client):
    """A client of TensorFlow Serving over REST; see `Client`."""

    _malformed = (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, ValueError)

    def __init__(self, endpoint: Endpoint):
        super().__init__(endpoint)
        version = "" if endpoint.version is None else f"/versions/{endpoint.version}"
        self._url = (
            f"{'https' if endpoint.tls else 'http'}://{endpoint.address}/v1/models/"
            f"{urllib.parse.quote(endpoint.name, safe='')}{version}:predict"
        )
        self._pool = urllib3.PoolManager(
            maxsize=128,  # connections that are kept open
            headers={**dict(endpoint.metadata), "Content-Type": "application/json"},
            ssl_context=_ssl_context(endpoint) if endpoint.tls else None,
            # `_post_in_time` keeps the time of all attempts; this only ends what it has given up.
            timeout=endpoint.timeout + 1,
            retries=urllib3.Retry(
                total=endpoint.max_attempts - 1,
                other=0,  # among these errors are those of TLS, which stay
                allowed_methods=None,
                status_forcelist=_RETRIED,
                raise_on_status=False,
                backoff_factor=0.2,
                backoff_jitter=0.2,
                backoff_max=5,
                retry_after_max=int(endpoint.timeout) + 1,
            ),
        )

    def _predict(self, texts: Sequence[str]) -> dict[str, Any]:
        request = {"signature_name": self._endpoint.signature, "inputs": {"text": list(texts)}}
        try:
            status, reply = self._post_in_time(json.dumps(request).encode("ascii"))
        except TimeoutError:
            raise self._error("DEADLINE_EXCEEDED", "") from None
        except urllib3.exceptions.MaxRetryError as error:
            raise self._error("UNAVAILABLE", str(error.reason)) from error
        try:
            content = json.loads(reply)
        except (ValueError, RecursionError):
            content = None
        content = content if isinstance(content, dict) else {}
        if status != 200:
            name = _STATUS_NAMES.get(status, "UNKNOWN")
            raise self._error(name, f"HTTP {status}: {content.get('error', '')}")
        outputs = content.get("outputs")
        if not isinstance(outputs, dict):  # the only output of a signature comes without its name
            raise ValueError(f"expected named outputs in JSON, got {reply[:80]!a}")
        return outputs

    def close(self) -> None:
        """Closes the connections."""
        self._pool.clear()

    def _post_in_time(self, body: bytes) -> tuple[int, bytes]:
        """Returns the HTTP status and the body of the reply, or raises TimeoutError.

        The timeouts of sockets begin anew with each byte, and urllib3 has none for several
        attempts. The thread goes on, but does not keep the process from ending.
        """
        future = Future()

        def run():
            try:
                future.set_result(self._post(body))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future.result(self._endpoint.timeout)

    def _post(self, body: bytes) -> tuple[int, bytes]:
        with self._pool.request(
            "POST", self._url, body=body, redirect=False, preload_content=False
        ) as response:
            reply = bytearray()
            while chunk := response.read1(2**16, decode_content=False):
                reply += chunk
                if len(reply) > MAX_REPLY_BYTES:
                    raise ValueError(f"more than {MAX_REPLY_BYTES:,} bytes")
            return response.status, bytes(reply)


def _ssl_context(endpoint: Endpoint) -> ssl.SSLContext:
    endpoint.tls_files()  # names a file that cannot be read, as ssl does not
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file or None)
        if endpoint.cert_file:
            context.load_cert_chain(endpoint.cert_file, endpoint.key_file)
    except ssl.SSLError as error:
        raise UserError(
            f"--tls_ca_file, --tls_cert_file and --tls_key_file must be PEM certificates and the "
            f"key of the second: {error}."
        ) from error
    return context
