"""How costs grow: a training step, data generation and decoding, each by what makes them larger.

    python experiments/growth/growth.py [--folder=experiments/growth] [--only=decoding] [--rounds=3]

Prints a table and draws `growth_training.svg`, `growth_data.svg` and `growth_decoding.svg`. A cost
that grows as the n-th power of a size has the exponent n: the slope of log(seconds) over log(size),
here of the larger half of the sizes, where what is the same at every size counts least. Sizes take
turns; each time is the median of some rounds. The model is `transformer_small` with a vocabulary of
8,000; what is not varied is in the titles.
"""

import contextlib
import io
import math
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from absl import app, flags

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from measuring import median_seconds, new_step, random_translator

_FOLDER = flags.DEFINE_string("folder", str(Path(__file__).parent), "Folder of the pictures.")
_ONLY = flags.DEFINE_enum(
    "only", "", ("", "training", "data", "decoding"), "One picture; '' = all."
)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Number of rounds; the median counts.", 1)

_VOCAB_SIZE = 8000


class _Panel(NamedTuple):
    """What grows.

    Attributes:
      size: what is varied.
      others: what is not.
      way: returns, for a size, a function that does the work once.
      sizes: ascending.
      least: the exponent that the paper's Table 1 or the work itself gives.
    """

    size: str
    others: str
    way: Callable[[int], Callable[[], object]]
    sizes: tuple[int, ...]
    least: str


def _step(sentences=32, length=32, vocab_size=_VOCAB_SIZE, layers=2) -> Callable[[], object]:
    """Returns what does one training step."""
    from t2t_keras import hyperparameters
    from t2t_keras.data.batches import Batch

    sizes = dict(num_layers=layers, microbatch_tokens=1 << 20)
    step = new_step(hyperparameters.hparams("transformer_small", sizes), vocab_size)
    ids = np.random.default_rng(0).integers(3, vocab_size, (sentences, length), np.int32)
    return lambda: float(step.update(step.steps_done(), [[Batch(ids, ids)]])["loss"])


def _translation(beam_size=4, length=32, sentences=16) -> Callable[[], object]:
    """Returns what translates a batch into outputs of such a length."""
    from t2t_keras import hyperparameters

    lengths = dict(min_length=length, max_length=length, extra_length=length)
    hparams = hyperparameters.hparams("transformer_small", "")
    translator = random_translator(
        hparams, _VOCAB_SIZE, beam_size=beam_size, batches_at_once=1, **lengths
    )
    source = np.random.default_rng(0).integers(3, _VOCAB_SIZE, (sentences, 32), np.int32)
    return lambda: translator.search(source).ids.numpy()


def _generation(pairs: int) -> Callable[[], object]:
    """Returns what generates data of this number of toy pairs, with a fixed vocabulary."""
    from t2t_keras.data.generate import generate
    from t2t_keras.data.problem import make_problem

    folder = Path(_SCRATCH.name)
    lines = list(make_problem("translate_ende_toy").examples("dev"))
    for name, count in ((f"train{pairs}", pairs), ("dev", 100)):
        for side, code in enumerate(("en", "de")):
            # No line is as another one.
            content = "".join(f"{lines[n % len(lines)][side]} {n}\n" for n in range(count))
            (folder / f"{name}.{code}").write_text(content, encoding="utf-8")
    config = f"source_language=en,target_language=de,train=train{pairs},filters=duplicates"
    vocabulary = folder / "first/parallel_text/vocab.model"
    if not vocabulary.exists():
        first = make_problem("parallel_text", f"{config},vocab_size=500")
        with contextlib.redirect_stdout(io.StringIO()):
            generate(first, folder / "first", folder)
    problem = make_problem("parallel_text", f"{config},vocab_file={vocabulary}")

    def made() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            generate(problem, folder / f"data{pairs}", folder)

    return made


_SCRATCH = tempfile.TemporaryDirectory()
_PICTURES: Mapping[str, tuple[_Panel, ...]] = {
    "training": (
        _Panel("sentences", "32 tokens each", lambda n: _step(n), (8, 16, 32, 64, 128, 256), "1"),
        _Panel(
            "tokens of a sentence",
            "16 sentences",
            lambda n: _step(16, n),
            (16, 32, 64, 128, 256, 512),
            "1 to 2",
        ),
        _Panel(
            "vocabulary",
            "1,024 tokens",
            lambda n: _step(vocab_size=n),
            (2000, 4000, 8000, 16000, 32000, 64000),
            "1",
        ),
        _Panel("layers", "1,024 tokens", lambda n: _step(layers=n), (1, 2, 4, 8, 16), "1"),
    ),
    "data": (
        _Panel(
            "pairs",
            "one process",
            _generation,
            (12_500, 25_000, 50_000, 100_000, 200_000, 400_000),
            "1",
        ),
    ),
    "decoding": (
        _Panel(
            "beam",
            "16 sentences of 32 tokens",
            lambda n: _translation(beam_size=n),
            (1, 2, 4, 8, 16, 32),
            "1",
        ),
        _Panel(
            "tokens of an output",
            "16 sentences, beam 4",
            lambda n: _translation(length=n),
            (16, 32, 64, 128, 256, 512),
            "1 to 2",
        ),
    ),
}


def exponent(sizes: tuple[int, ...], seconds: tuple[float, ...]) -> float:
    """Returns the slope of log(seconds) over log(size), of the larger half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0])


def _drawn(panels: Mapping[_Panel, tuple[float, ...]]):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 * len(panels), 3), layout="constrained")
    rows = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (panel, seconds) in zip(rows, panels.items(), strict=True):
        axes.loglog(panel.sizes, seconds, marker="o", base=2)
        axes.set_yscale("log", base=10)
        slope, last = exponent(panel.sizes, seconds), seconds[-1]
        half = panel.sizes[len(panel.sizes) // 2 :]
        line = [last * math.exp(slope * math.log(n / panel.sizes[-1])) for n in half]
        axes.plot(half, line, linestyle=":", color="grey", label=f"exponent {slope:.2f}")
        axes.set(xlabel=panel.size, ylabel="seconds", title=panel.others)
        axes.legend()
    return figure


def main(_) -> None:
    """Measures, prints and draws."""
    from t2t_keras.lab.drawing import save_figure

    print("| | by | exponent | expected | seconds, smallest to largest |\n|---|---|---|---|---|")
    for name, panels in _PICTURES.items():
        if _ONLY.value not in ("", name):
            continue
        found = {}
        for panel in panels:
            ways = {size: panel.way(size) for size in panel.sizes}
            found[panel] = tuple(median_seconds(ways, _ROUNDS.value).values())
            times = ", ".join(f"{each:.3g}" for each in found[panel])
            slope = f"{exponent(panel.sizes, found[panel]):.2f} | {panel.least}"
            print(f"| {name} | {panel.size} ({panel.others}) | {slope} | {times} |", flush=True)
        save_figure(Path(_FOLDER.value) / f"growth_{name}.svg", lambda found=found: _drawn(found))


if __name__ == "__main__":
    app.run(main)
