"""Connections between workers: JSON objects, one a line, over TCP.

They are apart from TensorFlow's own, which are silent about who is missing and why.
"""

import json
import select
import socket
import threading
import time

from t2t_keras.errors import UserError

# A peer that takes no bytes for so long is found by its silence.
_SEND_SECONDS = 5.0
# How long a port may still belong to the process that this one follows.
_BIND_SECONDS = 10.0
_LONGEST_LINE = 1 << 20


class Link:
    """One connection to another worker.

    Args:
      connection: a connected socket, which this object now owns.
    """

    def __init__(self, connection: socket.socket):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(_SEND_SECONDS)
        self._connection = connection
        self._sending = threading.Lock()
        self._rest = b""
        self._put_back: list[dict] = []

    def fileno(self) -> int:
        """Returns the number by which the system knows the connection."""
        return self._connection.fileno()

    def send(self, message: dict) -> None:
        """Sends an object.

        Raises:
          OSError: the connection is gone, or takes nothing.
        """
        with self._sending:
            self._connection.sendall(json.dumps(message).encode("utf-8") + b"\n")

    def receive(self, seconds: float) -> list[dict]:
        """Returns the objects that have come, after waiting for some at most so long.

        Raises:
          OSError: the connection is gone, or does not carry such objects.
        """
        if self._put_back:
            messages, self._put_back = self._put_back, []
            return messages
        if not wait_for_any([self], seconds):
            return []
        data = self._connection.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the connection was closed")
        *lines, self._rest = (self._rest + data).split(b"\n")
        try:
            messages = [json.loads(line) for line in lines]
        except ValueError as error:
            raise ConnectionError(f"not a worker's message: {error}") from None
        if len(self._rest) > _LONGEST_LINE or not all(isinstance(each, dict) for each in messages):
            raise ConnectionError("not a worker's message")
        return messages

    def put_back(self, messages: list[dict]) -> None:
        """Makes the next `receive` return these."""
        self._put_back = messages

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()


def wait_for_any(links: list[Link], seconds: float) -> bool:
    """Waits at most so long until one of the links has something; returns whether one has."""
    waiting = select.poll()
    for link in links:
        waiting.register(link, select.POLLIN)
    return bool(waiting.poll(max(seconds, 0.0) * 1000))


def listen(address: tuple[str, int]) -> socket.socket:
    """Returns a socket that takes connections, on all of this machine's addresses.

    Raises:
      UserError: the port is taken.
    """
    port = address[1]
    deadline = time.monotonic() + _BIND_SECONDS
    while True:
        try:
            listener = socket.create_server(("", port), backlog=128)
            listener.settimeout(0)
            return listener
        except OSError as error:
            if time.monotonic() > deadline:
                raise UserError(
                    f"The port {port}, on which the workers watch each other (1000 from the "
                    f"chief's), cannot be used: {error}. Give the chief another port in TF_CONFIG."
                ) from None
        time.sleep(0.2)


def connect(address: tuple[str, int], seconds: float) -> Link:
    """Returns a connection to the chief.

    Raises:
      OSError: there is none within the time.
    """
    return Link(socket.create_connection(address, timeout=max(seconds, 0.1)))
