"""Translations over REST (HTTP and JSON)."""

import http.client
import json
import ssl
import threading
import urllib.parse
from collections.abc import Sequence
from concurrent.futures import Future

import urllib3

from t2t_keras.decoding.source_text import check_lines
from t2t_keras.decoding.translation import Translation
from t2t_keras.errors import UserError
from t2t_keras.serving.client.endpoint import MAX_REPLY_BYTES, Endpoint, Tls

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
# What urllib3 and http.client raise for a reply that is not HTTP.
_READ_ERRORS = (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, ValueError)
_RETRIED = (429, 502, 503, 504)


class RestClient:
    """A client of TensorFlow Serving over REST; threads may share it.

    Raises:
      UserError: a TLS file cannot be read or used.
    """

    def __init__(self, endpoint: Endpoint):
        self._endpoint = endpoint
        version = "" if endpoint.version is None else f"/versions/{endpoint.version}"
        self._url = (
            f"{'https' if endpoint.tls else 'http'}://{endpoint.address}/v1/models/"
            f"{urllib.parse.quote(endpoint.name, safe='')}{version}:predict"
        )
        self._pool = urllib3.PoolManager(
            maxsize=128,  # connections that are kept open
            headers={**dict(endpoint.metadata), "Content-Type": "application/json"},
            ssl_context=_ssl_context(endpoint.tls) if endpoint.tls else None,
            # `translate` keeps the time of all attempts; this only ends what it has given up.
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

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Returns the translation of each text.

        Raises:
          UserError: there is none, or a text is not UTF-8.
        """
        check_lines(texts)
        endpoint = self._endpoint
        request = {"signature_name": endpoint.signature, "inputs": {"text": list(texts)}}
        body = json.dumps(request).encode("ascii")
        try:
            status, reply = self._post_in_time(body)
        except TimeoutError:
            raise endpoint.error("DEADLINE_EXCEEDED", "") from None
        except urllib3.exceptions.MaxRetryError as error:
            raise endpoint.error("UNAVAILABLE", str(error.reason)) from error
        except _READ_ERRORS as error:
            raise endpoint.malformed(f"{type(error).__name__}: {error}") from error
        try:
            content = json.loads(reply)
        except (ValueError, RecursionError):
            content = None
        content = content if isinstance(content, dict) else {}
        if status != 200:
            name = _STATUS_NAMES.get(status, "UNKNOWN")
            raise endpoint.error(name, f"HTTP {status}: {content.get('error', '')}")
        outputs = content.get("outputs")
        if not isinstance(outputs, dict):  # the only output of a signature comes without its name
            raise endpoint.malformed(f"expected named outputs in JSON, got {reply[:80]!a}")
        return endpoint.translations(outputs, len(texts))

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


def _ssl_context(tls: Tls) -> ssl.SSLContext:
    tls.contents()  # names a file that cannot be read, as ssl does not
    try:
        context = ssl.create_default_context(cafile=tls.ca_file or None)
        if tls.cert_file:
            context.load_cert_chain(tls.cert_file, tls.key_file)
    except ssl.SSLError as error:
        raise UserError(
            f"--tls_ca_file, --tls_cert_file and --tls_key_file must be PEM certificates and the "
            f"key of the second: {error}."
        ) from error
    return context
