"""A trace of some steps of a run, for TensorBoard's profiler."""

import contextlib
from contextlib import AbstractContextManager
from pathlib import Path

import keras

from t2t_keras.io.progress import print_beside_bar


class StepProfiler:
    """Writes a trace of steps, counted from 1, where TensorBoard looks for it in a run."""

    def __init__(self, output_dir: str | Path, steps: range):
        self._directory, self._steps = str(Path(output_dir) / "train"), steps
        self._traced: list[int] = []

    def ends_at(self, step: int) -> bool:
        """Returns whether the step is the last one to be traced."""
        return step in self._steps and step == self._steps[-1]

    def step(self, step: int) -> AbstractContextManager:
        """Returns the context that a step is started in; the first one begins the trace."""
        if step not in self._steps:
            return contextlib.nullcontext()
        start, _, named_step = _profiler()
        if not self._traced:
            start(self._directory)
        self._traced.append(step)
        return named_step(step)

    def close(self) -> None:
        """Writes the trace when its steps are finished, or the run ends; only the first time."""
        traced, steps = self._traced, self._traced or self._steps
        self._traced, self._steps = [], range(0)
        if not steps:
            return
        if traced:
            _, stop, _ = _profiler()
            stop()
            found = f"are traced in {self._directory}/plugins/profile"
        else:
            found = "are not traced: they were not among those of this command"
        print_beside_bar(f"Steps {steps[0]:,} to {steps[-1]:,} {found}.")


def _profiler():
    """Returns the backend's functions that start and stop a trace, and its context of a step."""
    # Imported here, so that no backend needs the packages of another.
    if keras.backend.backend() == "tensorflow":
        from tensorflow.profiler.experimental import Trace, start, stop

        return start, stop, lambda step: Trace("train", step_num=step, _r=1)
    from jax.profiler import StepTraceAnnotation, start_trace, stop_trace

    return start_trace, stop_trace, lambda step: StepTraceAnnotation("train", step_num=step)
