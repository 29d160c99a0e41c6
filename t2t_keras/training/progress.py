"""What a run shows: a progress line, and scalars for TensorBoard."""

import math
import time
from pathlib import Path

import tensorflow as tf
from tqdm import tqdm

# `tf.summary.scalar` needs the tensorboard package; its files can be written without.
_SCALAR = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"),
    data_class=1,  # DATA_CLASS_SCALAR
)


class Totals:
    """Sums of `token_sums` over several steps.

    Attributes:
      sums: by name.
      seconds: since the start or the last `clear`.
    """

    def __init__(self):
        self.clear()

    def add(self, sums: dict[str, float]) -> None:
        """Adds one step's sums."""
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def clear(self) -> None:
        """Starts again from nothing."""
        self.sums: dict[str, float] = {}
        self._start = time.monotonic()

    def scalars(self) -> dict[str, float]:
        """Returns averages a token: loss, perplexity (unsmoothed, a word piece), accuracy."""
        tokens = max(self.sums.get("tokens", 0.0), 1.0)
        entropy = self.sums.get("negative_log_likelihood", 0.0) / tokens
        return {
            "loss": self.sums.get("loss", 0.0) / tokens,
            "perplexity": math.exp(min(entropy, 700.0)),
            "accuracy": self.sums.get("correct", 0.0) / tokens,
        }

    def tokens_per_second(self) -> float:
        """Returns target tokens a second since the start."""
        return self.sums.get("tokens", 0.0) / max(time.monotonic() - self._start, 1e-9)


class Progress:
    """A progress line on standard error (none where that is no terminal) and TensorBoard files.

    Args:
      output_dir: where the TensorBoard files go.
      first: the step that the run begins at.
      last: the step that it ends at.
    """

    def __init__(self, output_dir: str | Path, first: int, last: int):
        self._writers = {
            name: tf.summary.create_file_writer(str(Path(output_dir) / name))
            for name in ("train", "eval")
        }
        # disable=None: quiet where standard error is not a terminal.
        self._bar = tqdm(
            total=last, initial=first, unit="step", disable=None, dynamic_ncols=True, smoothing=0.05
        )

    def step(self, loss: float, learning_rate: float, tokens_per_second: float) -> None:
        """Moves the progress line on by a step."""
        self._bar.update(1)
        self._bar.set_postfix_str(
            f"loss {loss:.3f}, learning rate {learning_rate:.2e}, "
            f"{tokens_per_second:,.0f} target tokens/s",
            refresh=False,
        )

    def say(self, text: str) -> None:
        """Prints a line without breaking the progress line."""
        with tqdm.external_write_mode():
            print(text, flush=True)

    def write(self, kind: str, step: int, scalars: dict[str, float]) -> None:
        """Writes scalars for TensorBoard; `kind` is "train" or "eval"."""
        with self._writers[kind].as_default(step=step):
            for name, value in scalars.items():
                tf.summary.write(name, tf.constant(value, tf.float32), metadata=_SCALAR)
        self._writers[kind].flush()

    def close(self) -> None:
        """Ends the progress line and the files."""
        self._bar.close()
        for writer in self._writers.values():
            writer.close()
