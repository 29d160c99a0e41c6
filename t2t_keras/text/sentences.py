"""Splits text into sentences."""

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from t2t_keras.text.files import replace_spans

# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, hiragana, Chinese.
UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U000323af"
)
# Japanese has no spaces either, but a run of katakana is a word.
KATAKANA = "\u30a0-\u30ff\u31f0-\u31ff\uff66-\uff9f"
# Private use: symbols that are pieces of a vocabulary even inside words.
PRIVATE_USE = "\ue000-\uf8ff\U000f0000-\U0010fffd"

_PART_CHARACTERS = 4_000  # Characters of a line that are split at once.
_SPACES = re.compile(r"[^\S\r\n]")
# Characters that end a sentence, in any script.
_STOPS = ".!?\u2026\u3002\uff01\uff1f\uff0e\uff61\u061f\u06d4\u0964\u0965\u1362\u104b\u17d4\u0589"
# Full-width stops, and quotation marks and brackets after them; no space follows.
_UNSPACED_ENDS = frozenset("\u3002\uff01\uff1f\uff0e\uff61\u300d\u300f\uff09\u201d")
# Stops that divide sentences even without a space after them.
_DIVIDING_STOPS = _UNSPACED_ENDS | frozenset("\u06d4\u0964\u0965\u1362\u104b\u17d4")
_LATIN_OR_DIGIT = r"[\dA-Za-z\uff10-\uff5a]"
_POINT = re.compile(rf"(?<={_LATIN_OR_DIGIT})\uff0e(?={_LATIN_OR_DIGIT})")  # Full-width, as in 3.5.
# Stops that sentencex does not know -> stops that it knows.
_KNOWN_STOPS = str.maketrans(
    {"\u2026": ".", "\uff0e": "\u3002", "\uff61": "\u3002", "\u17d4": "\u104b"}
)
# Footnote marks after a stop and its quotation mark, as in "large.[7] This".
_NOTE = r"(?:\[[^\[\]\n]{1,40}\]|[\u00b9\u00b2\u00b3\u2070\u2074-\u2079*\u2020\u2021])"
_NOTES = re.compile(rf"(?<=[{_STOPS}\"\u201d\u2019\u00bb)]){_NOTE}+(?=\s++(?![a-z]))")
# A sentence in brackets, before another one.
_BRACKETED_SENTENCE = re.compile(rf"(?:\([^()]*[{_STOPS}]\)|\[[^\[\]]*[{_STOPS}]\])\s+(?=\S)")
_SENTENCE_END = re.compile(rf"[{_STOPS}](?:{_NOTE}|[^\w\s])*$")


def sentences(text: str, language: str) -> list[str]:
    """Splits a text into sentences, without the white space around them."""
    return [sentence.strip() for sentence in sentence_splitter(language)(text) if sentence.strip()]


def ends_sentence(text: str) -> bool:
    """Returns whether a text ends with a stop, perhaps with quotation marks or notes after it."""
    return bool(_SENTENCE_END.search(text[-50:]))


def join_sentences(sentences: Sequence[str], gaps: Sequence[str]) -> str:
    """Joins translated sentences by the white space between their sources.

    Without white space between the sources, as in Chinese, a space separates the translations
    unless the earlier one ends with a full-width stop.
    """
    texts = list(sentences)
    for number, gap in enumerate(gaps):
        needs_space = not gap and texts[number][-1:] not in ("", *_UNSPACED_ENDS)
        texts[number] += " " if needs_space else gap
    return "".join(texts)


@functools.lru_cache(maxsize=64)
def sentence_splitter(language: str) -> Callable[[str], list[str]]:
    """Returns a function that divides a line into sentences, including their white space.

    Args:
      language: code of the line's language; "" = English.
    """
    # Imported here, since a machine that only trains may not have it.
    import sentencex

    return functools.partial(_split_line, functools.partial(sentencex.segment, language or "en"))


def _split_line(segment: Callable[[str], list[str]], line: str) -> list[str]:
    """Splits a line by `segment`, part by part, since `segment` takes quadratic time."""
    # sentencex cannot read some multi-byte spaces.
    plain = _POINT.sub(",", _SPACES.sub(" ", line)).translate(_KNOWN_STOPS)
    notes = [match.span() for match in _NOTES.finditer(line)]
    plain = replace_spans(plain, ((start, end, "") for start, end in notes))
    parts, remainder = [], ""
    for start in range(0, len(plain), _PART_CHARACTERS):
        part = remainder + plain[start : start + _PART_CHARACTERS]
        # The last sentence may continue in the next part.
        *complete, remainder = _segment(segment, part) or [part]
        parts += complete
        if len(remainder) > _PART_CHARACTERS:
            end = remainder.rfind(" ") + 1 or len(remainder)
            parts.append(remainder[:end])
            remainder = remainder[end:]
    ends = itertools.accumulate(map(len, [*parts, remainder]))
    return _split_at(line, _restore_positions(ends, notes))


def _restore_positions(positions: Iterable[int], spans: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Maps positions in a text without the spans to positions in the whole text."""
    number = left_out = 0
    for position in positions:
        while number < len(spans) and spans[number][0] < position + left_out:
            left_out += spans[number][1] - spans[number][0]
            number += 1
        yield position + left_out


def _segment(segment: Callable[[str], list[str]], text: str) -> list[str]:
    try:
        return segment(text)
    except BaseException as error:
        # A panic of the Rust library is not an Exception, and would end the server's threads.
        if type(error).__name__ != "PanicException":
            raise
        return [text]


def _split_at(line: str, ends: Iterable[int]) -> list[str]:
    """Splits a line at `ends` that follow a space or dividing stop, so README.Md stays whole."""
    signs = ((end, line[end - 1 : end]) for end in ends)
    dividing_ends = (end for end, sign in signs if sign.isspace() or sign in _DIVIDING_STOPS)
    positions = sorted({0, *dividing_ends, len(line)})
    parts = []
    for start, end in itertools.pairwise(positions):
        if match := _BRACKETED_SENTENCE.match(line, start, end):
            parts.append(match[0])
            start = match.end()
        parts.append(line[start:end])
    return parts
