"""Traces of steps, and what is said where there is nothing to trace."""

import re

import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from t2t_keras.training.progress import StepProfiler


def steps_in(trace):
    """Returns the numbers of the steps in a trace: events named "train", with the number."""
    space = xplane_pb2.XSpace.FromString(trace.read_bytes())
    return sorted(
        stat.int64_value
        for plane in space.planes
        for line in plane.lines
        for event in line.events
        for stat in event.stats
        if plane.event_metadata[event.metadata_id].name == "train"
        and plane.stat_metadata[stat.metadata_id].name == "step_num"
    )


@pytest.mark.parametrize(("last", "traced"), [(6, [3, 4]), (3, [3]), (2, [])])
def test_the_trace_holds_its_steps_and_no_other(tmp_path, capsys, last, traced):
    profiler = StepProfiler(tmp_path, range(3, 5))
    for step in range(1, last + 1):
        with profiler.step(step):
            tf.constant(1) + 1
        assert profiler.ends_at(step) == (step == 4)
        if profiler.ends_at(step):
            profiler.close()
    profiler.close()
    traces = map(steps_in, tmp_path.glob("train/plugins/profile/*/*.xplane.pb"))
    assert list(traces) == ([traced] if traced else [])
    out = capsys.readouterr().out
    assert re.match(rf"Steps 3 \D+ {traced[-1] if traced else 4}\b", out)
    assert (str(tmp_path) in out) == bool(traced)
