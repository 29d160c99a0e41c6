"""Speed and memory of t2t-datagen at several sizes of a corpus, and of reading what it made.

    python experiments/data_speed/datagen_scale.py --text=../shared/data --pairs=1500000,4500000
    python experiments/data_speed/datagen_scale.py --text=../shared/data --pairs=600000
        --corpora=europarl/europarl20k [--vocab_kind=unigram]

The text repeats some EN-DE corpora in random order: it measures load, not quality. The vocabulary
is learned once, from the largest corpus; then each corpus is encoded with it, with and without the
filter of duplicates, and the time for 36 million pairs is extrapolated. Each run has its own
process, to measure its own peak of memory. Batches are planned, split over 8 replicas, read and
padded as in training, in one thread.
"""

import collections
import contextlib
import itertools
import multiprocessing
import random
import resource
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from absl import app, flags

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from measuring import in_own_process, peak_bytes

from t2t_keras.data.batches import TokenBatchSampler, make_batch, split_batch
from t2t_keras.data.dataset import Generated, read_manifest
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import Problem, make_problem
from t2t_keras.environment import usable_cores
from t2t_keras.text.files import read_lines

_TEXT = flags.DEFINE_string("text", "../shared/data", "Folder of text, <corpus>.en-de.en.")
_PAIRS = flags.DEFINE_list("pairs", ["300000"], "Numbers of training pairs.")
_VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 37_000, "Size of the vocabulary.")
_VOCAB_LINES = flags.DEFINE_integer("vocab_lines", 1_000_000, "Lines per side to learn from.")
_VOCAB_KIND = flags.DEFINE_string("vocab_kind", "bpe", "Kind of the vocabulary.")
_WORKERS = flags.DEFINE_integer("num_workers", usable_cores(), "Number of worker processes.")
_FOLDER = flags.DEFINE_string("folder", "", "Folder to work in and to leave the data in.")
_CORPORA = flags.DEFINE_list(
    "corpora",
    ["europarl/europarl20k", "tatoeba/train", "debian_descriptions/train"],
    "Names of the text's files before .en-de.en; Europarl's lines are the longest.",
)
_PAPER_PAIRS = 36_000_000
_SECONDS_OF_READING = 20


# Seconds of learning, of encoding and of the workers' processors; peaks of two processes in MB.
_Run = collections.namedtuple("_Run", "learning encoding busy main worker")


def main(_) -> None:
    """Assembles the text, makes the data of each size, and prints times and memory."""
    with contextlib.ExitStack() as stack:
        folder = Path(_FOLDER.value or stack.enter_context(tempfile.TemporaryDirectory()))
        sizes = sorted(map(int, _PAIRS.value))
        megabytes = [assemble(folder, pairs) for pairs in sizes]
        config = f"vocab_size={_VOCAB_SIZE.value},vocab_lines={_VOCAB_LINES.value}"

        def run(pairs: int, config: str) -> _Run:
            return in_own_process(run_datagen, folder, pairs, config, _WORKERS.value)

        first = run(sizes[-1], f"{config},vocab_kind={_VOCAB_KIND.value}")
        memory = f"peak memory {first.main:,.0f} MB, a worker {first.worker:,.0f} MB"
        print(f"vocabulary of {sizes[-1]:,} pairs: {first.learning:.0f} s; {memory}")
        path = folder / "data" / "parallel_text" / "vocab.model"
        config = f"vocab_file={shutil.copy(path, folder / 'vocab.model')}"
        for filters in ("duplicates", ""):  # Unfiltered data is last, and stays in the folder.
            runs = [run(pairs, f"filters={filters},{config}") for pairs in sizes]
            print(f"\n{filters or 'no filter'}, {_WORKERS.value} workers:")
            _report(sizes, megabytes, runs)
        _read_batches(folder / "data" / "parallel_text")


def assemble(folder: Path, count: int) -> float:
    """Writes `count` training pairs, and dev files; returns the pairs' megabytes."""
    pairs = []
    for corpus in _CORPORA.value:
        sides = (read_lines(Path(f"{_TEXT.value}/{corpus}.en-de.{code}")) for code in ("en", "de"))
        pairs.extend(zip(*sides, strict=True))
    generator = random.Random(1)
    orders = (generator.sample(pairs, len(pairs)) for _ in itertools.count())
    folder.mkdir(parents=True, exist_ok=True)
    training = list(itertools.islice(itertools.chain.from_iterable(orders), count))
    for side, code in enumerate(("en", "de")):
        for name, lines in ((count, training), ("dev", pairs[:1000])):
            with (folder / f"{name}.{code}").open("wb") as file:
                file.writelines(pair[side] + b"\n" for pair in lines)
    megabytes = sum((folder / f"{count}.{code}").stat().st_size for code in ("en", "de")) / 1e6
    print(f"{count:,} pairs, {len(pairs):,} of them different, {megabytes:,.0f} MB", flush=True)
    return megabytes


def run_datagen(folder: Path, pairs: int, config: str, num_workers: int, **beam) -> _Run:
    """Makes the data of a corpus, with Apache Beam if options for it are set."""
    peaks: dict[int, int] = {0: 0}

    def watch() -> None:
        # getrusage would count the memory that the parent held when it forked the worker.
        while True:
            for worker in multiprocessing.active_children():
                with contextlib.suppress(OSError, StopIteration):
                    peaks[worker.pid] = peak_bytes(worker.pid)
            time.sleep(0.1)

    threading.Thread(target=watch, daemon=True).start()
    config = f"source_language=en,target_language=de,train={pairs},{config}"
    started = time.time()
    data = folder / ("beam" if beam else "data")
    options = dict(num_workers=num_workers, overwrite=True) | beam
    generate(make_problem("parallel_text", config), data, folder, **options)
    ended = time.time()
    learned = (data / "parallel_text" / "vocab.model").stat().st_mtime
    # The direct runner works in this process.
    used = resource.getrusage(resource.RUSAGE_SELF if beam else resource.RUSAGE_CHILDREN)
    memory = (size / (1 << 20) for size in (peak_bytes(), max(peaks.values())))
    return _Run(learned - started, ended - learned, used.ru_utime + used.ru_stime, *memory)


def _report(sizes: list[int], megabytes: list[float], runs: list[_Run]) -> None:
    # Other work on the machine changes the seconds, but hardly the processor time.
    print("| pairs | s | pairs/s | MB/s | pairs per worker's processor s | peak MB | a worker's |")
    print("|---|---|---|---|---|---|---|")
    for pairs, size, run in zip(sizes, megabytes, runs, strict=True):
        seconds, speed = run.encoding, pairs / run.encoding
        columns = [f"{seconds:.0f}", f"{speed:,.0f}", f"{size / seconds:.1f}"]
        numbers = pairs / max(run.busy, 1), run.main, run.worker
        columns += [f"{number:,.0f}" for number in numbers]
        print(f"| {pairs:,} | {' | '.join(columns)} |")
    print(f"{_PAPER_PAIRS:,} pairs: {_PAPER_PAIRS / speed / 60:.0f} min, extrapolated")
    if len(sizes) > 1:
        growth = (runs[-1].main - runs[0].main) / (sizes[-1] - sizes[0])
        peak = runs[-1].main + growth * (_PAPER_PAIRS - sizes[-1])
        print(f"  main process: {peak:,.0f} MB, {growth * (1 << 20):.2f} bytes a pair")


def _read_batches(directory: Path) -> None:
    """Reads steps of 25,000 tokens for a while, and prints the tokens per second."""
    store = Generated(Problem(), directory, read_manifest(directory)).open_examples("train")
    batches = TokenBatchSampler(store.lengths, 25_000, max_length=256, seed=1)
    started = time.perf_counter()
    batches.at(0)
    planned = time.perf_counter()
    print(f"\n{len(store):,} pairs: an epoch is planned in {planned - started:.1f} s")
    tokens, busy = 0, time.process_time()
    for step in itertools.count():
        seconds = time.perf_counter() - planned
        if seconds > _SECONDS_OF_READING:
            break
        for part in split_batch(store.lengths, batches.at(step), 4096, replicas=8):
            for arrays in (make_batch(store, rows) for rows in part):
                tokens += int((arrays.source != 0).sum()) + arrays.target_tokens
    busy = time.process_time() - busy
    print(f"{tokens / seconds:,.0f} source and target tokens/s in {step:,} steps")
    print(f"{tokens / busy:,.0f} for each second of processor time")


if __name__ == "__main__":
    app.run(main)
