"""Traces of steps, and what is said where there is nothing to trace."""

import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from t2t_keras.errors import UserError
from t2t_keras.training.profiling import StepProfiler, profiled_steps


@pytest.mark.parametrize(
    ("text", "expected"), [("", []), ("1,1", [1]), ("100,103", [100, 101, 102, 103])]
)
def test_both_ends_are_traced(text, expected):
    assert list(profiled_steps(text)) == expected


@pytest.mark.parametrize(
    "text", ["100", "100,", ",5", "5,4", "0,3", "1-3", "1,2,3", "a,b", "1,-2", "1,²", "+1,2", " "]
)
def test_another_form_is_refused(text):
    with pytest.raises(UserError, match=r"give the first and the last step .*=100,110"):
        profiled_steps(text)


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


def test_the_trace_holds_its_steps_and_no_other(tmp_path):
    said = []
    profiler = StepProfiler(tmp_path, range(3, 5), said.append)
    for step in range(1, 7):
        with profiler.step(step):
            tf.constant(1) + 1
        assert profiler.ends_at(step) == (step == 4)
        if profiler.ends_at(step):
            profiler.finish()
    profiler.close()
    assert said == [f"Steps 3 to 4 are traced in {tmp_path}/train/plugins/profile."]
    (trace,) = (tmp_path / "train" / "plugins" / "profile").glob("*/*.xplane.pb")
    assert steps_in(trace) == [3, 4]


def test_a_run_that_ends_among_the_steps_has_those_that_it_did(tmp_path):
    said = []
    profiler = StepProfiler(tmp_path, range(3, 9), said.append)
    with profiler.step(3):
        pass
    profiler.close()
    assert said == [f"Steps 3 to 3 are traced in {tmp_path}/train/plugins/profile."]
    assert list(tmp_path.glob("train/plugins/profile/*/*.xplane.pb"))


def test_steps_that_do_not_come_are_told(tmp_path):
    said = []
    profiler = StepProfiler(tmp_path, range(3, 5), said.append)
    with profiler.step(2):
        pass
    profiler.close()
    assert said == ["Nothing is traced: steps 3 to 4 were not among those of this command."]
    assert not list(tmp_path.iterdir())
