"""What t2t-datagen will encode: the text of each split, cut into chunks of so many pairs."""

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from t2t_keras.data.chunks import Chunk, ExampleChunk, FileChunk
from t2t_keras.data.download import fetch
from t2t_keras.data.plain_text import plain_text
from t2t_keras.data.problem import ParallelFiles, Problem
from t2t_keras.data.text_files import line_offsets
from t2t_keras.errors import UserError


def fetch_sources(problem: Problem, tmp_dir: str | Path) -> dict[str, Path]:
    """Returns the path of each of a problem's source files, by name; {} where it makes its text.

    Raises:
      UserError: files that cannot be had, or no `tmp_dir`.
    """
    splits = problem.files(Path(tmp_dir))
    if splits and not str(tmp_dir):
        raise UserError(f"Please give --tmp_dir, the directory of {problem.name}'s source files.")
    corpora = itertools.chain.from_iterable(splits.values())
    files = (
        file
        for corpus in corpora
        if isinstance(corpus, ParallelFiles)
        for file in (corpus.source, corpus.target)
    )
    return fetch(files, Path(tmp_dir))


def plan_chunks(
    problem: Problem, paths: Mapping[str, Path], tmp_dir: Path, chunk_pairs: int
) -> dict[str, list[Chunk]]:
    """Returns the chunks of each split, so that files that do not pair are found at once.

    Files are turned into plain text where they are not, and counted; text that the problem makes is
    made here, and held in memory.

    Args:
      problem: resolved.
      paths: of its source files, by name.
      tmp_dir: their directory.
      chunk_pairs: pairs a chunk.

    Raises:
      UserError: files that cannot be read or do not pair.
    """
    splits = problem.files(tmp_dir)
    if not splits:
        return {
            split: list(_example_chunks(problem, split, chunk_pairs)) for split in problem.splits
        }
    corpora = list(itertools.chain.from_iterable(splits.values()))
    plain = dict(zip(corpora, plain_text(corpora, paths, tmp_dir), strict=True))
    return {
        split: [
            chunk
            for corpus in some
            for chunk in _file_chunks(*plain[corpus][:: -1 if problem.reverse else 1], chunk_pairs)
        ]
        for split, some in splits.items()
    }


def evenly_spread(chunks: Sequence[Chunk], limit: int) -> Iterator[str]:
    """Yields the text of at most `limit` pairs, evenly spread over the chunks."""
    every = max(1, math.ceil(sum(chunk.count for chunk in chunks) / limit))
    before = 0
    for chunk in chunks:
        for line in itertools.chain.from_iterable(chunk.pairs(-before % every, every)):
            with contextlib.suppress(UnicodeDecodeError):
                yield line.decode("utf-8")
        before += chunk.count


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
