"""Milliseconds by type of operator, from TensorFlow's profiler."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path


def traced(run: Callable[[], object]) -> dict[str, tuple[int, float]]:
    """Returns calls and milliseconds of each type of operator that `run` computes with."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    trace = xplane_pb2.XSpace()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        run()
        tf.profiler.experimental.stop()
        trace.ParseFromString(next(Path(folder).rglob("*.xplane.pb")).read_bytes())
    operators: dict[str, tuple[int, float]] = {}
    for plane in trace.planes:
        if "CPU" not in plane.name:
            continue
        for line in plane.lines:
            for event in line.events:
                # An operator's events are named "its name:its type".
                name, colon, kind = plane.event_metadata[event.metadata_id].name.rpartition(":")
                if colon and not name.endswith(":") and kind.lstrip("_").isalnum():
                    calls, spent = operators.get(kind, (0, 0.0))
                    operators[kind] = calls + 1, spent + event.duration_ps / 1e9
    return operators


def operator_table(
    operators: Mapping[str, tuple[int, float]], rows: int, steps: int = 1
) -> list[str]:
    """Returns the lines of a table of what a step spends, longest first.

    Args:
      operators: as `traced` returns them.
      rows: operators that are named; the others are one row.
      steps: how many steps were traced.
    """
    ranked = sorted(operators.items(), key=lambda item: -item[1][1])
    rest = [found for _, found in ranked[rows:]]
    others = sum(calls for calls, _ in rest), sum(spent for _, spent in rest)
    return [
        "| operator | calls | ms |",
        "|---|---|---|",
        *(
            f"| {name} | {calls / steps:,.0f} | {spent / steps:,.2f} |"
            for name, (calls, spent) in [*ranked[:rows], ("others", others)]
        ),
    ]
