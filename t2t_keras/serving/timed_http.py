"""HTTP answers within a time: of all that a server sends, not of each piece of it."""

import functools
import http.client
import io
import socket
import time
from collections.abc import Callable


def timed_response(seconds: float) -> Callable[..., http.client.HTTPResponse]:
    """Returns a `response_class` for a `http.client.HTTPConnection`.

    A socket's timeout begins anew with each byte that comes, so a server that sends one now and
    then would be waited for without end.

    Args:
      seconds: from now on, in which the whole answer must be there; later reads raise TimeoutError.
    """
    return functools.partial(_TimedResponse, end=time.monotonic() + seconds)


class _TimedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments, end: float, **named):
        super().__init__(sock, *arguments, **named)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedReader(sock, end))


class _TimedReader(io.RawIOBase):
    """What comes from a socket until a moment of `time.monotonic`."""

    def __init__(self, sock: socket.socket, end: float):
        # A file of the socket's own, with which the socket counts who still reads it.
        self._sock, self._file, self._end = sock, sock.makefile("rb", buffering=0), end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer is not complete")
        self._sock.settimeout(left)
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()
