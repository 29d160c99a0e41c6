"""Signals that end a process, held back until it has saved its work."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def caught_signals() -> Iterator[list[int]]:
    """Yields a list whose last item is the number of the SIGTERM or SIGINT that came, or 0.

    The first one only adds its number; a second one acts at once.
    """
    caught, handlers = [0], {}

    def catch(number, _frame):
        caught.append(number)
        signal.signal(number, handlers[number])

    with contextlib.suppress(ValueError):  # Only the main thread may take signals.
        for number in (signal.SIGTERM, signal.SIGINT):
            handlers[number] = signal.signal(number, catch)
    try:
        yield caught
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
