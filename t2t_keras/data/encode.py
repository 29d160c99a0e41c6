"""Chunks of text -> shards of ids, in worker processes."""

import concurrent.futures
import contextlib
import hashlib
import itertools
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from t2t_keras import registry
from t2t_keras.data.dataset import write_shard
from t2t_keras.data.filters import BUILT_IN_FILTERS, data_versions, in_other_language
from t2t_keras.data.problem import Chunk, Pair, Problem
from t2t_keras.errors import UserError
from t2t_keras.io.files import write_json
from t2t_keras.registry import FILTERS
from t2t_keras.text.files import is_blank, normalized
from t2t_keras.text.tokenizer import Tokenizer

# As `itertools.starmap`: yields function(*arguments) for the arguments of each call, in order.
Starmap = Callable[[Callable, Iterable[tuple]], Iterator]


@contextlib.contextmanager
def workers(count: int) -> Iterator[Starmap]:
    """Yields a `Starmap` that uses `count` worker processes; 1 = only this process."""
    if count == 1:
        yield itertools.starmap
        return
    # Never fork: this process may have threads, TensorFlow's among them.
    pool = concurrent.futures.ProcessPoolExecutor(
        count,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=tuple(registry.user_directories),
    )

    def starmap(function: Callable, arguments: Iterable[tuple]) -> Iterator:
        # Ctrl-C reaches all processes of a terminal, but only this one must handle it. Workers
        # start here, and inherit the blocked signal.
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return pool.map(function, *zip(*arguments, strict=True))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)

    try:
        yield starmap
    except BrokenProcessPool as error:
        if sys.version_info < (3, 11, 5):
            # Python would wait for the workers to read their queue (gh-94777).
            pool._call_queue._reader.close()  # type: ignore[attr-defined]
        raise UserError(
            "A worker process ended unexpectedly, perhaps because memory ran out. Run the same "
            "command again with fewer --num_workers.",
            code="worker_ended",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker(*user_directories: str) -> None:
    """Prepares a worker process, which ends with its parent even if the parent is killed."""
    for directory in user_directories:
        registry.import_user_directory(directory)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


# Maximum locations (file:line) to report for each reason to leave out pairs.
_MAX_LOCATIONS = 5
# Increase it when a change of the code makes different shards from the same text.
_ENCODER_VERSION = 3

# A shard's record and, for dev or test, the texts of its pairs.
EncodedChunk = tuple[dict[str, Any], list[Pair]]


def encode_chunk(
    problem: Problem,
    tokenizer: Tokenizer,
    directory: Path,
    split: str,
    stem: str,
    chunk: Chunk,
    duplicates: bytes = b"",
) -> EncodedChunk:
    """Encodes a chunk and writes it as a shard, and its record to `<stem>.json`.

    Only training pairs are filtered. Dev and test sets keep all sentences, so that scores are
    comparable.

    Args:
      problem: the problem of the chunk.
      tokenizer: its vocabulary.
      directory: the directory for the shard.
      split: "train", "dev" or "test".
      stem: name of the shard.
      chunk: the pairs.
      duplicates: a bit for each pair, set if it repeats an earlier one; b"" = none does.
    """
    pairs = _Pairs(chunk)
    is_train = split == "train"
    if is_train:
        _filter_text(pairs, problem, chunk.languages or problem.languages(), duplicates)
    front = f"{chunk.prefix} " if chunk.prefix else ""
    prepared = [problem.prepare_pair(*pair) for pair in pairs.texts]
    sources = tokenizer.source.encode_corpus([front + source for source, _ in prepared])
    targets = tokenizer.encode_corpus([target for _, target in prepared])
    if is_train:
        sources, targets = _filter_lengths(pairs, problem, sources, targets)
    record = {
        "stem": stem,
        "corpus": chunk.corpus,
        "files": write_shard(
            directory,
            stem,
            sources,
            targets,
            max(tokenizer.source.vocab_size, tokenizer.vocab_size),
        ),
        "examples": len(sources),
        "source_tokens": sum(map(len, sources)),
        "target_tokens": sum(map(len, targets)),
        "left_out": pairs.left_out,
    }
    write_json(directory / f"{stem}.json", record)
    texts = [] if is_train else [(front + source, target) for source, target in pairs.texts]
    return record, texts


def add_left_out(left_out: dict[str, Any], reason: str, count: int, first: Sequence[str]) -> None:
    """Counts pairs as left out for a reason, and records their first locations."""
    entry = left_out.setdefault(reason, {"count": 0, "first": []})
    entry["count"] += count
    entry["first"] += first[: _MAX_LOCATIONS - len(entry["first"])]


def data_origin(
    problem: Problem, plan: Mapping[str, Sequence[Chunk]], chunk_pairs: int
) -> dict[str, Any]:
    """Returns all that determines the data, except the vocabulary; {} for generated text."""
    chunks = list(itertools.chain.from_iterable(plan.values()))
    if not all(chunk.paths for chunk in chunks):
        return {}
    stats = {path.absolute(): path.stat() for chunk in chunks for path in chunk.paths}
    return {
        "encoder": _ENCODER_VERSION,
        "versions": data_versions(problem.filters),
        "problem": problem.name,
        "config": problem.config(),
        "chunk_pairs": chunk_pairs,
        "files": [[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in stats.items()],
    }


def digest_of(made_from: Mapping[str, Any]) -> str:
    """Returns a digest of a `data_origin`, without settings and folders; "" for {}."""
    if not made_from:
        return ""
    files = [[Path(path).name, *stat] for path, *stat in made_from["files"]]
    content = [made_from[name] for name in ("encoder", "versions", "chunk_pairs")] + files
    return hashlib.sha256(json.dumps(content).encode("utf-8")).hexdigest()


class _Pairs:
    """The pairs of a chunk that have not been left out.

    Attributes:
      texts: source and target of each pair.
      left_out: {reason: {"count": pairs, "first": locations}}.
    """

    def __init__(self, chunk: Chunk):
        self._chunk = chunk
        self._numbers: list[int] = []  # The number of each pair in the chunk.
        self.texts: list[Pair] = []
        self.left_out: dict[str, Any] = {}
        for number, (source, target) in enumerate(chunk.pairs()):
            try:
                pair = normalized(source.decode("utf-8")), normalized(target.decode("utf-8"))
                fault = _fault(pair)
            except UnicodeDecodeError as error:
                fault = "with invalid UTF-8", int(error.object != source)
            if fault:
                reason, side = fault
                add_left_out(self.left_out, reason, 1, [chunk.location(number, side)])
            else:
                self._numbers.append(number)
                self.texts.append(pair)

    @property
    def numbers(self) -> np.ndarray:
        """The number of each pair in the chunk."""
        return np.array(self._numbers, np.int64)

    def leave_out(
        self, reason: str, faulty: ArrayLike, at_target: ArrayLike | None = None
    ) -> np.ndarray:
        """Leaves out the `faulty` pairs; returns the indices of the others.

        Args:
          reason: the reason, for the report.
          faulty: bool per pair.
          at_target: bool per pair, whether to report the location of the target, not of the
            source.
        """
        is_faulty = np.asarray(faulty, bool).reshape(-1)
        sides = np.zeros(len(is_faulty), bool) if at_target is None else np.asarray(at_target)
        rows, remaining = np.flatnonzero(is_faulty), np.flatnonzero(~is_faulty)
        if len(rows):
            first = [
                self._chunk.location(self._numbers[row], int(sides[row]))
                for row in rows[:_MAX_LOCATIONS]
            ]
            add_left_out(self.left_out, reason, len(rows), first)
            self._numbers = [self._numbers[row] for row in remaining]
            self.texts = [self.texts[row] for row in remaining]
        return remaining


def _fault(pair: Pair) -> tuple[str, int] | None:
    """Returns why a pair cannot be used and the side at fault (0 source, 1 target), or None."""
    for side, text in enumerate(pair):
        if is_blank(text):
            return "with an empty side", side
        if "\n" in text:
            return "with a line break inside", side
        if "\0" in text:
            return "with a NUL byte", side
    return None


def _filter_text(
    pairs: _Pairs, problem: Problem, languages: tuple[str, str], duplicates: bytes
) -> None:
    names = problem.filters
    if "duplicates" in names:
        is_repeat = np.unpackbits(np.frombuffer(duplicates, np.uint8))
        pairs.leave_out("that came before", is_repeat[pairs.numbers])
    if "identical" in names:
        identical = [source.strip() == target.strip() for source, target in pairs.texts]
        pairs.leave_out("with identical sides", identical)
    if "language" in names:
        wrong_sources, wrong_targets = (
            np.array(in_other_language((pair[side] for pair in pairs.texts), language), bool)
            for side, language in enumerate(languages)
        )
        pairs.leave_out("in another language", wrong_sources | wrong_targets)
    for name in names:
        if name not in BUILT_IN_FILTERS:
            judge = FILTERS[name]
            pairs.leave_out(f"by {name}", [judge(*pair) for pair in pairs.texts])


def _filter_lengths(
    pairs: _Pairs, problem: Problem, sources: list[np.ndarray], targets: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Leaves out pairs by their lengths in tokens; returns the ids of the others."""
    limit = problem.max_pair_length
    lengths = np.array([list(map(len, side)) for side in (sources, targets)], np.int64)
    reason = f"longer than max_pair_length={limit} tokens"
    remaining = pairs.leave_out(reason, lengths.max(axis=0) > limit, lengths[0] <= limit)
    if "length_ratio" in problem.filters:
        lengths = lengths[:, remaining] - 1  # EOS does not count.
        shortest, longest = np.sort(lengths, axis=0)
        reason = f"with a side over {problem.max_length_ratio:g} times as long as the other"
        is_uneven = longest > problem.max_length_ratio * shortest
        remaining = remaining[pairs.leave_out(reason, is_uneven, lengths[1] > lengths[0])]
    return [sources[row] for row in remaining], [targets[row] for row in remaining]
