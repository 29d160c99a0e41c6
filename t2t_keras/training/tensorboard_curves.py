"""The curves of a run as TensorBoard reads them."""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

# `tf.summary.scalar` needs the tensorboard package; its files can be written without.
_SCALAR = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"),
    data_class=1,  # DATA_CLASS_SCALAR
)


class TensorBoardCurves:
    """Event files in folders of a run.

    Args:
      output_dir: the run's.
      kinds: names of the folders.
    """

    def __init__(self, output_dir: str | Path, kinds: Sequence[str] = ("train", "eval")):
        self._writers = {
            name: tf.summary.create_file_writer(str(Path(output_dir) / name)) for name in kinds
        }

    def write(self, kind: str, step: int, scalars: dict[str, float]) -> None:
        """Adds a point to each curve of a kind."""
        with self._writers[kind].as_default(step=step):
            for name, value in scalars.items():
                tf.summary.write(name, tf.constant(value, tf.float32), metadata=_SCALAR)
        self._writers[kind].flush()

    def close(self) -> None:
        """Ends the files."""
        for writer in self._writers.values():
            writer.close()
