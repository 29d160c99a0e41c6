"""Times of several ways in turns, peak memory of a process, and operators of a TensorFlow trace."""

import collections
import concurrent.futures
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def seconds_in_turns(
    ways: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Returns the seconds of each way in each round: whatever else runs slows all ways alike.

    Args:
      ways: functions that return when their work is done, by name.
      rounds: number of timed rounds; one more before them, which compiles, is not counted.
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
    return {name: statistics.median(each) for name, each in seconds_in_turns(ways, rounds).items()}


def in_own_process(function: Callable, *arguments) -> Any:
    """Returns what a module's function returns in a fresh process, so that its peak is its own."""
    fresh = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=fresh) as process:
        return process.submit(function, *arguments).result()


def peak_bytes(process: int | str = "self") -> int:
    """Returns the peak of a process's resident memory since its program was started.

    Not `resource.getrusage`, whose peak counts that of the process it was forked from.

    Raises:
      OSError: there is no such process.
      StopIteration: it has ended, and its exit status has not been collected yet.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def print_operators(run: Callable[[], object], rows: int, steps: int = 1) -> None:
    """Traces `run` with TensorFlow's profiler; prints calls and ms of each type of operator.

    Args:
      run: does the work of some steps.
      rows: number of operators that are named; the others share one row.
      steps: number of steps that `run` does; figures are of one.
    """
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    trace = xplane_pb2.XSpace()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        run()
        tf.profiler.experimental.stop()
        trace.ParseFromString(next(Path(folder).rglob("*.xplane.pb")).read_bytes())
    calls, spent = collections.Counter(), collections.Counter()
    for plane in trace.planes:
        for event in (event for line in plane.lines for event in line.events):
            # An operator's events are named "its name:its type".
            name, colon, kind = plane.event_metadata[event.metadata_id].name.rpartition(":")
            is_operator = colon and not name.endswith(":") and kind.lstrip("_").isalnum()
            if "CPU" in plane.name and is_operator:
                calls[kind] += 1
                spent[kind] += event.duration_ps / 1e9
    print("\n| operator | calls | ms |\n|---|---|---|")
    for kind, _ in spent.most_common(rows):
        print(f"| {kind} | {calls.pop(kind) / steps:,.0f} | {spent.pop(kind) / steps:,.2f} |")
    print(f"| others | {calls.total() / steps:,.0f} | {spent.total() / steps:,.2f} |")
