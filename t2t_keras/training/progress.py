"""What a run shows while it trains: averages, a progress line, curves, and where the time went."""

import collections
import contextlib
import math
import time
from collections.abc import Iterator, Mapping

from t2t_keras.io.progress import ProgressBar, print_beside_bar

# Steps between two points of the curves, or two lines where there is no progress line.
LOG_STEPS = 100


def averages(sums: Mapping[str, float]) -> dict[str, float]:
    """Returns {"loss", "perplexity" (unsmoothed, of a word piece), "accuracy"} of `token_sums`."""
    tokens = max(sums["tokens"], 1.0)
    return {
        "loss": sums["loss"] / tokens,
        "perplexity": math.exp(min(sums["negative_log_likelihood"] / tokens, 700.0)),
        "accuracy": sums["correct"] / tokens,
    }


class Progress:
    """A progress line on standard error, and the curves (None = none), of steps `first` to `last`.

    Where standard error is no terminal, as in a job's log, a plain line is printed
    every 100 steps instead.
    """

    def __init__(self, curves, first: int, last: int):
        self._curves = curves
        self._done, self._last = first, last
        # The bar gets the columns that the text leaves.
        text = "step {n_fmt}/{total_fmt}  {desc}eta {remaining}  |{bar}|"
        self._bar = ProgressBar(total=last, initial=first, smoothing=0.05, bar_format=text)
        # Since the last line.
        self._sums: collections.Counter[str] = collections.Counter()
        self._restart_clock()

    def _restart_clock(self) -> None:
        """Measures the speed anew, as after an evaluation, whose time is not that of the steps."""
        self._tokens = 0.0
        self._since, self._before = time.monotonic(), self._done

    def step(self, sums: Mapping[str, float], scalars: Mapping[str, float]) -> None:
        """Shows the mean loss since the last line, given a finished step's sums of `token_sums`.

        `scalars` has its "learning_rate", and what else is to be in the curves of the training.
        """
        self._done += 1
        self._sums.update(sums)
        self._tokens += sums["tokens"]
        seconds = max(time.monotonic() - self._since, 1e-9)
        speed = self._tokens / seconds
        loss, rate = averages(self._sums)["loss"], scalars["learning_rate"]
        text = f"loss {loss:.2f}  lr {rate:.1e}  {self._bar.format_sizeof(speed)} tok/s  "
        self._bar.set_description_str(text, refresh=False)
        self._bar.update(1)
        if self._done % LOG_STEPS:
            return
        if self._bar.disable:
            left = (self._last - self._done) * seconds / (self._done - self._before)
            eta = self._bar.format_interval(left)
            print_beside_bar(f"step {self._done}/{self._last}  {text}eta {eta}")
        self._write("train", {**scalars, **averages(self._sums), "tokens_per_second": speed})
        self._sums.clear()
        self._restart_clock()

    def evaluated(self, scalars: Mapping[str, float], report: str) -> None:
        """Shows what an evaluation after the newest step has found."""
        self._write("eval", dict(scalars))
        print_beside_bar(report)
        # Its time is not that of the steps left.
        self._bar.unpause()
        self._restart_clock()

    def close(self) -> None:
        """Ends the progress line and the curves."""
        self._bar.close()
        if self._curves:
            self._curves.close()

    def _write(self, kind: str, scalars: dict[str, float]) -> None:
        if self._curves:
            self._curves.write(kind, self._done, scalars)


PARTS = ("start", "input", "step", "evaluation", "checkpoint", "other")
START, INPUT, STEP, EVALUATION, CHECKPOINT, OTHER = PARTS


class RunClock:
    """Seconds of a process by what they were spent on; setting the system's time changes none.

    All until the first step is finished is the start: workers meet, the model is made and restored,
    functions are compiled, arrays read. Without a step it ends with an evaluation or checkpoint.
    """

    def __init__(self):
        self._seconds = dict.fromkeys(PARTS, 0.0)
        # What is done now, and what is done where nothing else is.
        self._part = self._otherwise = START
        self._since = self._trained_since = time.monotonic()

    @contextlib.contextmanager
    def spent_on(self, part: str) -> Iterator[None]:
        """Counts the time within for one of `PARTS`; blocks must not be nested."""
        if part in (EVALUATION, CHECKPOINT):
            self.end_start()
        self._begin(START if self._otherwise == START else part)
        try:
            yield
        finally:
            self._begin(self._otherwise)

    def end_start(self) -> None:
        """Ends the start, if it has not ended yet: a step is finished."""
        self._otherwise = OTHER
        self._begin(OTHER)

    def begin_training(self) -> None:
        """Begins to count `training_seconds`, before the first step."""
        self._trained_since = time.monotonic()

    def training_seconds(self) -> float:
        """Returns the seconds of the steps, without those of evaluations and checkpoints."""
        pauses = self._seconds[EVALUATION] + self._seconds[CHECKPOINT]
        return time.monotonic() - self._trained_since - pauses

    def seconds(self) -> dict[str, float]:
        """Returns seconds by part, which are together those since this was made."""
        self._begin(self._part)
        shown = PARTS[:1] if self._otherwise == START else PARTS
        return {part: self._seconds[part] for part in shown}

    def show(self) -> None:
        """Prints the seconds in all and the share of each part."""
        seconds = self.seconds()
        total = max(sum(seconds.values()), 1e-9)
        shares = ", ".join(f"{part} {spent / total:.1%}" for part, spent in seconds.items())
        print(f"Of {total:,.1f} s: {shares}.", flush=True)

    def _begin(self, part: str) -> None:
        now = time.monotonic()
        self._seconds[self._part] += now - self._since
        self._part, self._since = part, now
