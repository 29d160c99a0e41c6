"""Lines of text as sequences of ids, cut or split where they are too long."""

import bisect
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.data.problem import Problem
from t2t_keras.errors import UserError
from t2t_keras.text.alignment import count_words, word_spans
from t2t_keras.text.files import is_blank, is_text, normalized
from t2t_keras.text.placeholders.symbols import Shield
from t2t_keras.text.tokenizer import EOS_ID, Tokenizer

_AT_ONCE = 4_000  # characters of a line
_SPACES = re.compile(r"[^\S\r\n]")
# What ends a sentence, in any script.
STOPS = ".!?\u2026\u3002\uff01\uff1f\uff0e\uff61\u061f\u06d4\u0964\u0965\u1362\u104b\u17d4\u0589"
# Full stops, and quotation marks and brackets after them.
_NEED_NO_SPACE = frozenset("\u3002\uff01\uff1f\uff0e\uff61\u300d\u300f\uff09\u201d")
# Scripts that put a space between sentences, but whose stops divide them without one, too.
_DIVIDING = _NEED_NO_SPACE | frozenset("\u06d4\u0964\u0965\u1362\u104b\u17d4")
# Stops that the splitter does not know, as ones that it knows.
_LATIN = r"[\dA-Za-z\uff10-\uff5a]"
_POINT = re.compile(rf"(?<={_LATIN})\uff0e(?={_LATIN})")  # As in 3.5, of full width.
_KNOWN_STOPS = str.maketrans(
    {"\u2026": ".", "\uff0e": "\u3002", "\uff61": "\u3002", "\u17d4": "\u104b"}
)
# Marks of footnotes after a stop, or a quotation mark after that: "large.[7] This".
_NOTE = r"(?:\[[^\[\]\n]{1,40}\]|[\u00b9\u00b2\u00b3\u2070\u2074-\u2079*\u2020\u2021])"
_NOTES = re.compile(rf"(?<=[{STOPS}\"\u201d\u2019\u00bb)]){_NOTE}+(?=\s++(?![a-z]))")
# A sentence in brackets, before another one.
_IN_BRACKETS = re.compile(rf"(?:\([^()]*[{STOPS}]\)|\[[^\[\]]*[{STOPS}]\])\s+(?=\S)")
_SENTENCE_END = re.compile(rf"[{STOPS}](?:{_NOTE}|[^\w\s])*$")


class Source(NamedTuple):
    """A line to translate: one part, or its sentences; a blank line has none."""

    line: str
    parts: list[np.ndarray]  # int32 [length], each with its end of sentence
    # For each part, the number in the line of its first word, from 0, less `repeated`.
    first_words: list[int]
    cut: int  # number of tokens left out
    texts: list[str]  # the text of each part, whole
    shield: Shield = Shield("")  # what `line` has left out
    repeated: int = 0  # number of words for the model that the line and each part begin with

    def word(self, part: int, number: int) -> int:
        """Returns the number in the line of a word of a part."""
        return number if number < self.repeated else self.first_words[part] + number


def read_sources(
    lines: Sequence[str],
    tokenizer: Tokenizer,
    max_length: int,
    split_long: bool,
    language: str = "",
    words_in_front: Callable[[str], str] = lambda line: "",
) -> list[Source]:
    """Encodes lines, after `check_lines`, into parts of at most `max_length` tokens with the end.

    With `split_long`, a longer line is split into its sentences, as those of its `language` end;
    what is still too long is cut. Each of them gets the `words_in_front` of the line.
    """
    filled = [number for number, line in enumerate(lines) if not is_blank(line)]
    encoded = encode_text([lines[number] for number in filled], tokenizer.source)
    sources = [Source(line, [], [], 0, []) for line in lines]
    for number, ids in zip(filled, encoded, strict=True):
        texts, parts, first_words = [lines[number]], [ids], [0]
        front = words_in_front(lines[number])
        if split_long and len(ids) > max_length:
            rest = lines[number].removeprefix(front)
            texts = sentences(rest, language)
            first_words = _first_words(rest, texts)
            texts = [front + text for text in texts]
            parts = tokenizer.source.encode(texts)
        sources[number] = Source(
            lines[number],
            [np.append(part[:-1][: max_length - 1], np.int32(EOS_ID)) for part in parts],
            first_words,
            sum(max(len(part) - max_length, 0) for part in parts),
            texts,
            repeated=count_words(front),
        )
    return sources


def encode_text(lines: Sequence[str], tokenizer: Tokenizer) -> list[np.ndarray]:
    """`Tokenizer.encode` of lines in NFC, after `check_lines`."""
    check_lines(lines)
    return tokenizer.encode(list(map(normalized, lines)))


def encode_pairs(
    sources: Sequence[str], targets: Sequence[str], tokenizer: Tokenizer, problem: Problem
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Encodes the sides of pairs as a problem's model sees them, after `check_lines`."""
    check_lines(sources)
    check_one_each(sources, targets, "target")
    check_lines(targets)
    sides = (map(normalized, side) for side in (sources, targets))
    pairs = list(map(problem.prepare_pair, *sides))
    seen = [problem.preprocess(source) for source, _ in pairs]
    return tokenizer.source.encode(seen), tokenizer.encode([target for _, target in pairs])


def check_lengths(
    encoded: Sequence[Sequence[np.ndarray]], max_length: int, names: Sequence[str] = ()
) -> None:
    """Raises `UserError` if a side of a pair has more tokens; `names` are the pairs', for it."""
    for number, sides in enumerate(zip(*encoded, strict=True)):
        if (size := max(map(len, sides))) > max_length:
            name = names[number] if names else f"Pair {number + 1}"
            raise UserError(
                f"{name}: expected at most {max_length:,} tokens on each side, got {size:,}. Leave "
                f"it out, or set max_input_length={size}.",
                code="too_long",
            )


def check_lines(lines: Sequence[str]) -> None:
    """Raises `UserError` unless this is a list of valid Unicode strings."""
    check_several(lines)
    for line in lines:
        if not isinstance(line, str):
            kind = type(line).__name__
            raise UserError(
                f"Expected lines of type str, got {kind}: {str(line)[:50]!a}.", code="wrong_type"
            )
        if not is_text(line):
            raise UserError(
                f"A line has a lone surrogate (invalid Unicode): {line[:50]!a}. Read the text as "
                f"UTF-8.",
                code="invalid_text",
            )


def check_several(lines: Iterable[str]) -> None:
    """Raises `UserError` for a single string, whose characters would each be a line."""
    if isinstance(lines, str | bytes):
        raise UserError(
            f"Expected a list of lines, got one string: {lines[:50]!a}.", code="wrong_type"
        )


def check_one_each(lines: Sequence[str], others: Sequence, what: str) -> None:
    """Raises `UserError` if there is not one of the others for each line."""
    if len(lines) != len(others):
        raise UserError(
            f"Expected a {what} for each of {len(lines)} lines, got {len(others)}.",
            code="unequal_counts",
        )


def sentences(text: str, language: str) -> list[str]:
    """Splits a text of a language into its sentences, without the white space around them."""
    return [sentence.strip() for sentence in sentence_splitter(language)(text) if sentence.strip()]


def ends_sentence(text: str) -> bool:
    """Returns whether a text ends with a mark that ends sentences, maybe with others after it."""
    return bool(_SENTENCE_END.search(text[-50:]))


def join_sentences(sentences: Sequence[str], gaps: Sequence[str]) -> str:
    """Joins translated sentences by the white space that was between their sources.

    Chinese has none: after a sentence that does not end with one of its marks comes a space.
    """
    texts = list(sentences)
    for number, gap in enumerate(gaps):
        is_apart = gap or texts[number][-1:] in ("", *_NEED_NO_SPACE)
        texts[number] += gap if is_apart else " "
    return "".join(texts)


@functools.lru_cache(maxsize=64)
def sentence_splitter(language: str) -> Callable[[str], list[str]]:
    """Returns a function that divides a line into sentences, white space included.

    Args:
      language: its code; "" = English, or others with its marks.
    """
    import sentencex

    return functools.partial(_divided, functools.partial(sentencex.segment, language or "en"))


def _divided(segment: Callable[[str], list[str]], line: str) -> list[str]:
    """Returns what `segment` finds in a line, part by part: many signs take it quadratic time."""
    # It cannot read some spaces of several bytes.
    plain = _POINT.sub(",", _SPACES.sub(" ", line)).translate(_KNOWN_STOPS)
    notes = [match.span() for match in _NOTES.finditer(line)]
    plain = _without(plain, notes)
    divided, rest = [], ""
    for first in range(0, len(plain), _AT_ONCE):
        part = rest + plain[first : first + _AT_ONCE]
        # The last sentence may continue in the next part.
        *finished, rest = _segmented(segment, part) or [part]
        divided += finished
        if len(rest) > _AT_ONCE:
            end = rest.rfind(" ") + 1 or len(rest)
            divided.append(rest[:end])
            rest = rest[end:]
    ends = itertools.accumulate(map(len, [*divided, rest]))
    return _apart(line, _with(ends, notes))


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Returns a text without the given spans."""
    starts, ends = zip(*spans, strict=True) if spans else ((), ())
    gaps = zip((0, *ends), (*starts, len(text)), strict=True)
    return "".join(text[start:end] for start, end in gaps)


def _with(places: Iterable[int], spans: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Maps places in the result of `_without` to places in the whole text."""
    number = left_out = 0
    for place in places:
        while number < len(spans) and spans[number][0] < place + left_out:
            left_out += spans[number][1] - spans[number][0]
            number += 1
        yield place + left_out


def _segmented(segment: Callable[[str], list[str]], text: str) -> list[str]:
    try:
        parts = segment(text)
    except BaseException as error:
        # A panic in a Rust library is not an Exception, and would end the server's threads.
        if type(error).__name__ != "PanicException":
            raise
        return [text]
    return parts if "".join(parts) == text else [text]


def _apart(line: str, ends: Iterable[int]) -> list[str]:
    """Returns sentences divided by white space or a Chinese stop: README.Md is one."""
    signs = ((end, line[end - 1 : end]) for end in ends)
    divides = (end for end, sign in signs if sign.isspace() or sign in _DIVIDING)
    places = sorted({0, *divides, len(line)})
    apart = []
    for start, end in itertools.pairwise(places):
        if match := _IN_BRACKETS.match(line, start, end):
            apart.append(match[0])
            start = match.end()
        apart.append(line[start:end])
    return apart


def _first_words(line: str, parts: Sequence[str]) -> list[int]:
    """Returns the number in a line of the first word of each of its parts."""
    numbers, position = [], 0
    starts = [start for start, _ in word_spans(line)]
    for part in parts:
        position = line.index(part, position)
        # A part that begins inside a word begins with that word.
        numbers.append(bisect.bisect_right(starts, position) - 1)
        position += len(part)
    return numbers
