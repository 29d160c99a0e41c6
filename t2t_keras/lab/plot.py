"""Plots the curves of several runs together, as a picture or as text."""

import collections
import dataclasses
import json
import math
import re
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from t2t_keras.errors import UserError, translated_errors, unknown_name
from t2t_keras.io.files import CURVES_FILE, check_outputs, check_parent
from t2t_keras.io.terminal import printable
from t2t_keras.lab.drawing import check_format, need_matplotlib, save_figure
from t2t_keras.text.files import split_lines
from t2t_keras.training.cost import read_costs
from t2t_keras.training.run_config import RunConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Titles of the horizontal axis.
AXES = {"steps": "steps", "hours": "hours of training, without evaluations and checkpoints"}
FORMATS = (".png", ".svg")

# The curves shown by default, with the titles of their axes.
_DEFAULT_CURVES = {
    "loss": "loss (nats a token)",
    "perplexity": "perplexity (of a token)",
    "bleu": "BLEU",
    "f1": "F1",
    "learning_rate": "learning rate",
    "tokens_per_second": "target tokens a second",
}
_SECONDS_CURVE = "training_seconds"
_LOGARITHMIC_CURVES = ("perplexity", "gradient_norm")
_CURVES_FROM_ZERO = ("learning_rate", "tokens_per_second")
# Legend name and style of a curve, by its folder in the run.
_STYLES: dict[str, tuple[str, dict[str, Any]]] = {
    "train": ("training (its loss with label smoothing)", dict(alpha=0.6)),
    "eval": ("dev set, while training", dict(marker="o")),
    "eval_dev": ("dev set, t2t-eval", dict(marker="s", linestyle="--")),
    "eval_test": ("test set, t2t-eval", dict(marker="^", linestyle=":")),
}
_OTHER_STYLE: dict[str, Any] = dict(marker="x", linestyle="-.")

_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclasses.dataclass(frozen=True)
class Curve:
    """A curve of a run.

    Attributes:
      run: distinguishes the run from others.
      kind: the curve's folder in the run, such as "train".
      x: float64 [points], ascending: steps, or hours of training.
      y: float64 [points].
    """

    run: str
    kind: str
    x: np.ndarray
    y: np.ndarray


def check_plot(path: str | Path, runs: Sequence[str | Path]) -> None:
    """Raises `UserError` unless a plot of these runs can be written there."""
    check_format(path, FORMATS)
    check_outputs(runs, [path])
    check_parent(Path(path))


def run_curves(
    runs: Sequence[str | Path], names: Sequence[str] = (), over: str = "steps"
) -> dict[str, list[Curve]]:
    """Returns the curves of runs' directories by name, over "steps" or "hours" of training.

    `names` are the requested curves; default: loss, perplexity, scores, learning rate and speed.
    Hours are those of `TrainingCost`, over all processes of a run, interpolated linearly.

    Raises:
      UserError: a run does not exist or has no curves, no run has a requested curve, or the hours
        of a run are not recorded.
    """
    folders = list(dict.fromkeys(map(str, runs)))
    labels = [Path(folder).resolve().name for folder in folders]
    if len(set(labels)) < len(labels):
        labels = folders
    curves: dict[str, list[Curve]] = collections.defaultdict(list)
    for folder, label in zip(folders, labels, strict=True):
        curves_by_kind = _read_curves_by_kind(folder)
        hours = _hours_by_step(folder, curves_by_kind) if over == "hours" else None
        for kind, points_by_name in curves_by_kind.items():
            for name, points in points_by_name.items():
                x, y = np.array(list(points.items()), np.float64).T
                curves[name].append(Curve(label, kind, hours(x) if hours else x, y))
    for name in names:
        if name not in curves:
            raise unknown_name(f"curve in {' or '.join(folders)} named", name, sorted(curves))
    shown_names = names or [name for name in _DEFAULT_CURVES if name in curves] or curves
    return {name: curves[name] for name in shown_names}


def _read_curves_by_kind(run: str) -> dict[str, dict[str, dict[int, float]]]:
    """Returns the values of a run's curves by folder (such as "train"), name and step."""
    if not RunConfig.exists(run):
        raise UserError(
            f"There is no run in {run}: expected the --output_dir of t2t-trainer.", code="no_run"
        )
    with translated_errors(OSError, f"The curves in {run} cannot be read", code="not_read"):
        curves = {folder.name: read_curves(folder) for folder in sorted(Path(run).iterdir())}
    if not any(curves.values()):
        raise UserError(
            f"The run in {run} has no curves yet: t2t-trainer writes the first points after 100 "
            f"steps or an evaluation.",
            code="no_curves",
        )
    return curves


def _hours_by_step(
    run: str, curves_by_kind: Mapping[str, Mapping[str, Mapping[int, float]]]
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function from steps to hours of training."""
    seconds = {step: cost.seconds for step, cost in read_costs(run).items()}
    for curves in curves_by_kind.values():
        seconds |= curves.get(_SECONDS_CURVE, {})
    if not seconds:
        raise UserError(f"{run} has not recorded its hours: use --over=steps.", code="not_recorded")
    known_steps, known_seconds = np.array(sorted({0: 0.0, **seconds}.items())).T
    return lambda steps: np.interp(steps, known_steps, known_seconds) / 3600


def text_plot(curves: Mapping[str, Sequence[Curve]], over: str) -> str:
    """Returns a line of blocks for each curve; curves of one name share their axes."""
    text_lines = []
    for name, group in curves.items():
        x, y = (np.concatenate([getattr(curve, axis) for curve in group]) for axis in "xy")
        text_lines.append(f"{name}, {x.min():,.6g} to {x.max():,.6g} {AXES[over]}")
        titles = [printable(f"{curve.run}  {curve.kind}") for curve in group]
        width = max(map(len, titles))
        columns = min(max(shutil.get_terminal_size((80, 24)).columns - width - 27, 10), 60)
        scale = _logarithm if name in _LOGARITHMIC_CURVES else np.asarray
        for title, curve in zip(titles, group, strict=True):
            bins = _bins(curve.x, x, columns)
            counts = np.bincount(bins, minlength=columns)
            means = np.bincount(bins, scale(curve.y), minlength=columns) / np.maximum(counts, 1)
            levels = _bins(means, scale(y), len(_BLOCKS))
            blocks = "".join(np.where(counts > 0, np.array(list(_BLOCKS))[levels], " "))
            text_lines.append(
                f"  {title:<{width}}  {blocks}  {curve.y[0]:,.5g} to {curve.y[-1]:,.5g}"
            )
    return "\n".join(text_lines)


def _logarithm(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, np.finfo(np.float32).tiny))


def _bins(values: np.ndarray, all_values: np.ndarray, count: int) -> np.ndarray:
    """Returns the bin of each value, of `count` equal bins over the range of all values."""
    share = (values - all_values.min()) / (np.ptp(all_values) or 1)
    return np.clip((share * count).astype(int), 0, count - 1)


def write_plot(path: str | Path, curves: Mapping[str, Sequence[Curve]], over: str) -> str:
    """Draws a panel for each name, with a colour for each run; see `save_figure`.

    Raises:
      UserError: matplotlib is not installed, or the file cannot be written.
    """
    need_matplotlib()
    return save_figure(path, lambda: _drawing(curves, over), dpi=150)


def _drawing(curves: Mapping[str, Sequence[Curve]], over: str) -> "Figure":
    """Returns the matplotlib figure, without pyplot's global state."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogFormatter

    palette = matplotlib.color_sequences["petroff10"]
    all_lines = [line for lines in curves.values() for line in lines]
    runs = dict.fromkeys(line.run for line in all_lines)
    colors = {run: palette[number % len(palette)] for number, run in enumerate(runs)}
    styles = {line.kind: _STYLES.get(line.kind, (line.kind, _OTHER_STYLE)) for line in all_lines}
    columns = min(len(curves), 2)
    rows = -(-len(curves) // columns)
    figure = Figure(figsize=(5.2 * columns, 2.6 * rows + 0.8), layout="constrained")
    axes = None
    for number, (name, lines) in enumerate(curves.items(), start=1):
        axes = figure.add_subplot(rows, columns, number, sharex=axes)
        for line in lines:
            style = styles[line.kind][1]
            # A single point is invisible without a marker.
            mark = {"marker": "o"} if len(line.x) == 1 else {}
            axes.plot(line.x, line.y, color=colors[line.run], markersize=3.5, **mark | style)
        axes.set_ylabel(_DEFAULT_CURVES.get(name, name.replace("_", " ")))
        axes.set_xlabel(AXES[over])
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if name in _LOGARITHMIC_CURVES:
            axes.set_yscale("log")
            axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))
        if name in _CURVES_FROM_ZERO:
            axes.set_ylim(bottom=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:,g}")
    handles = [Line2D([], [], color=color, linewidth=3, label=run) for run, color in colors.items()]
    legend = figure.legend(handles=handles, loc="outside upper left", frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)  # "$" is a character of a name like any other.
    handles = [Line2D([], [], color="gray", label=text, **style) for text, style in styles.values()]
    figure.legend(handles=handles, loc="outside upper right", frameon=False)
    return figure


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
    # The names contain the time of writing and, within a second, the writer's number.
    files = folder.glob("events.out.tfevents.*")
    for path in sorted(files, key=lambda file: list(map(int, re.findall(r"\d+", file.name)))):
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
