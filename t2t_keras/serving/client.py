"""Clients of TensorFlow Serving; they run without TensorFlow and Keras."""

import abc
import collections
import contextlib
import dataclasses
import itertools
import json
import re
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import grpc
import urllib3
from google.protobuf.message import DecodeError
from urllib3.exceptions import HTTPError, MaxRetryError

from t2t_keras.decoding.lines import check_lines
from t2t_keras.decoding.translation import Translation, one_line
from t2t_keras.errors import UserError
from t2t_keras.io.terminal import discard_buffer, printable
from t2t_keras.serving import messages
from t2t_keras.text.files import decoded, is_blank, is_text, lines_of

# Maximum bytes of any reply. A parsed reply can take thirty times as much memory.
MAX_REPLY_BYTES = 2**25

_MAX_QUOTED = 500  # characters of a server's message that an error quotes
_MAX_FLOAT32 = 3.5e38
_MAX_TIMEOUT = 1_000_000  # seconds; clocks of libraries overflow at much larger values
_ADVICE = {
    "DEADLINE_EXCEEDED": "Raise --timeout_secs or lower --batch_size.",
    "FAILED_PRECONDITION": "Check --signature_name: the export's README.md lists the signatures.",
    "NOT_FOUND": "Check --servable_name and --servable_version.",
    "RESOURCE_EXHAUSTED": "Lower --concurrency or --batch_size, or try again later.",
    "UNAVAILABLE": "Check that the server is running, and the port (by default 8500 for "
    "--protocol=grpc, 8501 for --protocol=rest) and --tls.",
    "UNIMPLEMENTED": "Check that TensorFlow Serving, not another server, has this port.",
}


def max_reply_bytes(texts: Sequence[str]) -> int:
    """Returns the size limit of a reply, given that a translation has a few kB at most."""
    return min(2**20 + 2**16 * len(texts), MAX_REPLY_BYTES)


def _is_number(value: Any) -> bool:
    """Returns whether a value is a finite float32; numbers in JSON may be larger."""
    return type(value) in (int, float) and abs(value) <= _MAX_FLOAT32


# Output -> a check of its values. Only exports of t2t-exporter have "cut".
OUTPUTS = {
    "translation": lambda value: isinstance(value, str) and is_text(value),
    "score": _is_number,
    "cut": lambda value: _is_number(value) and value >= 0 and value == int(value),
}


@dataclasses.dataclass(eq=False)
class Client(abc.ABC):
    """A client of TensorFlow Serving; threads may share it.

    Attributes:
      address: "host:port".
      name: name of the model in the server.
      signature: name of one of the model's signatures.
      version: version of the model; None = the newest.
      tls: whether to encrypt the connection; the three files below (PEM) need it.
      ca_file: certificates of the authorities to trust; "" = the system's.
      cert_file: the client's own certificate, if the server asks for one; "" = none.
      key_file: private key of that certificate.
      metadata: (key, value) pairs to send as gRPC metadata or HTTP headers.
      timeout: seconds for a request with all its attempts.
      max_attempts: maximum attempts while the server is unavailable; gRPC makes at most 5.

    Raises:
      UserError: an attribute is invalid, or a TLS file cannot be read or used.
    """

    address: str
    name: str
    signature: str = "serving_default"
    version: int | None = None
    tls: bool = False
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    timeout: float = 10.0
    max_attempts: int = 5

    # What `_predict` raises for replies that TensorFlow Serving would not send.
    _reply_errors: ClassVar[tuple[type[Exception], ...]]

    def __post_init__(self) -> None:
        address = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):([0-9]{1,5})", self.address)
        if not address or not 0 < int(address[2]) < 2**16:
            raise UserError(
                f"--server: expected host:port, such as localhost:8500, got {self.address!a}.",
                code="bad_value",
            )
        if not is_text(self.name + self.signature):
            raise UserError("--servable_name and --signature_name must be UTF-8.", code="bad_value")
        if not 0 < self.timeout <= _MAX_TIMEOUT:
            raise UserError(
                f"--timeout_secs must be > 0 and <= {_MAX_TIMEOUT:,}, got {self.timeout}.",
                code="bad_value",
            )
        if bool(self.cert_file) != bool(self.key_file):
            raise UserError(
                "--tls_cert_file and --tls_key_file must be given together.",
                code="conflicting_settings",
            )
        if (self.ca_file or self.cert_file) and not self.tls:
            raise UserError(
                "--tls_ca_file, --tls_cert_file and --tls_key_file need --tls.",
                code="conflicting_settings",
            )
        for pair in map("=".join, self.metadata):
            if not re.fullmatch(r"[0-9a-z_.-]+(?<!-bin)=[ -~]*", pair):
                raise UserError(
                    f"--metadata: expected key=value, with a key of a-z, 0-9, '-', '_' and '.' "
                    f"that does not end in -bin, and a value of printable ASCII, got {pair!a}.",
                    code="bad_value",
                )
        paths = (self.ca_file, self.key_file, self.cert_file)
        try:
            # Read here, as errors of ssl do not name a missing file.
            self._connect([Path(path).read_bytes() if path else None for path in paths])
        except OSError as error:  # or ssl.SSLError, which is one
            raise UserError(
                f"--tls_ca_file and --tls_cert_file must be certificates (PEM), and --tls_key_file "
                f"the key of --tls_cert_file: {error}.",
                code="bad_certificate",
            ) from error

    def __str__(self) -> str:
        version = "" if self.version is None else f" version {self.version}"
        return f"{self.name!r}{version} at {self.address}"

    @abc.abstractmethod
    def _connect(self, files: list[bytes | None]) -> None:
        """Prepares connections; `files` are the contents of ca_file, key_file and cert_file."""

    @abc.abstractmethod
    def _predict(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """Returns the outputs of the signature, by name; raises `_error` or `_reply_errors`."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the connections."""

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Returns the translation of each text.

        Raises:
          UserError: the server gives no translation, or a text is not valid Unicode.
        """
        check_lines(texts)
        try:
            outputs = self._predict(texts)
            if not {"translation", "score"} <= outputs.keys():
                raise UserError(
                    f"{self}: expected the outputs translation and score of signature "
                    f"{self.signature!r}, got {_quote(', '.join(sorted(outputs)) or 'none')}. "
                    f"Give another --signature_name.",
                    code="malformed_answer",
                )
            return _to_translations({"cut": [0] * len(texts), **outputs}, len(texts))
        except UserError:
            raise
        except self._reply_errors as error:
            raise UserError(
                f"Malformed reply from {self}: {_quote(f'{type(error).__name__}: {error}')}. "
                f"Check that this is TensorFlow Serving's port for the --protocol.",
                code="malformed_answer",
            ) from error

    def _error(self, status: str, details: str) -> UserError:
        """Returns the error for a gRPC status, or its equivalent in HTTP, with details."""
        if status == "INVALID_ARGUMENT" and re.search("signature (key|name)", details, re.I):
            status = "FAILED_PRECONDITION"  # the same as over gRPC
        if status == "DEADLINE_EXCEEDED":
            details = f"no complete reply within {self.timeout:g} s"
        advice = _ADVICE.get(status, "")
        return UserError(
            f"No translation from {self}: {status} ({_quote(details)}). {advice}",
            code="no_answer",
        )


def _to_translations(outputs: Mapping[str, Any], count: int) -> list[Translation]:
    """Returns `count` translations; raises `ValueError` unless each output has `count` values."""
    for name, is_valid in OUTPUTS.items():
        values = outputs[name]
        if not isinstance(values, list) or len(values) != count or not all(map(is_valid, values)):
            raise ValueError(f"expected {count} valid values of {name!r}")
    columns = [outputs[name] for name in OUTPUTS]
    return [
        Translation(text, float(score), cut=int(cut))
        for text, score, cut in zip(*columns, strict=True)
    ]


def _quote(details: str) -> str:
    return printable(" ".join(details[: 2 * _MAX_QUOTED].split()), _MAX_QUOTED)


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

    # OverflowError comes from the year in a reply's `Retry-After`.
    _reply_errors = (HTTPError, HTTPException, OSError, OverflowError, ValueError)

    def _connect(self, files: list[bytes | None]) -> None:
        version = "" if self.version is None else f"/versions/{self.version}"
        self._url = (
            f"{'https' if self.tls else 'http'}://{self.address}/v1/models/"
            f"{urllib.parse.quote(self.name, safe='')}{version}:predict"
        )
        ssl_context = None
        if self.tls:
            ssl_context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.cert_file:
                ssl_context.load_cert_chain(self.cert_file, self.key_file)
        self._pool = urllib3.PoolManager(
            maxsize=128,  # connections that are kept open
            headers={**dict(self.metadata), "Content-Type": "application/json"},
            ssl_context=ssl_context,
            # `_post_before_timeout` limits all attempts together; this limits each attempt.
            timeout=self.timeout + 1,
            retries=urllib3.Retry(
                total=self.max_attempts - 1,
                other=0,  # includes errors of TLS, which are permanent
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
            status, reply = self._post_before_timeout(body, max_reply_bytes(texts))
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
        if not isinstance(outputs, dict):  # a signature's only output comes without its name
            raise ValueError(f"expected named outputs in JSON, got {reply[:80]!a}")
        return outputs

    def close(self) -> None:
        """Closes the connections."""
        self._pool.clear()

    def _post_before_timeout(self, body: bytes, max_bytes: int) -> tuple[int, bytes]:
        """Returns the HTTP status and the body of the reply, or raises TimeoutError.

        Sockets restart their timeouts with each byte, and urllib3 has no timeout for several
        attempts. The thread outlives the timeout only if a server sends headers, or a reply that is
        retried, byte by byte. It is a daemon, so the process can still end.
        """
        future: Future[tuple[int, bytes]] = Future()
        deadline = time.monotonic() + self.timeout

        def run() -> None:
            try:
                future.set_result(self._post(body, max_bytes, deadline))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future.result(self.timeout)

    def _post(self, body: bytes, max_bytes: int, deadline: float) -> tuple[int, bytes]:
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
                if len(reply) > max_bytes:
                    raise ValueError(f"more than {max_bytes:,} bytes")
            return response.status, bytes(reply)


class GrpcClient(Client):
    """A client of TensorFlow Serving over gRPC; see `Client`."""

    _reply_errors = (DecodeError, ValueError)

    def _connect(self, files: list[bytes | None]) -> None:
        options = _channel_options(self.max_attempts)
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
        if len(reply) > (max_bytes := max_reply_bytes(texts)):
            raise ValueError(f"more than {max_bytes:,} bytes")
        outputs = messages.PredictResponse.FromString(reply).outputs
        tensors = {output.key: output.value for output in outputs if output.key in OUTPUTS}
        return dict.fromkeys(output.key for output in outputs) | {
            name: messages.tensor_values(tensor, len(texts)) for name, tensor in tensors.items()
        }

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()


def _channel_options(attempts: int) -> list[tuple[str, int | str]]:
    policy = {
        "maxAttempts": min(attempts, 5),  # gRPC's own limit
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
        # By default gRPC waits a second before it restores a lost connection.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
    ]


Translate = Callable[[Sequence[str]], list[Translation]]


def translate_lines(
    translate: Translate, lines: Iterable[str], batch_size: int, concurrency: int
) -> Generator[Translation, None, None]:
    """Yields a translation for each line, in order; a blank line is not sent and stays blank.

    A `UserError` of `translate` or `lines` is raised after the translations of all earlier lines.
    """
    failures = []

    def readable_lines() -> Iterator[str]:
        try:
            yield from lines
        except UserError as error:
            failures.append(error)

    def translate_batch(batch: list[str]) -> list[Translation]:
        texts = [line for line in batch if not is_blank(line)]
        translations = iter(translate(texts) if texts else ())
        return [Translation("", 0.0) if is_blank(line) else next(translations) for line in batch]

    unsent_lines, pool = readable_lines(), ThreadPoolExecutor(concurrency)
    pending: collections.deque[Future[list[Translation]]] = collections.deque()
    try:
        while batch := list(itertools.islice(unsent_lines, batch_size)):
            pending.append(pool.submit(translate_batch, batch))
            if len(pending) == concurrency:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
    if failures:
        raise failures[0]


def translate_stream(
    translate: Translate,
    source: BinaryIO,
    target: BinaryIO | Path,
    batch_size: int,
    concurrency: int,
    name: str = "the input",
) -> tuple[int, int, int]:
    """Translates a stream line by line; each translation is written and flushed at once.

    If the target is a path, it is opened after the first translation, so that an older file stays
    if no server answers. Control characters are escaped on a terminal. There are at most
    `concurrency` requests of at most `batch_size` lines at a time. Errors call the source `name`.

    Returns:
      The numbers of lines, of translations whose line breaks or tabs became spaces, and of lines
      that were cut because they were too long.

    Raises:
      UserError: see `translate_lines`; or a line is not UTF-8, or the output cannot be written.
    """
    num_lines = num_broken = num_cut = 0
    lines = (decoded(line, name, number) for number, line in enumerate(lines_of(source, name), 1))
    translations = translate_lines(translate, lines, batch_size, concurrency)
    try:
        first = list(itertools.islice(translations, 1))  # none for an empty text
        with contextlib.ExitStack() as stack:
            stack.callback(translations.close)
            if isinstance(target, Path):
                target.parent.mkdir(parents=True, exist_ok=True)
                output: BinaryIO = stack.enter_context(target.open("wb"))
            else:
                output = target
            escape = output.isatty()
            for translation in itertools.chain(first, translations):
                text = one_line(translation.text)
                output.write(f"{printable(text) if escape else text}\n".encode())
                output.flush()
                num_lines += 1
                num_broken += text != translation.text
                num_cut += translation.cut > 0
    except UserError as error:
        raise UserError(
            f"{error} The output ends before line {num_lines + 1}; the lines before it are "
            f"translated.",
            code=error.code,
        ) from error
    except BrokenPipeError:
        raise  # The reader has exited, as `head` does.
    except OSError as error:
        if not isinstance(target, Path):
            discard_buffer(target)
        raise UserError(
            f"Cannot write the translation of line {num_lines + 1}: {error.strerror}.",
            code="not_written",
        ) from error
    return num_lines, num_broken, num_cut
