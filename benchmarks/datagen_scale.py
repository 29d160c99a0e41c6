"""Speed and memory of t2t-datagen at the size of a corpus, with the extrapolation to 36M pairs.

    python benchmarks/datagen_scale.py --text=../shared/data --pairs=4500000 [--filters=duplicates]

The text is every EN-DE training text in the folder, repeated in a changed order: right for load,
not for what is learned from it.
"""

import contextlib
import multiprocessing
import os
import random
import resource
import shutil
import tempfile
import threading
import time
from pathlib import Path

from absl import app, flags

from t2t_keras import registry
from t2t_keras.data.generate import generate
from t2t_keras.data.text_files import read_lines
from t2t_keras.processor_cores import usable_cores

_TEXT = flags.DEFINE_string("text", "../shared/data", "Folder of text, <corpus>/*.en-de.en.")
_PAIRS = flags.DEFINE_integer("pairs", 300_000, "Training pairs.")
_FILTERS = flags.DEFINE_string("filters", "", "As the problem's setting.")
_VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 37_000, "Size of the vocabulary.")
_VOCAB_LINES = flags.DEFINE_integer(
    "vocab_lines", 1_000_000, "Lines a side that it is learned from, as for translate_ende."
)
_WORKERS = flags.DEFINE_integer("num_workers", usable_cores(), "Worker processes.")
_FOLDER = flags.DEFINE_string("folder", "", "Where to work and leave the data; a temporary one.")
_CORPORA = ("europarl/europarl20k", "tatoeba/train", "debian_descriptions/train")
_PAPER_PAIRS = 36_000_000


def main(_) -> None:
    """Assembles the text, makes the data, and says what it took."""
    folder = Path(_FOLDER.value or tempfile.mkdtemp())
    try:
        _assemble(folder)
        _measure(folder)
    finally:
        if not _FOLDER.value:
            shutil.rmtree(folder)


def _assemble(folder: Path) -> None:
    pairs = []
    for corpus in _CORPORA:
        sides = (read_lines(Path(f"{_TEXT.value}/{corpus}.en-de.{code}")) for code in ("en", "de"))
        pairs.extend(zip(*sides, strict=True))
    order, generator = [], random.Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "train.en").open("wb") as english, (folder / "train.de").open("wb") as german:
        for _ in range(_PAIRS.value):
            order = order or generator.sample(range(len(pairs)), len(pairs))
            source, target = pairs[order.pop()]
            english.write(source + b"\n")
            german.write(target + b"\n")
    for side, code in enumerate(("en", "de")):
        (folder / f"dev.{code}").write_bytes(b"".join(pair[side] + b"\n" for pair in pairs[:1000]))
    size = sum((folder / f"train.{code}").stat().st_size for code in ("en", "de"))
    print(f"{_PAIRS.value:,} pairs, {len(pairs):,} of them different, {size / 1e6:,.0f} MB")


def _measure(folder: Path) -> None:
    problem = registry.problem(
        "parallel_text",
        f"source_language=en,target_language=de,vocab_size={_VOCAB_SIZE.value},"
        f"vocab_lines={_VOCAB_LINES.value},filters={_FILTERS.value}",
    )
    peaks = _PeakMemory()
    started = time.time()
    generate(problem, folder / "data", folder, _WORKERS.value)
    ended = time.time()
    learned = (folder / "data" / "parallel_text" / "vocab.model").stat().st_mtime
    encoding = ended - learned
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    rate = _PAIRS.value / encoding
    print(f"vocabulary: {learned - started:.0f} s; then {encoding:.0f} s with {_WORKERS.value}")
    print(f"encoding: {rate:,.0f} pairs/s")
    busy = workers.ru_utime + workers.ru_stime
    if busy > 1:
        # On a machine that has other work too, this is what it would be alone.
        print(f"a worker: {_PAIRS.value / busy:,.0f} pairs for each second of processor time")
    largest = max([0, *peaks.of_workers()])
    print(f"peak memory: {peaks.own():,.0f} MB, and {largest:,.0f} MB for the largest worker")
    print(f"{_PAPER_PAIRS:,} pairs at this rate: {_PAPER_PAIRS / rate / 60:.0f} min")


class _PeakMemory:
    """Peak resident memory of this process and its workers, in MB, read from /proc (Linux).

    What getrusage says of a child begins with what its parent held when it started it.
    """

    def __init__(self):
        self._peaks: dict[int, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def own(self) -> float:
        return _peak_megabytes(os.getpid())

    def of_workers(self) -> list[float]:
        return list(self._peaks.values())

    def _watch(self) -> None:
        while True:
            for worker in multiprocessing.active_children():
                with contextlib.suppress(OSError, StopIteration):
                    self._peaks[worker.pid] = _peak_megabytes(worker.pid)
            time.sleep(0.5)


def _peak_megabytes(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    app.run(main)
