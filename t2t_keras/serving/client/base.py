"""What the clients over gRPC and REST share: settings, replies and errors."""

import abc
import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from t2t_keras.decoding.lines import check_lines
from t2t_keras.decoding.translation import Translation
from t2t_keras.errors import UserError
from t2t_keras.io.terminal import printable
from t2t_keras.text.files import is_text

# Of any reply. What most need is far less, and read, one can take thirty times its bytes.
MAX_REPLY_BYTES = 2**25

_MAX_DETAILS = 500  # characters of a server's own words
_MAX_FLOAT32 = 3.5e38
_MAX_TIMEOUT = 1_000_000  # seconds; no library's clock goes on for ever
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
    """Returns how long the reply to a request may be: a translation has a few kB at most."""
    return min(2**20 + 2**16 * len(texts), MAX_REPLY_BYTES)


def _is_number(value: Any) -> bool:
    """Returns whether a value is a finite number; JSON's may be larger than any float."""
    return type(value) in (int, float) and abs(value) <= _MAX_FLOAT32


# Name -> whether a value is valid; only exports of t2t-exporter have the last one.
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
      signature: name of one of its signatures.
      version: version of the model; None = the newest.
      tls: whether the connection is encrypted; if so, with these files (PEM):
      ca_file: certificates of the authorities to trust; "" = the system's.
      cert_file: the client's own certificate, for a server that asks for one; "" = none.
      key_file: private key of that certificate.
      metadata: (key, value) pairs to send as gRPC metadata or HTTP headers.
      timeout: seconds for a request with all its attempts.
      max_attempts: most attempts while the server is unavailable; gRPC makes at most 5.

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

    # What `_predict` raises for a reply that TensorFlow Serving would not give.
    _malformed: ClassVar[tuple[type[Exception], ...]]

    def __post_init__(self):
        found = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):([0-9]{1,5})", self.address)
        if not found or not 0 < int(found[2]) < 2**16:
            raise UserError(
                f"--server: expected host:port, as localhost:8500, got {self.address!a}.",
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
                    f"--metadata: expected key=value with a key of a-z, 0-9, '-', '_' and '.', not "
                    f"ending in -bin, and a value of printable ASCII, got {pair!a}.",
                    code="bad_value",
                )
        paths = (self.ca_file, self.key_file, self.cert_file)
        try:
            # Read here, since ssl does not name a file that is missing.
            self._connect([Path(path).read_bytes() if path else None for path in paths])
        except OSError as error:  # or ssl.SSLError, which is one
            raise UserError(
                f"--tls_ca_file and --tls_cert_file must be certificates (PEM), and --tls_key_file "
                f"the key of the second: {error}.",
                code="bad_certificate",
            ) from error

    def __str__(self) -> str:
        version = "" if self.version is None else f" version {self.version}"
        return f"{self.name!r}{version} at {self.address}"

    @abc.abstractmethod
    def _connect(self, files: list[bytes | None]) -> None:
        """Prepares connections; `files` are what `ca_file`, `key_file` and `cert_file` contain."""

    @abc.abstractmethod
    def _predict(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """Returns the outputs of the signature, by name; raises `_error` or `_malformed`."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the connections."""

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Returns the translation of each text.

        Raises:
          UserError: there is none, or a text is not UTF-8.
        """
        check_lines(texts)
        try:
            outputs = self._predict(texts)
            if not {"translation", "score"} <= outputs.keys():
                raise UserError(
                    f"{self}: expected the outputs translation and score of signature "
                    f"{self.signature!r}, got {_shown(', '.join(sorted(outputs)) or 'none')}. Give "
                    f"another --signature_name.",
                    code="malformed_answer",
                )
            return _translations({"cut": [0] * len(texts), **outputs}, len(texts))
        except self._malformed as error:
            raise UserError(
                f"Malformed reply from {self}: {_shown(f'{type(error).__name__}: {error}')}. Check "
                f"that this is TensorFlow Serving's port for the --protocol.",
                code="malformed_answer",
            ) from error

    def _error(self, status: str, details: str) -> UserError:
        """Returns the error for a gRPC status, also over HTTP, and what the server says of it."""
        if status == "INVALID_ARGUMENT" and re.search("signature (key|name)", details, re.I):
            status = "FAILED_PRECONDITION"  # as over gRPC
        if status == "DEADLINE_EXCEEDED":
            details = f"no complete reply within {self.timeout:g} s"
        advice = _ADVICE.get(status, "")
        return UserError(
            f"No translation from {self}: {status} ({_shown(details)}). {advice}", code="no_answer"
        )


def _translations(outputs: Mapping[str, Any], count: int) -> list[Translation]:
    """Returns `count` translations; raises `ValueError` unless each output has as many values."""
    for name, is_valid in OUTPUTS.items():
        values = outputs[name]
        if not isinstance(values, list) or len(values) != count or not all(map(is_valid, values)):
            raise ValueError(f"expected {count} valid values of {name!r}")
    columns = [outputs[name] for name in OUTPUTS]
    return [
        Translation(text, float(score), cut=int(cut))
        for text, score, cut in zip(*columns, strict=True)
    ]


def _shown(details: str) -> str:
    return printable(" ".join(details[: 2 * _MAX_DETAILS].split()), _MAX_DETAILS)
