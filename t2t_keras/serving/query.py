"""Many lines through a server: in batches, several requests at once, answers in order."""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

from t2t_keras.data.text_files import decoded, lines_of
from t2t_keras.decoding.translation import one_line
from t2t_keras.errors import UserError
from t2t_keras.serving.clients import Answer

_BLANK = Answer("", 0.0)

Translate = Callable[[Sequence[str]], list[Answer]]


def translate_lines(
    translate: Translate, lines: Iterable[str], batch_size: int, concurrency: int
) -> Iterator[Answer]:
    """Yields an answer for each line, in order; a blank line is blank, and is not sent.

    Args:
      translate: gives the answers to some lines, or raises `UserError`.
      lines: the text. What reading it raises comes after the answers to the lines before.
      batch_size: the most lines of a request.
      concurrency: the most requests at once.

    Raises:
      UserError: from `translate` or `lines`, with the number of the first line that has no answer,
        after the answers to all lines before it.
    """
    if batch_size < 1 or concurrency < 1:
        raise UserError(
            f"--batch_size={batch_size} and --concurrency={concurrency} must both be 1 or more."
        )
    done = 0
    pool = ThreadPoolExecutor(concurrency)

    def submit(batch: Sequence[str]) -> Future:
        texts = [line for line in batch if line.strip()]
        return pool.submit(translate if texts else list, texts)

    try:
        for batch, future in _in_flight(submit, _batches(lines, batch_size), concurrency):
            answers = iter(future.result())
            for line in batch:
                yield next(answers) if line.strip() else _BLANK
                done += 1
    except UserError as error:
        raise UserError(
            f"{error} The translations end before line {done + 1}; those of all lines before it "
            f"are written."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def translate_stream(
    translate: Translate,
    source: BinaryIO,
    target: BinaryIO,
    batch_size: int,
    concurrency: int,
    name: str = "the input",
) -> tuple[int, int, int]:
    """Translates a stream into another, line by line; each batch is written when it is there.

    Args:
      translate: gives the answers to some lines, or raises `UserError`.
      source: UTF-8, a line ends with a line feed.
      target: takes a line for each; nothing is written or flushed before the first answer.
      batch_size: the most lines of a request.
      concurrency: the most requests at once.
      name: of the source, for errors.

    Returns:
      How many lines there were, how many translations held line breaks or tabs, which became
      spaces, and how many lines were too long, so that some of their tokens were left out.

    Raises:
      UserError: see `translate_lines`; or a line is not UTF-8, or `target` cannot be written.
    """

    def write(content: bytes) -> None:
        try:
            target.write(content)
            target.flush()
        except OSError as error:
            raise UserError(
                f"The translation of line {count + 1} cannot be written: {error.strerror}."
            ) from error

    count = broken = cut = 0
    lines = (decoded(line, name, number) for number, line in enumerate(lines_of(source), start=1))
    for answer in translate_lines(translate, lines, batch_size, concurrency):
        text = one_line(answer.text)
        write(f"{text}\n".encode())
        count += 1
        broken += text != answer.text
        cut += answer.cut > 0
    if not count:
        # No text gives no text, which may have to be written as well.
        write(b"")
    return count, broken, cut


def _in_flight(
    submit: Callable[[Sequence[str]], Future], batches: Iterable[list[str]], most: int
) -> Iterator[tuple[list[str], Future]]:
    """Yields each batch with its future, in order, `most` of them begun at once."""
    pending = collections.deque()
    try:
        for batch in batches:
            pending.append((batch, submit(batch)))
            if len(pending) == most:
                yield pending.popleft()
    except UserError:
        yield from pending
        raise
    yield from pending


def _batches(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    batch = []
    try:
        for line in lines:
            batch.append(line)
            if len(batch) == size:
                yield batch
                batch = []
    except UserError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch
