"""Translation of many lines: in batches, several requests at once, translations in order."""

import collections
import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from t2t_keras.decoding.translation import Translation, one_line
from t2t_keras.errors import UserError
from t2t_keras.io.streams import abandon
from t2t_keras.io.terminal import printable
from t2t_keras.text.files import decoded, is_blank, lines_of

Translate = Callable[[Sequence[str]], list[Translation]]


def translate_lines(
    translate: Translate, lines: Iterable[str], batch_size: int, concurrency: int
) -> Iterator[Translation]:
    """Yields a translation for each line, in order; a blank line is blank and is not sent.

    A `UserError` from `translate` or `lines` is raised after the translations of all lines before.
    """
    failures = []

    def readable() -> Iterator[str]:
        try:
            yield from lines
        except UserError as error:
            failures.append(error)

    def translate_batch(batch: list[str]) -> list[Translation]:
        texts = [line for line in batch if not is_blank(line)]
        translations = iter(translate(texts) if texts else ())
        return [Translation("", 0.0) if is_blank(line) else next(translations) for line in batch]

    source, pool, pending = readable(), ThreadPoolExecutor(concurrency), collections.deque()
    try:
        while batch := list(itertools.islice(source, batch_size)):
            pending.append(pool.submit(translate_batch, batch))
            if len(pending) == concurrency:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
    if failures:
        raise failures[0]


def translate_stream(
    translate: Translate,
    source: BinaryIO,
    target: BinaryIO | Path,
    batch_size: int,
    concurrency: int,
    name: str = "the input",
) -> tuple[int, int, int]:
    """Translates a stream line by line; each translation is written and flushed when it is there.

    A target that is a path is not opened before the first translation, so that an older file stays
    if no server answers. Control characters do not reach a terminal. At most `concurrency` requests
    of at most `batch_size` lines are under way at once; errors call the source by `name`.

    Returns:
      The number of lines, of translations with line breaks or tabs, which became spaces, and of
      lines that were cut because they were too long.

    Raises:
      UserError: see `translate_lines`; or a line is not UTF-8, or the output cannot be written.
    """
    count = broken = cut = 0
    is_file = isinstance(target, Path)
    lines = (decoded(line, name, number) for number, line in enumerate(lines_of(source, name), 1))
    translations = translate_lines(translate, lines, batch_size, concurrency)
    try:
        first = list(itertools.islice(translations, 1))  # an empty text gives an empty file
        with contextlib.ExitStack() as stack:
            stack.callback(translations.close)
            if is_file:
                target.parent.mkdir(parents=True, exist_ok=True)
                target = stack.enter_context(target.open("wb"))
            escape = target.isatty()
            for translation in itertools.chain(first, translations):
                text = one_line(translation.text)
                target.write(f"{printable(text) if escape else text}\n".encode())
                target.flush()
                count += 1
                broken += text != translation.text
                cut += translation.cut > 0
    except UserError as error:
        raise UserError(
            f"{error} The output ends before line {count + 1}; all lines before it are translated.",
            code=error.code,
        ) from error
    except BrokenPipeError:
        raise  # The reader has gone, as `head` goes.
    except OSError as error:
        if not is_file:
            abandon(target)
        raise UserError(
            f"Cannot write the translation of line {count + 1}: {error.strerror}.",
            code="not_written",
        ) from error
    return count, broken, cut
