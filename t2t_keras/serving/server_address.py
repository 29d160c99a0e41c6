"""Where a model is served, and how to speak to it."""

import dataclasses
import re
import ssl
from pathlib import Path

from t2t_keras.errors import UserError


@dataclasses.dataclass(frozen=True)
class Tls:
    """Encryption, as gRPC and HTTP do it.

    Attributes:
      ca_file: certificates (PEM) that the server's must come from; "" = those of the system.
      cert_file: the client's own certificate (PEM), where the server asks for one; "" = none.
      key_file: its private key (PEM).

    Raises:
      UserError: a certificate without its key, or a key without its certificate.
    """

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def __post_init__(self):
        if bool(self.cert_file) != bool(self.key_file):
            raise UserError("--tls_cert_file and --tls_key_file belong together: give both.")

    def content(self, name: str) -> bytes | None:
        """Returns what is in one of the files, None for "".

        Raises:
          UserError: it cannot be read.
        """
        path = getattr(self, name)
        if not path:
            return None
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise UserError(f"--tls_{name}={path} cannot be read: {error.strerror}.") from error

    def context(self) -> ssl.SSLContext:
        """Returns the settings for Python's own `ssl`.

        Raises:
          UserError: a file cannot be read, or is no certificate or key.
        """
        for name in ("ca_file", "cert_file", "key_file"):
            self.content(name)
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file)
        except ssl.SSLError as error:
            raise UserError(
                f"The files of --tls_ca_file, --tls_cert_file and --tls_key_file are not PEM "
                f"certificates and a key that belong together: {error}."
            ) from error
        return context


@dataclasses.dataclass(frozen=True)
class Served:
    """A served model.

    Attributes:
      address: "host:port".
      name: of the model in the server.
      signature: which of its signatures.
      version: of the model; None = the newest.
      tls: encryption; None = none.
      metadata: (key, value) of each gRPC metadata entry or HTTP header to send along.

    Raises:
      UserError: the address is not of that form, or a key is no name of a header.
    """

    address: str
    name: str
    signature: str = "serving_default"
    version: int | None = None
    tls: Tls | None = None
    metadata: tuple[tuple[str, str], ...] = ()

    def __post_init__(self):
        if not _is_address(self.address):
            raise UserError(
                f"--server={self.address} is not of the form host:port, as localhost:8500, with a "
                f"port up to 65535. TensorFlow Serving listens on 8500 for gRPC and on 8501 for "
                f"REST."
            )
        for key, value in self.metadata:
            if not re.fullmatch(r"[0-9a-z_.-]+", key) or not re.fullmatch(r"[ -~]*", value):
                raise UserError(
                    f"--metadata={key}={value}: a key is of small letters, digits, '-', '_' and "
                    f"'.', a value of printable ASCII."
                )

    @property
    def host(self) -> str:
        """The address without the port."""
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port."""
        return int(self.address.rpartition(":")[2])

    def __str__(self) -> str:
        version = "" if self.version is None else f" version {self.version}"
        return f"servable '{self.name}'{version} at {self.address}"


def _is_address(text: str) -> bool:
    """Returns whether a text is host:port."""
    found = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^:/\s]+):([0-9]{1,5})", text)
    if not found or not 0 < int(found[2]) < 2**16:
        return False
    try:
        # What every look-up of the name does.
        found[1].encode("idna")
    except UnicodeError:
        return False
    return True
