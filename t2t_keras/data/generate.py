"""`generate`: source files -> vocabulary, encoded shards, dev and test text, manifest.

Files stream: they are cut into chunks by byte position, and a worker process turns a chunk into
a shard. What is written does not depend on the number of workers.
"""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.data.atomic_file import TEMPORARY_SUFFIX, sha256_of, write_atomically
from t2t_keras.data.chunks import Chunk, ChunkWithRepeats
from t2t_keras.data.encode import LeftOut, Shard, ShardEncoder, shard_stem
from t2t_keras.data.filters import (
    Languages,
    came_before,
    filter_names,
    pair_hashes,
    versions_with,
)
from t2t_keras.data.journal import JOURNAL_FILE, Journal, made_from
from t2t_keras.data.manifest import (
    MANIFEST_FILE,
    VOCABULARY_FILE,
    describe,
    verify,
    write_manifest,
)
from t2t_keras.data.plan import evenly_spread, fetch_sources, plan_chunks
from t2t_keras.data.problem import Problem
from t2t_keras.data.shards import SIDES
from t2t_keras.data.tokenizer import Tokenizer, symbol_pieces
from t2t_keras.data.workers import workers
from t2t_keras.errors import UserError
from t2t_keras.progress_bar import progress_bar

# Pairs a shard: tens of megabytes of memory a worker.
CHUNK_PAIRS = 50_000

_TEMPORARY = rf"\.[0-9a-f]{{8}}{TEMPORARY_SUFFIX}"
_OWN_FILES = re.compile(
    rf"({VOCABULARY_FILE}|(train|dev|test)(-\d+\.(tokens|lengths)\.npy|\.(source|target)\.txt)"
    rf"|{JOURNAL_FILE})({_TEMPORARY})?|{MANIFEST_FILE}{_TEMPORARY}"
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
    was interrupted is never taken for a complete one; of such a set, what would be made again just
    so is kept.

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
    filters = filter_names(problem.filters)
    if "language" in filters:
        Languages(problem.languages())  # Before the work, not in the midst of it.
    paths = fetch_sources(problem, tmp_dir)
    # Read before anything is removed: the vocabulary may stand in the directory to be written.
    reused = Tokenizer.load(problem.vocab_file) if problem.vocab_file else None
    directory = Path(data_dir) / problem.name
    with _writable(directory):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / MANIFEST_FILE).unlink(missing_ok=True)

    plan = problem.chunks(Path(tmp_dir), chunk_pairs) or plan_chunks(
        problem, paths, Path(tmp_dir), chunk_pairs
    )
    symbols = problem.symbols(plan["train"])
    if reused:
        _check_symbols(problem, reused, symbols)
    journal = Journal(directory, made_from(problem, plan["train"], chunk_pairs))
    tokenizer = reused or _vocabulary(problem, plan["train"], symbols, journal, directory)
    journal.start(tokenizer.checksum)
    kept = {name for shard in journal.shards.values() for name in shard.files}
    _clear(directory, {JOURNAL_FILE, VOCABULARY_FILE, *kept})
    record = write_atomically(directory / VOCABULARY_FILE, tokenizer.model_bytes)
    encoder = ShardEncoder(
        tokenizer,
        directory,
        problem.max_pair_length,
        filters,
        problem.max_length_ratio,
        problem.languages(),
    )
    if "duplicates" in filters:
        plan["train"] = _with_repeats(plan["train"], num_workers)
    splits, files = _encode_splits(encoder, plan, directory, journal, num_workers)
    manifest = _manifest(problem, tokenizer, splits, {VOCABULARY_FILE: record, **files})
    verify(directory, manifest)
    write_manifest(directory, manifest)
    journal.end()
    print(describe(manifest), flush=True)
    return manifest


def _vocabulary(
    problem: Problem,
    chunks: Sequence[Chunk],
    symbols: Sequence[str],
    journal: Journal,
    directory: Path,
) -> Tokenizer:
    """Returns the vocabulary of an interrupted run of the same, or learns one."""
    path = directory / VOCABULARY_FILE
    if journal.vocabulary and path.exists() and sha256_of(path) == journal.vocabulary:
        return Tokenizer.load(path)
    lines = evenly_spread(chunks, problem.vocab_lines)
    return Tokenizer.train(lines, problem.vocab_size, problem.vocab_kind, symbols)


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


def _clear(directory: Path, kept: Collection[str]) -> None:
    """Removes what an earlier run wrote, but for some files."""
    with _writable(directory):
        for path in directory.iterdir():
            if _OWN_FILES.fullmatch(path.name) and path.name not in kept:
                path.unlink()


@contextlib.contextmanager
def _writable(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{error.filename or directory} cannot be written: {error.strerror}. "
            f"Give another --data_dir."
        ) from error


def _with_repeats(chunks: Sequence[Chunk], num_workers: int) -> list[ChunkWithRepeats]:
    """Returns the chunks, told which of their pairs came before in any of them."""
    hashes = []
    with (
        workers(pair_hashes, min(num_workers, len(chunks) or 1)) as call,
        progress_bar(total=len(chunks), desc="duplicates", unit=" chunks") as progress,
    ):
        for some in call((chunk,) for chunk in chunks):
            hashes.append(some)
            progress.update(1)
    return list(map(ChunkWithRepeats, chunks, came_before(hashes)))


def _encode_splits(
    encoder: ShardEncoder,
    plan: Mapping[str, Sequence[Chunk]],
    directory: Path,
    journal: Journal,
    num_workers: int,
) -> tuple[dict[str, Any], dict[str, dict]]:
    """Encodes every split.

    Returns:
      The manifest's entries of the splits, and the records of their files.
    """
    splits: dict[str, Any] = {}
    files: dict[str, dict] = {}
    with workers(encoder, min(num_workers, len(plan["train"]) or 1)) as call:
        for split, chunks in plan.items():
            shards = _encoded(call, chunks, split, journal)
            splits[split], records = _finish_split(directory, split, shards)
            files |= records
    return splits, files


def _encoded(
    call: Callable, chunks: Sequence[Chunk], split: str, journal: Journal
) -> Iterator[Shard]:
    """Yields the shards of a split in order, those that are there already among them."""
    kept = journal.shards if split == "train" else {}
    stems = [shard_stem(split, number) for number in range(len(chunks))]
    if kept:
        print(f"Continuing: {len(kept)} of {len(chunks)} training shards are there.", flush=True)
    made = call(
        (chunk, split, number) for number, chunk in enumerate(chunks) if stems[number] not in kept
    )
    total = sum(chunk.count for chunk in chunks)
    with progress_bar(total=total, desc=split, unit=" pairs") as progress:
        for chunk, stem in zip(chunks, stems, strict=True):
            shard = kept.get(stem)
            if shard is None:
                shard = next(made)
                if split == "train":
                    journal.add(shard)
            progress.update(chunk.count)
            yield shard


def _manifest(
    problem: Problem, tokenizer: Tokenizer, splits: dict[str, Any], files: dict[str, dict]
) -> dict[str, Any]:
    return {
        "problem": problem.name,
        "config": problem.config(),
        "versions": versions_with(problem.filters),
        "vocabulary": {
            "file": VOCABULARY_FILE,
            "size": tokenizer.vocab_size,
            "sha256": tokenizer.checksum,
        },
        "splits": splits,
        "files": files,
    }


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
