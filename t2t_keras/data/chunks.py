"""The text of each split, in chunks; a worker encodes one chunk at a time."""

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from t2t_keras.data.problem import Chunk, Problem
from t2t_keras.errors import UserError
from t2t_keras.text.files import check_same_lines, line_name, line_offsets, normalized, read_span
from t2t_keras.text.sources import CorpusInfo, plain_text


@dataclasses.dataclass(frozen=True)
class FileChunk(CorpusInfo):
    """Some lines of two parallel files."""

    paths: tuple[Path, Path]
    offsets: tuple[int, int]  # Byte positions of the first line.
    first_line: int  # Number of the first line, from 1.
    count: int  # Number of pairs.

    def pairs(self, skip: int = 0, every: int = 1) -> Iterator[tuple[bytes, bytes]]:
        """See `Chunk`; raises `UserError` if a file has lost lines since they were counted."""
        sides = map(read_span, self.paths, self.offsets, itertools.repeat(self.count))
        rows = zip(*sides, range(self.count), strict=True)
        try:
            for source, target, _ in itertools.islice(rows, skip, None, every):
                yield source, target
        except UserError:
            raise
        except ValueError as error:
            raise UserError(
                f"{self.paths[0]} or {self.paths[1]} changed while it was read. Run the same "
                f"command again.",
                code="file_changed",
            ) from error

    def location(self, index: int, side: int) -> str:
        """See `Chunk`."""
        return line_name(self.paths[side], self.first_line + index)


@dataclasses.dataclass(frozen=True)
class ExampleChunk(CorpusInfo):
    """Some examples of a problem."""

    examples: tuple[tuple[str, str], ...]
    first_line: int
    paths: tuple[Path, ...] = ()

    @property
    def count(self) -> int:
        """See `Chunk`."""
        return len(self.examples)

    def pairs(self, skip: int = 0, every: int = 1) -> Iterator[tuple[bytes, bytes]]:
        """See `Chunk`."""
        for pair in self.examples[skip::every]:
            # A lone surrogate is counted as invalid UTF-8.
            source, target = (text.encode("utf-8", "surrogatepass") for text in pair)
            yield source, target

    def location(self, index: int, side: int) -> str:
        """See `Chunk`."""
        return f"example:{self.first_line + index}"


def chunks_by_split(
    problem: Problem, tmp_dir: str | Path, chunk_pairs: int
) -> Mapping[str, Sequence[Chunk]]:
    """Returns the chunks of each split of a resolved problem.

    Source files are downloaded to `tmp_dir` and converted to plain text; generated text is held in
    memory. Raises `UserError` for missing files and for files that are not line-aligned.
    """
    if chunks := problem.chunks(Path(tmp_dir), chunk_pairs):
        return chunks
    splits: dict[str, list[Chunk]] = {}
    files = problem.files(Path(tmp_dir))
    if not files:
        for split in problem.splits:
            pairs = list(problem.examples(split))
            if problem.reverse:
                pairs = [(target, source) for source, target in pairs]
            splits[split] = [
                ExampleChunk(tuple(pairs[first : first + chunk_pairs]), first + 1)
                for first in range(0, len(pairs), chunk_pairs)
            ]
        return splits
    plain_files = iter(plain_text([*itertools.chain(*files.values())], Path(tmp_dir)))
    for split, corpora in files.items():
        file_chunks: list[Chunk] = []
        for corpus in corpora:
            source, target = next(plain_files)
            paths = (target, source) if problem.reverse else (source, target)
            file_chunks += _file_chunks(paths, chunk_pairs, problem.corpus_info(corpus))
        splits[split] = file_chunks
    return splits


def spread_lines(
    chunks: Sequence[Chunk],
    limit: int,
    sides: Collection[int] = (0, 1),
    prepare: Callable[[str, str], tuple[str, str]] | None = None,
) -> Iterator[str]:
    """Yields the usable lines of at most `limit` pairs, evenly spread over the chunks.

    Args:
      chunks: the chunks of the training set.
      limit: maximum number of pairs.
      sides: 0 = source, 1 = target.
      prepare: `Problem.prepare_pair`, if it changes pairs.
    """
    for pair in _spread(chunks, limit):
        if prepare:
            with contextlib.suppress(UnicodeDecodeError):
                prepared = prepare(*(normalized(line.decode("utf-8")) for line in pair))
                pair = prepared[0].encode("utf-8"), prepared[1].encode("utf-8")
        for line in (pair[side] for side in sides):
            if b"\0" not in line:
                with contextlib.suppress(UnicodeDecodeError):
                    yield normalized(line.decode("utf-8"))


def spread_pairs(chunks: Sequence[Chunk], limit: int) -> Iterator[tuple[str, str]]:
    """Yields at most `limit` pairs, evenly spread over the chunks; skips invalid UTF-8."""
    for source, target in _spread(chunks, limit):
        with contextlib.suppress(UnicodeDecodeError):
            yield normalized(source.decode("utf-8")), normalized(target.decode("utf-8"))


def _spread(chunks: Sequence[Chunk], limit: int) -> Iterator[tuple[bytes, bytes]]:
    stride = max(1, math.ceil(sum(chunk.count for chunk in chunks) / limit))
    pairs_before = 0
    for chunk in chunks:
        yield from chunk.pairs(-pairs_before % stride, stride)
        pairs_before += chunk.count


def _file_chunks(
    paths: tuple[Path, Path], chunk_pairs: int, info: CorpusInfo
) -> Iterator[FileChunk]:
    (count, source_offsets), (target_count, target_offsets) = (
        line_offsets(path, chunk_pairs) for path in paths
    )
    check_same_lines({paths[0]: count, paths[1]: target_count})
    offsets = zip(source_offsets, target_offsets, strict=True)
    for first, pair in zip(range(0, count, chunk_pairs), offsets, strict=True):
        yield FileChunk(paths, pair, first + 1, min(chunk_pairs, count - first), **vars(info))
