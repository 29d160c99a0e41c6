"""What a run shows while it trains: averages, and a progress line."""

import math
import time

from t2t_keras.progress_bar import print_beside_bar, progress_bar

# Steps between two plain lines, where there is no progress line.
_LINE_STEPS = 100


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
    """A progress line on standard error, and the curves.

    Where that is no terminal, as in a job's log, or without tqdm, a plain line is printed every 100
    steps instead.

    Args:
      curves: has `write` and `close`, as `TensorBoardCurves`.
      first: the step that the run begins at.
      last: the step that it ends at.
    """

    def __init__(self, curves, first: int, last: int):
        self._curves = curves
        self._done, self._last = first, last
        self._bar = progress_bar(
            total=last, initial=first, unit="step", dynamic_ncols=True, smoothing=0.05
        )

    def step(self, loss: float, learning_rate: float, tokens_per_second: float) -> None:
        """Moves the progress line on by a step."""
        self._done += 1
        text = (
            f"loss {loss:.3f}, learning rate {learning_rate:.2e}, "
            f"{tokens_per_second:,.0f} target tokens/s"
        )
        self._bar.update(1)
        self._bar.set_postfix_str(text, refresh=False)
        if self._bar.disable and self._done % _LINE_STEPS == 0:
            self.say(f"Step {self._done:,} of {self._last:,}: {text}")

    def say(self, text: str) -> None:
        """Prints a line without breaking the progress line."""
        print_beside_bar(text)

    def write(self, kind: str, step: int, scalars: dict[str, float]) -> None:
        """Adds a point to the curves; `kind` is "train" or "eval"."""
        self._curves.write(kind, step, scalars)

    def close(self) -> None:
        """Ends the progress line and the curves."""
        self._bar.close()
        self._curves.close()
