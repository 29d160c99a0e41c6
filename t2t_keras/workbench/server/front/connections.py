"""Limits on connections: their number, and the time for a head, a body and reading an answer."""

import logging
import resource
import time
from collections.abc import Iterable

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_LOG = logging.getLogger("t2t_keras.server")

_MOST, _OTHER_FILES = 512, 256
SECONDS_OF_HEAD = 10.0
# A body may take SECONDS_OF_BODY, or up to the most at this rate.
SECONDS_OF_BODY, MOST_SECONDS_OF_BODY, BYTES_A_SECOND = 30.0, 600.0, 8_192
SECONDS_OF_READING = 60.0
_SECONDS_BETWEEN_LINES = 60.0
_LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\n"
    b"Content-Length: 0\r\n\r\n"
)


def most_connections() -> int:
    """Returns the limit on connections; files and models need descriptors too."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return _MOST
    return min(max(descriptors - _OTHER_FILES, descriptors // 2), _MOST)


class BoundedConnection(H11Protocol):
    """A connection with time limits for its client.

    A connection beyond the maximum replaces the one that has waited longest for a head.

    Attributes:
      clock: monotonic seconds.
      most: most connections at once.
    """

    clock = staticmethod(time.monotonic)
    most = most_connections()

    def connection_made(self, transport) -> None:
        """Accepts a connection, or refuses it."""
        super().connection_made(transport)
        self._since, self._received = self.clock(), 0
        self._blocked_since: float | None = None
        if len(self.connections) <= self.most:
            return
        waiting = [old for old in self.connections if old.waits_for_head and old is not self]
        if waiting:
            min(waiting, key=lambda old: old._since).give_up(_FULL)
        else:
            self.give_up(_FULL)

    @property
    def waits_for_head(self) -> bool:
        """Whether the client has not yet sent the whole head of a request."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def waits_for_body(self) -> bool:
        """Whether the client has not yet sent the whole body."""
        return not self.waits_for_head and self.cycle.more_body

    def data_received(self, data: bytes) -> None:
        """Receives bytes from the client."""
        if self.waits_for_head and not self._received:
            self._since = self.clock()
        self._received += len(data)
        cycle = self.cycle
        super().data_received(data)
        if self.cycle is not cycle:
            self._since, self._received = self.clock(), 0

    def on_response_complete(self) -> None:
        """Starts to wait for the next request."""
        self._since, self._received = self.clock(), 0
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Notes when the client stopped reading."""
        self._blocked_since = self.clock()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Notes that the client reads again."""
        self._blocked_since = None
        super().resume_writing()

    def is_late(self, now: float) -> bool:
        """Returns whether the client has exceeded a time limit."""
        if self._blocked_since is not None:
            return now - self._blocked_since > SECONDS_OF_READING
        if self.waits_for_head:
            # After an answer, uvicorn's own limit for idle connections holds.
            is_idle = self.cycle is not None and not self._received
            return now - self._since > SECONDS_OF_HEAD and not is_idle
        if not self.waits_for_body:
            return False
        if self.flow.read_paused:
            self._since, self._received = now, 0  # The server is slow, not the client.
        seconds = now - self._since
        allowed = SECONDS_OF_BODY + self._received / BYTES_A_SECOND
        return seconds > min(allowed, MOST_SECONDS_OF_BODY)

    def give_up(self, answer: bytes = _LATE) -> None:
        """Closes the connection, with an answer if none has begun."""
        if self.waits_for_head:
            if self.conn.our_state is h11.IDLE and (self._received or answer is _FULL):
                self.transport.write(answer)
            self.transport.close()
        else:
            self.transport.abort()


class LateConnections:
    """Closes connections whose clients are too slow, and logs their number at most once a minute.

    Args:
      clock: monotonic seconds.
    """

    def __init__(self, clock=time.monotonic):
        self._clock, self._logged, self._count = clock, clock(), 0

    def close(self, connections: Iterable[BoundedConnection]) -> None:
        """Closes those that are late."""
        now = self._clock()
        for connection in list(connections):
            if connection.is_late(now):
                connection.give_up()
                self._count += 1
        if self._count and now - self._logged > _SECONDS_BETWEEN_LINES:
            _LOG.warning("Closed %d connections of slow clients", self._count)
            self._logged, self._count = now, 0
