"""SIGTERM and Ctrl-C end a run between two steps, with everything saved."""

import signal


class GracefulStop:
    """A context in which SIGTERM and SIGINT only set `number`; a second one acts at once.

    Attributes:
      number: of the signal that came, or 0.
    """

    def __init__(self):
        self.number = 0
        self._before = {}

    def __enter__(self) -> "GracefulStop":
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                self._before[number] = signal.signal(number, self._receive)
            except ValueError:  # Only the main thread may: elsewhere signals are not ours to take.
                break
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number, frame) -> None:
        self.number = number
        signal.signal(number, self._before[number])
