"""Times of ways to do something, in turns: what else the machine does then slows all alike."""

import statistics
import time
from collections.abc import Callable, Mapping


def seconds_in_turns(
    ways: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Returns the seconds of each way in each round, by its name.

    Args:
      ways: functions that return when their work is done.
      rounds: how often each is timed, in turns; once before, which compiles it, does not count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - start)
    return {name: each[1:] for name, each in seconds.items()}


def median_seconds(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Returns the median of `seconds_in_turns` for each way."""
    seconds = seconds_in_turns(ways, rounds)
    return {name: statistics.median(each) for name, each in seconds.items()}
