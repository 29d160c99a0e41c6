"""Translations over REST (HTTP and JSON)."""

import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Sequence
from concurrent.futures import Future
from http.client import HTTPException
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError, MaxRetryError

from t2t_keras.serving.client.base import Client, max_reply_bytes

_MAX_ERROR_BYTES = 2**14
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


class RestClient(Client):
    """A client of TensorFlow Serving over REST; see `Client`."""

    # OverflowError: the year of a reply's `Retry-After`.
    _malformed = (HTTPError, HTTPException, OSError, OverflowError, ValueError)

    def _connect(self, files: list[bytes | None]) -> None:
        version = "" if self.version is None else f"/versions/{self.version}"
        self._url = (
            f"{'https' if self.tls else 'http'}://{self.address}/v1/models/"
            f"{urllib.parse.quote(self.name, safe='')}{version}:predict"
        )
        ssl_context = ssl.create_default_context(cafile=self.ca_file or None) if self.tls else None
        if self.cert_file:
            ssl_context.load_cert_chain(self.cert_file, self.key_file)
        self._pool = urllib3.PoolManager(
            maxsize=128,  # connections that are kept open
            headers={**dict(self.metadata), "Content-Type": "application/json"},
            ssl_context=ssl_context,
            # `_post_in_time` keeps the time of all attempts; this ends those of a silent server.
            timeout=self.timeout + 1,
            retries=urllib3.Retry(
                total=self.max_attempts - 1,
                other=0,  # among these errors are those of TLS, which stay
                allowed_methods=None,
                status_forcelist=(429, 502, 503, 504),
                raise_on_status=False,
                backoff_factor=0.2,
                backoff_jitter=0.2,
                backoff_max=5,
                retry_after_max=int(self.timeout) + 1,
            ),
        )

    def _predict(self, texts: Sequence[str]) -> dict[str, Any]:
        request = {"signature_name": self.signature, "inputs": {"text": list(texts)}}
        try:
            body = json.dumps(request).encode("ascii")
            status, reply = self._post_in_time(body, max_reply_bytes(texts))
        except TimeoutError:
            raise self._error("DEADLINE_EXCEEDED", "") from None
        except MaxRetryError as error:
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

    def _post_in_time(self, body: bytes, most: int) -> tuple[int, bytes]:
        """Returns the HTTP status and the body of the reply, or raises TimeoutError.

        The timeouts of sockets begin anew with each byte, and urllib3 has none for several
        attempts. Only a server that sends headers byte by byte, or so a reply that is retried,
        keeps the thread, which does not keep the process from ending.
        """
        future, deadline = Future(), time.monotonic() + self.timeout

        def run():
            try:
                future.set_result(self._post(body, most, deadline))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future.result(self.timeout)

    def _post(self, body: bytes, most: int, deadline: float) -> tuple[int, bytes]:
        with self._pool.request(
            "POST", self._url, body=body, redirect=False, preload_content=False
        ) as response:
            reply = bytearray()
            while chunk := response.read1(2**14, decode_content=False):
                reply += chunk
                if time.monotonic() > deadline:
                    raise TimeoutError
                if response.status != 200 and len(reply) >= _MAX_ERROR_BYTES:
                    break
                if len(reply) > most:
                    raise ValueError(f"more than {most:,} bytes")
            return response.status, bytes(reply)
