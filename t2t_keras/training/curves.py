"""The curves of a run: event files for TensorBoard, or JSON lines without TensorFlow."""

import collections
import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import translated_errors
from t2t_keras.io.files import CURVES_FILE
from t2t_keras.text.files import split_lines

_ADVICE = "Make room; the same command continues."


def make_curves(output_dir: str | Path) -> "TensorBoardCurves | JsonCurves":
    """Returns the writer of a run's curves for Keras's backend."""
    import keras

    is_tensorflow = keras.backend.backend() == "tensorflow"
    return (TensorBoardCurves if is_tensorflow else JsonCurves)(output_dir)


class TensorBoardCurves:
    """Writes event files for TensorBoard, in a folder of the run for each kind of curve."""

    def __init__(self, output_dir: str | Path):
        import tensorflow as tf

        # Unlike `tf.summary.scalar`, this does not need the tensorboard package.
        self._metadata = tf.compat.v1.SummaryMetadata(
            plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"),
            data_class=1,  # DATA_CLASS_SCALAR
        )
        self._tensorflow, self._output_dir = tf, Path(output_dir)
        self._writers: dict[str, Any] = {}

    def write(self, kind: str, step: int, scalars: dict[str, float]) -> None:
        """Adds a point to each curve of a kind, such as "train" and "eval"."""
        folder, summary = str(self._output_dir / kind), self._tensorflow.summary
        error = self._tensorflow.errors.OpError
        with translated_errors(error, f"Cannot write {folder}", _ADVICE, code="not_written"):
            if kind not in self._writers:
                self._writers[kind] = summary.create_file_writer(folder)
            with self._writers[kind].as_default(step=step):
                for name, value in scalars.items():
                    summary.write(name, np.float32(value), metadata=self._metadata)
            self._writers[kind].flush()

    def close(self) -> None:
        """Closes the files."""
        for writer in self._writers.values():
            writer.close()


class JsonCurves:
    """Writes `<kind>/scalars.jsonl` in the run: a line of JSON for each logged step.

    A continued run appends, so a step can occur twice, as in TensorBoard's files.
    """

    def __init__(self, output_dir: str | Path):
        self._output_dir = Path(output_dir)

    def write(self, kind: str, step: int, scalars: dict[str, float]) -> None:
        """Adds a point to each curve of a kind; see `TensorBoardCurves`."""
        path = self._output_dir / kind / CURVES_FILE
        with translated_errors(OSError, f"Cannot write {path}", _ADVICE, code="not_written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, **scalars}) + "\n")

    def close(self) -> None:
        """Does nothing: no file stays open."""


def read_curves(folder: str | Path) -> dict[str, dict[int, float]]:
    """Reads curves from a folder such as a run's train/: the value of each step, by name.

    A continued run may repeat steps; the last value counts. Values that are not finite, and an
    incomplete last line or record, are left out.
    """
    curves: dict[str, dict[int, float]] = collections.defaultdict(dict)
    for points in (_json_points(Path(folder)), _tensorboard_points(Path(folder))):
        for step, name, value in points:
            if math.isfinite(value):
                curves[name][step] = value
    return {name: dict(sorted(points.items())) for name, points in curves.items()}


def _json_points(folder: Path) -> Iterator[tuple[int, str, float]]:
    path = folder / CURVES_FILE
    if not path.exists():
        return
    for line in split_lines(path.read_text(encoding="utf-8", errors="replace")):
        try:
            scalars = json.loads(line)
            step = scalars.pop("step")
        except (ValueError, KeyError, AttributeError):
            continue  # Incomplete.
        yield from ((step, name, value) for name, value in scalars.items())


def _tensorboard_points(folder: Path) -> Iterator[tuple[int, str, float]]:
    # The names contain the time of writing, so sorting them orders the events.
    for path in sorted(folder.glob("events.out.tfevents.*")):
        import tensorflow as tf

        for record in _records(path.read_bytes()):
            event = tf.compat.v1.Event.FromString(record)
            for value in event.summary.value:
                yield event.step, value.tag, float(tf.make_ndarray(value.tensor))


def _records(content: bytes) -> Iterator[bytes]:
    """Yields the records of a TFRecord file; TensorFlow's reader would claim memory of all GPUs."""
    end = 0
    while end + 12 <= len(content):
        # The length, 4 bytes of its checksum, the record, 4 bytes of its checksum.
        (length,) = struct.unpack_from("<Q", content, end)
        end += length + 16
        if end <= len(content):
            yield content[end - 4 - length : end - 4]
