"""A job that makes lines out of the lines of a file or a stream, chunk by chunk."""

import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.data.text_files import count_lines, decoded, lines_of, read_lines
from t2t_keras.decoding.job_files import STANDARD_STREAM, is_stream
from t2t_keras.decoding.line_progress import LineProgress
from t2t_keras.decoding.resumable_output import ResumableOutputs
from t2t_keras.decoding.stream_output import StreamOutput

# work(lines, number, progress) -> what each output gets for these lines, and counts to add up:
#   lines     texts
#   number    of the first one, from 0
#   progress  is told how many more lines are done
Work = Callable[
    [Sequence[str], int, Callable[[int], object]],
    tuple[Mapping[str, Iterable[str | bytes]], Counter],
]


class Finished(NamedTuple):
    """What a job has done.

    Attributes:
      counts: the sums, over all starts.
      lines: how many there are.
      lines_before: how many of them an earlier start had done.
      seconds: since this start.
    """

    counts: Counter
    lines: int
    lines_before: int
    seconds: float

    @property
    def lines_a_second(self) -> float:
        """How many this start has done in a second."""
        return (self.lines - self.lines_before) / self.seconds


def run_line_job(
    source: str | Path,
    outputs: Mapping[str, Path],
    made_by: Mapping[str, Any],
    work: Work,
    lines_at_once: int,
) -> Finished:
    """Works through a source, or through what an interrupted job has left of it.

    Args:
      source: UTF-8 text; "-" is standard input. A device or a pipe is read as that is, once.
      outputs: the files to write by name, from `checked_outputs`.
      made_by: what the lines depend on besides the source, as JSON can hold it.
      work: makes the lines of the outputs.
      lines_at_once: how many lines it is given.

    Raises:
      UserError: a file cannot be read or written, a line is not UTF-8, another process writes the
        same outputs, or another job was interrupted at them. What is done so far is kept.
    """
    start = time.perf_counter()
    standard = str(source) == STANDARD_STREAM
    lines = lines_of(sys.stdin.buffer) if standard else read_lines(Path(source))
    total = None if is_stream(source) else count_lines(Path(source))
    job = _opened(outputs, made_by)
    try:
        before = job.lines_done
        if before:
            job.check_source(itertools.islice(lines, before))
            print(f"{before:,} lines were done before.", file=sys.stderr, flush=True)
        with LineProgress(total, before) as progress:
            while chunk := list(itertools.islice(lines, lines_at_once)):
                texts = _texts(chunk, source, job.lines_done)
                made, counts = work(texts, job.lines_done, progress.add)
                job.append(chunk, made, counts)
                # Blank lines, and sentences of split ones.
                progress.set(job.lines_done)
        return Finished(job.finish(), job.lines_done, before, time.perf_counter() - start)
    finally:
        job.close()


def _opened(
    outputs: Mapping[str, Path], made_by: Mapping[str, Any]
) -> ResumableOutputs | StreamOutput:
    first = next(iter(outputs.values()))
    return StreamOutput(first) if is_stream(first) else ResumableOutputs(outputs, made_by)


def _texts(lines: Iterable[bytes], source: str | Path, first_number: int) -> list[str]:
    return [decoded(line, source, number) for number, line in enumerate(lines, first_number + 1)]
