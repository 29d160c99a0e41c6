"""Where the time of a run went, as one line."""

import contextlib
import time
from collections.abc import Iterator

# In the order of the line; what belongs to none of them is "other".
INPUT, STEP, EVALUATION, CHECKPOINT = PARTS = ("input", "step", "evaluation", "checkpoint")


class TimeReport:
    """Adds up seconds by what they were spent on.

    All until the first step is finished is the start: in that time workers meet, the model is
    made and restored, the microbatch found, functions traced and compiled, the first arrays read.
    A run without a step starts until it evaluates or saves.
    """

    def __init__(self):
        self._began = self._started = time.monotonic()
        self._seconds: dict[str, float] | None = None

    @contextlib.contextmanager
    def spent_on(self, part: str) -> Iterator[None]:
        """Counts the time within for one of `PARTS`; blocks must not be nested."""
        if part in (EVALUATION, CHECKPOINT):
            self._end_start()
        before = time.monotonic()
        try:
            yield
        finally:
            if self._seconds is not None:
                # A block that the first step was finished in began before the count.
                self._seconds[part] += time.monotonic() - max(before, self._started)

    def finished_a_step(self) -> None:
        """Tells that a step is finished; the first ends the start."""
        self._end_start()

    def seconds(self) -> dict[str, float]:
        """Returns seconds by part, "start" to "other"; "start" alone where nothing followed it.

        Together they are the time since this was made.
        """
        now = time.monotonic()
        if self._seconds is None:
            return {"start": now - self._began}
        other = now - self._started - sum(self._seconds.values())
        return {"start": self._started - self._began, **self._seconds, "other": other}

    def show(self) -> None:
        """Prints the seconds in all and the share of each part."""
        seconds = self.seconds()
        total = sum(seconds.values())
        shares = ", ".join(
            f"{part} {spent / max(total, 1e-9):.1%}" for part, spent in seconds.items()
        )
        print(f"Of {total:,.1f} s: {shares}.", flush=True)

    def _end_start(self) -> None:
        if self._seconds is None:
            self._started = time.monotonic()
            self._seconds = dict.fromkeys(PARTS, 0.0)
