"""A trace of some steps of a run, for TensorBoard's profiler."""

import contextlib
from contextlib import AbstractContextManager
from pathlib import Path

import keras

from t2t_keras.errors import UserError


def profiled_steps(text: str) -> range:
    """Reads "100,110": steps 100 to 110 of the run, both traced, counted from 1.

    Returns:
      The steps; none where the text is empty.

    Raises:
      UserError: it is something else.
    """
    if not text:
        return range(0)
    first, _, last = text.partition(",")
    # Other numerals and signs, which `int` would read, are no numbers of steps.
    plain = all(part.isascii() and part.isdigit() for part in (first, last))
    if not plain or not 1 <= int(first) <= int(last):
        raise UserError(
            f"--profile_steps={text}: give the first and the last step to trace, as "
            f"--profile_steps=100,110."
        )
    return range(int(first), int(last) + 1)


class StepProfiler:
    """Writes a trace of steps to `train/plugins/profile` of a run, where TensorBoard looks for it.

    Args:
      output_dir: the run's directory.
      steps: as `profiled_steps` returns them.
      say: prints a line.
    """

    def __init__(self, output_dir: str | Path, steps: range, say=print):
        self._directory = str(Path(output_dir) / "train")
        self._steps = steps
        self._say = say
        self._traced: list[int] = []

    def ends_at(self, step: int) -> bool:
        """Returns whether the step is the last one to be traced."""
        return step in self._steps and step == self._steps[-1]

    def step(self, step: int) -> AbstractContextManager:
        """Returns the context that a step is started in; the first one begins the trace."""
        if step not in self._steps:
            return contextlib.nullcontext()
        if not self._traced:
            _start(self._directory)
        self._traced.append(step)
        return _named_step(step)

    def finish(self) -> None:
        """Writes the trace, if one was begun and not yet written, when its steps are finished."""
        if not self._traced or not self._steps:
            return
        _stop()
        self._say(
            f"Steps {self._traced[0]:,} to {self._traced[-1]:,} are traced in "
            f"{self._directory}/plugins/profile."
        )
        self._steps = range(0)

    def close(self) -> None:
        """Writes the trace of a run that ends; says so where there was nothing to trace."""
        if self._steps and not self._traced:
            self._say(
                f"Nothing is traced: steps {self._steps[0]:,} to {self._steps[-1]:,} were not "
                f"among those of this command."
            )
        self.finish()


# Imported where they are needed, so that no backend needs the packages of another.


def _is_tensorflow() -> bool:
    return keras.backend.backend() == "tensorflow"


def _start(directory: str) -> None:
    if _is_tensorflow():
        import tensorflow as tf

        tf.profiler.experimental.start(directory)
    else:
        import jax

        jax.profiler.start_trace(directory)


def _stop() -> None:
    if _is_tensorflow():
        import tensorflow as tf

        tf.profiler.experimental.stop()
    else:
        import jax

        jax.profiler.stop_trace()


def _named_step(step: int) -> AbstractContextManager:
    if _is_tensorflow():
        import tensorflow as tf

        return tf.profiler.experimental.Trace("train", step_num=step, _r=1)
    import jax

    return jax.profiler.StepTraceAnnotation("train", step_num=step)
