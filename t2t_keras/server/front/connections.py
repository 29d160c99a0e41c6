"""Connections: how many there may be, and how long each may take for its head, body and answer."""

import logging
import resource
import time
from collections.abc import Iterable

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_LOG = logging.getLogger("t2t_keras.server")

_MOST, _OTHER_FILES = 512, 256
SECONDS_OF_HEAD = 10.0
# A body may take this long, and longer only as long as it comes at this rate.
SECONDS_OF_BODY, MOST_SECONDS_OF_BODY, BYTES_A_SECOND = 30.0, 600.0, 8_192
SECONDS_OF_READING = 60.0
_SECONDS_BETWEEN_LINES = 60.0
_LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\n"
    b"Content-Length: 0\r\n\r\n"
)


def most_connections() -> int:
    """Returns how many connections there may be: files and models need descriptors too."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return _MOST
    return min(max(descriptors - _OTHER_FILES, descriptors // 2), _MOST)


class BoundedConnection(H11Protocol):
    """A connection that does not wait for its client without end.

    When there are too many, the one that has waited longest for a head gives its place up.

    Attributes:
      clock: seconds, which only grow.
      most: most connections at once.
    """

    clock = staticmethod(time.monotonic)
    most = most_connections()

    def connection_made(self, transport) -> None:
        """Takes a connection, or refuses it."""
        super().connection_made(transport)
        self._since, self._received = self.clock(), 0
        self._blocked_since: float | None = None
        if len(self.connections) <= self.most:
            return
        waiting = [each for each in self.connections if each.waits_for_head and each is not self]
        if waiting:
            min(waiting, key=lambda each: each._since).give_up(_FULL)
        else:
            self.give_up(_FULL)

    @property
    def waits_for_head(self) -> bool:
        """Whether the client has yet to send the head of a request, or the rest of it."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def waits_for_body(self) -> bool:
        """Whether the client has yet to send the rest of a body."""
        return not self.waits_for_head and self.cycle.more_body

    def data_received(self, data: bytes) -> None:
        """Takes bytes of a client."""
        if self.waits_for_head and not self._received:
            self._since = self.clock()
        self._received += len(data)
        cycle = self.cycle
        super().data_received(data)
        if self.cycle is not cycle:
            self._since, self._received = self.clock(), 0

    def on_response_complete(self) -> None:
        """Begins to wait for the next request."""
        self._since, self._received = self.clock(), 0
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Waits for a client that reads too slowly."""
        self._blocked_since = self.clock()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Goes on to write."""
        self._blocked_since = None
        super().resume_writing()

    def is_late(self, now: float) -> bool:
        """Returns whether the client has taken longer than it may."""
        if self._blocked_since is not None:
            return now - self._blocked_since > SECONDS_OF_READING
        if self.waits_for_head:
            # After an answer, uvicorn's own limit for idle connections holds.
            is_idle = self.cycle is not None and not self._received
            return now - self._since > SECONDS_OF_HEAD and not is_idle
        if not self.waits_for_body:
            return False
        if self.flow.read_paused:
            self._since, self._received = now, 0  # It is not the client that is slow.
        seconds = now - self._since
        allowed = SECONDS_OF_BODY + self._received / BYTES_A_SECOND
        return seconds > min(allowed, MOST_SECONDS_OF_BODY)

    def give_up(self, answer: bytes = _LATE) -> None:
        """Closes the connection, with an answer where none has begun."""
        if self.waits_for_head:
            if self.conn.our_state is h11.IDLE and (self._received or answer is _FULL):
                self.transport.write(answer)
            self.transport.close()
        else:
            self.transport.abort()


class LateConnections:
    """Closes connections whose clients take too long, and logs how many, once a minute.

    Args:
      clock: seconds, which only grow.
    """

    def __init__(self, clock=time.monotonic):
        self._clock, self._logged, self._count = clock, clock(), 0

    def close(self, connections: Iterable[BoundedConnection]) -> None:
        """Closes those that are late."""
        now = self._clock()
        for connection in [each for each in connections if each.is_late(now)]:
            connection.give_up()
            self._count += 1
        if self._count and now - self._logged > _SECONDS_BETWEEN_LINES:
            _LOG.warning("%d connections were closed, as their clients were slow", self._count)
            self._logged, self._count = now, 0
