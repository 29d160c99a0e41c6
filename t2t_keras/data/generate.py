"""`generate`: source files -> vocabulary, encoded shards, dev and test text, manifest.

Files stream: they are cut into chunks by byte position, and a worker process turns a chunk into
a shard. What is written does not depend on the number of workers.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import itertools
import math
import multiprocessing
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from t2t_keras.data.atomic_file import TEMPORARY_SUFFIX, write_atomically
from t2t_keras.data.download import fetch
from t2t_keras.data.encode import (
    Chunk,
    ExampleChunk,
    FileChunk,
    LeftOut,
    Shard,
    ShardEncoder,
    encode_in_worker,
    start_worker,
)
from t2t_keras.data.manifest import (
    MANIFEST_FILE,
    VOCABULARY_FILE,
    describe,
    verify,
    write_manifest,
)
from t2t_keras.data.problem import ParallelFiles, Problem
from t2t_keras.data.shards import SIDES
from t2t_keras.data.text_files import line_offsets
from t2t_keras.data.tokenizer import Tokenizer, symbol_pieces
from t2t_keras.errors import UserError
from t2t_keras.progress_bar import progress_bar
from t2t_keras.versions import installed_versions

# Pairs a shard: tens of megabytes of memory a worker.
CHUNK_PAIRS = 50_000

_OWN_FILES = re.compile(
    rf"({VOCABULARY_FILE}|(train|dev|test)(-\d+\.(tokens|lengths)\.npy|\.(source|target)\.txt))"
    rf"({TEMPORARY_SUFFIX})?|{MANIFEST_FILE}{TEMPORARY_SUFFIX}"
)


def generate(
    problem: Problem,
    data_dir: str | Path,
    tmp_dir: str | Path = "",
    num_workers: int = 1,
    chunk_pairs: int = CHUNK_PAIRS,
) -> dict[str, Any]:
    """Makes the data of a problem in `<data_dir>/<problem name>/` and prints what it holds.

    Data that is there already is replaced. The manifest goes first and comes last, so a set that
    was interrupted is never taken for a complete one.

    Args:
      problem: what to make, from `registry.problem`.
      data_dir: parent of the directory to write.
      tmp_dir: directory of the source files.
      num_workers: processes that encode; the data is the same for any number.
      chunk_pairs: pairs a shard.

    Returns:
      The manifest.

    Raises:
      UserError: files that are missing or do not pair, a split without a usable pair, a vocabulary
        that cannot be made, a disk that is full.
    """
    if num_workers < 1:
        raise UserError(f"--num_workers is at least 1; {num_workers} came.")
    problem = problem.resolved(Path(tmp_dir))
    files = problem.files(Path(tmp_dir))
    if files and not str(tmp_dir):
        raise UserError(f"Please give --tmp_dir, the directory of {problem.name}'s source files.")
    pairs = list(itertools.chain.from_iterable(files.values()))
    paths = fetch((file for pair in pairs for file in (pair.source, pair.target)), Path(tmp_dir))
    # Read before anything is removed: the vocabulary may stand in the directory to be written.
    reused = Tokenizer.load(problem.vocab_file) if problem.vocab_file else None
    directory = Path(data_dir) / problem.name
    _clear(directory)

    plan = problem.chunks(Path(tmp_dir), chunk_pairs) or _plan(problem, files, paths, chunk_pairs)
    symbols = problem.symbols(plan["train"])
    if reused:
        _check_symbols(problem, reused, symbols)
    tokenizer = reused or Tokenizer.train(
        _evenly_spread(plan["train"], problem.vocab_lines),
        problem.vocab_size,
        problem.vocab_kind,
        symbols,
    )
    record = write_atomically(directory / VOCABULARY_FILE, tokenizer.model_bytes)
    manifest = {
        "problem": problem.name,
        "config": problem.config(),
        "versions": installed_versions(),
        "vocabulary": {
            "file": VOCABULARY_FILE,
            "size": tokenizer.vocab_size,
            "sha256": tokenizer.checksum,
        },
        "splits": {},
        "files": {VOCABULARY_FILE: record},
    }
    encoder = ShardEncoder(tokenizer, directory, problem.max_pair_length)
    with _encoding(encoder, num_workers) as encode:
        for split, chunks in plan.items():
            summary, records = _finish_split(directory, split, encode(chunks, split))
            manifest["splits"][split] = summary
            manifest["files"] |= records
    verify(directory, manifest)
    write_manifest(directory, manifest)
    print(describe(manifest), flush=True)
    return manifest


def _check_symbols(problem: Problem, vocabulary: Tokenizer, symbols: Sequence[str]) -> None:
    """Raises `UserError` where words that must be one piece are none in a vocabulary."""
    pieces = vocabulary.vocabulary()
    missing = [
        symbol
        for symbol, piece in zip(symbols, symbol_pieces(symbols), strict=True)
        if piece not in pieces
    ]
    if missing:
        some = ", ".join(missing[:10])
        raise UserError(
            f"vocab_file={problem.vocab_file} lacks {len(missing)} symbols of {problem.name}: "
            f"{some}{', ...' if len(missing) > 10 else ''}. Give the vocabulary of a problem of "
            f"its kind, or let t2t-datagen learn one."
        )


def _clear(directory: Path) -> None:
    """Removes what an earlier run wrote, its manifest first."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / MANIFEST_FILE).unlink(missing_ok=True)
        for path in directory.iterdir():
            if _OWN_FILES.fullmatch(path.name):
                path.unlink()
    except OSError as error:
        raise UserError(
            f"{error.filename or directory} cannot be written: {error.strerror}. "
            f"Give another --data_dir."
        ) from error


def _plan(
    problem: Problem,
    files: dict[str, list[ParallelFiles]],
    paths: dict[str, Path],
    chunk_pairs: int,
) -> dict[str, list[Chunk]]:
    """Returns the chunks of each split, so that files that do not pair are found at once.

    Files are only counted here; text that the problem makes is made here, and held in memory.
    """
    if not files:
        return {
            split: list(_example_chunks(problem, split, chunk_pairs)) for split in problem.splits
        }
    return {
        split: [
            chunk
            for pair in (pair.swapped() if problem.reverse else pair for pair in parallel)
            for chunk in _file_chunks(paths[pair.source.name], paths[pair.target.name], chunk_pairs)
        ]
        for split, parallel in files.items()
    }


def _example_chunks(problem: Problem, split: str, chunk_pairs: int) -> Iterator[ExampleChunk]:
    examples = problem.examples(split)
    for first_line in itertools.count(1, chunk_pairs):
        some = tuple(itertools.islice(examples, chunk_pairs))
        if not some:
            return
        if problem.reverse:
            some = tuple((target, source) for source, target in some)
        yield ExampleChunk(some, first_line)


def _file_chunks(source: Path, target: Path, chunk_pairs: int) -> Iterator[FileChunk]:
    (source_count, source_offsets), (target_count, target_offsets) = (
        line_offsets(path, chunk_pairs) for path in (source, target)
    )
    if source_count != target_count:
        raise UserError(
            f"{source} has {source_count:,} lines and {target} has {target_count:,}: line N of one "
            f"must be the translation of line N of the other. Repair the files."
        )
    offsets = zip(source_offsets, target_offsets, strict=True)
    for number, (source_offset, target_offset) in enumerate(offsets):
        first = number * chunk_pairs
        count = min(chunk_pairs, source_count - first)
        yield FileChunk(source, target, source_offset, target_offset, first + 1, count)


def _evenly_spread(chunks: Sequence[Chunk], limit: int) -> Iterator[str]:
    """Yields the text of at most `limit` pairs, evenly spread over the chunks."""
    every = max(1, math.ceil(sum(chunk.count for chunk in chunks) / limit))
    before = 0
    for chunk in chunks:
        for line in itertools.chain.from_iterable(chunk.pairs(-before % every, every)):
            with contextlib.suppress(UnicodeDecodeError):
                yield line.decode("utf-8")
        before += chunk.count


@contextlib.contextmanager
def _encoding(encoder: ShardEncoder, num_workers: int):
    """Gives a function (chunks, split) that yields the shards of a split in order."""
    if num_workers == 1:
        pool = None
    else:
        # Never fork: this process may hold threads, TensorFlow's among them.
        pool = concurrent.futures.ProcessPoolExecutor(
            num_workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=start_worker,
            initargs=(encoder,),
        )

    def encode(chunks: Sequence[Chunk], split: str) -> Iterator[Shard]:
        numbered = ((chunk, split, number) for number, chunk in enumerate(chunks))
        if pool is None:
            shards = itertools.starmap(encoder, numbered)
        else:
            shards = _in_order(pool, numbered, 2 * num_workers)
        total = sum(chunk.count for chunk in chunks)
        with progress_bar(total=total, desc=split, unit=" pairs") as progress:
            for chunk, shard in zip(chunks, shards, strict=True):
                progress.update(chunk.count)
                yield shard

    try:
        yield encode
    except BrokenProcessPool as error:
        raise UserError(
            "A worker process ended without a word, as when memory runs out. Run the same command "
            "again with fewer --num_workers."
        ) from error
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _in_order(pool: concurrent.futures.Executor, calls: Iterable[tuple], ahead: int) -> Iterator:
    """Yields the results in the order of the calls, with at most `ahead` of them under way."""
    pending = collections.deque()
    for call in calls:
        pending.append(_submit(pool, call))
        if len(pending) == ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _submit(pool: concurrent.futures.Executor, call: tuple) -> concurrent.futures.Future:
    """Gives a worker its call; where there are fewer workers than allowed, this starts one.

    Ctrl-C reaches every process of a terminal. A worker inherits that it is blocked, so that the
    main process alone answers it.
    """
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(encode_in_worker, *call)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)


def _finish_split(
    directory: Path, split: str, shards: Iterable[Shard]
) -> tuple[dict[str, Any], dict[str, dict]]:
    """Waits for a split's shards, writes its text where it is kept.

    Returns:
      The manifest's entry of the split and the records of its files.
    """
    stems: list[str] = []
    records: dict[str, dict] = {}
    examples = source_tokens = target_tokens = 0
    left_out: dict[str, LeftOut] = {}
    lines: tuple[list[str], list[str]] = ([], [])
    for shard in shards:
        stems.append(shard.stem)
        records |= shard.files
        examples += shard.examples
        source_tokens += shard.tokens[0]
        target_tokens += shard.tokens[1]
        for reason, entry in shard.left_out.items():
            left_out.setdefault(reason, LeftOut()).add(entry.count, entry.first)
        for kept, more in zip(lines, shard.lines, strict=True):
            kept.extend(more)
    if not examples:
        reasons = ", ".join(f"{entry.count:,} {reason}" for reason, entry in left_out.items())
        raise UserError(
            f"The {split} split has no usable pair; left out: {reasons or 'none, it is empty'}."
        )
    if split != "train":
        for side, text in zip(SIDES, lines, strict=True):
            path = directory / f"{split}.{side}.txt"
            content = "".join(f"{line}\n" for line in text).encode("utf-8")
            records[path.name] = write_atomically(path, content)
    summary = {
        "examples": examples,
        "source_tokens": source_tokens,
        "target_tokens": target_tokens,
        "shards": stems,
        "left_out": {reason: dataclasses.asdict(entry) for reason, entry in left_out.items()},
    }
    return summary, records
