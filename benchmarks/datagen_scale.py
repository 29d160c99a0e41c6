"""Speed and memory of t2t-datagen at several sizes of a corpus, extrapolated to 36M pairs.

    python benchmarks/datagen_scale.py --text=../shared/data --pairs=1500000,4500000
    python benchmarks/datagen_scale.py --text=../shared/data --pairs=600000
        --corpora=europarl/europarl20k [--vocab_kind=unigram]

The text is that of some EN-DE corpora, repeated in a changed order: right for load, not for what is
learned from it. The vocabulary is learned once, from the largest corpus; then each
is encoded with it, without and with the filter of duplicates. Each run has a process of its own, so
that its peak of memory is not that of an earlier one, nor that of learning.
"""

import concurrent.futures
import contextlib
import multiprocessing
import random
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from absl import app, flags
from peak_memory import peak_bytes

from t2t_keras import registry
from t2t_keras.data.generate import generate
from t2t_keras.data.text_files import read_lines
from t2t_keras.processor_cores import usable_cores

_TEXT = flags.DEFINE_string("text", "../shared/data", "Folder of text, <corpus>/*.en-de.en.")
_PAIRS = flags.DEFINE_list(
    "pairs", ["300000"], "Training pairs; several sizes of many shards tell the growth."
)
_VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 37_000, "Size of the vocabulary.")
_VOCAB_LINES = flags.DEFINE_integer(
    "vocab_lines", 1_000_000, "Lines a side that it is learned from, as for translate_ende."
)
_WORKERS = flags.DEFINE_integer("num_workers", usable_cores(), "Worker processes.")
_FOLDER = flags.DEFINE_string("folder", "", "Where to work and leave the data; a temporary one.")
_CORPORA = flags.DEFINE_list(
    "corpora",
    ["europarl/europarl20k", "tatoeba/train", "debian_descriptions/train"],
    "Names of the text's files before .en-de.en; Europarl's lines are the longest.",
)
_VOCAB_KIND = flags.DEFINE_string("vocab_kind", "bpe", "What kind of vocabulary is learned.")
_FILTERS = ("", "duplicates")
_PAPER_PAIRS = 36_000_000
_MEGABYTE = 1 << 20


class _Run(NamedTuple):
    """What a run took: seconds, seconds of the workers' processors, and peaks in bytes."""

    learning: float
    encoding: float
    busy: float
    main: int
    worker: int


def main(_) -> None:
    """Assembles the text, makes the data of each size, and says what it took."""
    folder = Path(_FOLDER.value or tempfile.mkdtemp())
    try:
        sizes = sorted(map(int, _PAIRS.value))
        bytes_of = {pairs: _assemble(folder, pairs) for pairs in sizes}
        vocabulary = _learn(folder, sizes[-1])
        # The filter first: what stays in the folder is the largest corpus without it.
        runs = {
            (pairs, filters): _run(folder, pairs, f"filters={filters},vocab_file={vocabulary}")
            for pairs in sizes
            for filters in reversed(_FILTERS)
        }
        _report(bytes_of, runs)
    finally:
        if not _FOLDER.value:
            shutil.rmtree(folder)


def _assemble(folder: Path, count: int) -> int:
    """Writes so many pairs; returns their bytes."""
    pairs = []
    for corpus in _CORPORA.value:
        sides = (read_lines(Path(f"{_TEXT.value}/{corpus}.en-de.{code}")) for code in ("en", "de"))
        pairs.extend(zip(*sides, strict=True))
    order, generator = [], random.Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{count}.{code}" for code in ("en", "de")]
    with paths[0].open("wb") as english, paths[1].open("wb") as german:
        for _ in range(count):
            order = order or generator.sample(range(len(pairs)), len(pairs))
            source, target = pairs[order.pop()]
            english.write(source + b"\n")
            german.write(target + b"\n")
    for side, code in enumerate(("en", "de")):
        (folder / f"dev.{code}").write_bytes(b"".join(pair[side] + b"\n" for pair in pairs[:1000]))
    size = sum(path.stat().st_size for path in paths)
    print(f"{count:,} pairs, {len(pairs):,} of them different, {size / 1e6:,.0f} MB", flush=True)
    return size


def _learn(folder: Path, pairs: int) -> Path:
    """Learns the vocabulary in a whole run, says what that took, and returns the file."""
    config = f"vocab_size={_VOCAB_SIZE.value},vocab_lines={_VOCAB_LINES.value}"
    run = _run(folder, pairs, f"{config},vocab_kind={_VOCAB_KIND.value}")
    print(f"vocabulary of {pairs:,} pairs: {run.learning:.0f} s")
    print(f"peak memory with that: {_megabytes(run.main)}, a worker {_megabytes(run.worker)}")
    return shutil.copy(folder / "data" / "parallel_text" / "vocab.model", folder / "vocab.model")


def _run(folder: Path, pairs: int, config: str) -> _Run:
    languages = "source_language=en,target_language=de"
    config = f"{languages},train={pairs},{config}"
    fresh = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=fresh) as process:
        return process.submit(_generate, config, folder, _WORKERS.value).result()


def _generate(config: str, folder: Path, num_workers: int) -> _Run:
    problem = registry.problem("parallel_text", config)
    peaks = _PeakMemory()
    started = time.time()
    generate(problem, folder / "data", folder, num_workers)
    ended = time.time()
    learned = (folder / "data" / "parallel_text" / "vocab.model").stat().st_mtime
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return _Run(
        learning=learned - started,
        encoding=ended - learned,
        busy=workers.ru_utime + workers.ru_stime,
        main=peaks.own(),
        worker=max([0, *peaks.of_workers()]),
    )


def _report(bytes_of: Mapping[int, int], runs: Mapping[tuple[int, str], _Run]) -> None:
    for (pairs, filters), run in runs.items():
        print(f"\n{pairs:,} pairs, {filters or 'no filter'}: {run.encoding:.0f} s")
        megabytes = bytes_of[pairs] / run.encoding / 1e6
        print(
            f"  {pairs / run.encoding:,.0f} pairs/s, {megabytes:.1f} MB/s, {_WORKERS.value} workers"
        )
        if run.busy > 1:
            # On a machine that has other work too, this is what it would be alone.
            print(f"  {pairs / run.busy:,.0f} pairs for each second of a worker's processor time")
        print(f"  peak memory {_megabytes(run.main)}, a worker {_megabytes(run.worker)}")
    print()
    sizes = list(bytes_of)
    for pairs in sizes:
        added = (runs[pairs, "duplicates"].main - runs[pairs, ""].main) / pairs
        print(f"{pairs:,} pairs: the filter of duplicates adds {added:.1f} bytes a pair")
    print(f"\n{_PAPER_PAIRS:,} pairs, extrapolated:")
    for filters in _FILTERS:
        _extrapolate(sizes, [runs[pairs, filters] for pairs in sizes], filters or "no filter")


def _extrapolate(sizes: Sequence[int], runs: Sequence[_Run], name: str) -> None:
    """Says what the paper's corpus would take: time as the largest size, memory as it grows."""
    minutes = _PAPER_PAIRS / sizes[-1] * runs[-1].encoding / 60
    print(f"  {name}: {minutes:.0f} min")
    if len(sizes) == 1:
        return
    for process in ("main", "worker"):
        peaks = [getattr(run, process) for run in runs]
        growth = (peaks[-1] - peaks[0]) / (sizes[-1] - sizes[0])
        peak = peaks[-1] + growth * (_PAPER_PAIRS - sizes[-1])
        print(f"    {process} process: {_megabytes(peak)}, {growth:.2f} bytes more for each pair")


def _megabytes(size: float) -> str:
    return f"{size / _MEGABYTE:,.0f} MB"


class _PeakMemory:
    """Peak resident memory of this process and its workers, in bytes, read from /proc (Linux).

    What getrusage says of a child begins with what its parent held when it started it.
    """

    def __init__(self):
        self._peaks: dict[int, int] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def own(self) -> int:
        return peak_bytes()

    def of_workers(self) -> list[int]:
        return list(self._peaks.values())

    def _watch(self) -> None:
        while True:
            for worker in multiprocessing.active_children():
                with contextlib.suppress(OSError, StopIteration):
                    self._peaks[worker.pid] = peak_bytes(worker.pid)
            time.sleep(0.5)


if __name__ == "__main__":
    app.run(main)
