"""Lines of text as a model reads them: prepared, encoded, and cut or split where too long."""

import bisect
import dataclasses
from collections.abc import Sequence

import numpy as np

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.inputs import encode_text
from t2t_keras.decoding.stages import Part, PreparedLine
from t2t_keras.special_ids import EOS_ID
from t2t_keras.text.alignment import count_words, word_spans
from t2t_keras.text.files import is_blank
from t2t_keras.text.sentences import sentences
from t2t_keras.text.tokenizer import Tokenizer

# No two parts of the first 2^24 lines, up to 128 of a line, share a number.
_PARTS, _NUMBERS = 1 << 24, 0x7FFFFFFF


@dataclasses.dataclass(frozen=True)
class Line:
    """A line to translate.

    Attributes:
      prepared: by the stages.
      parts: the line, or its sentences; a blank line has none.
      cut: number of tokens that were left out, as it was too long.
      prefix_cut: likewise of the prefix.
    """

    prepared: PreparedLine
    parts: list[Part]
    cut: int = 0
    prefix_cut: int = 0


def read_lines(
    lines: Sequence[PreparedLine],
    tokenizer: Tokenizer,
    config: DecodeConfig,
    problem: Problem,
    prefixes: Sequence[str] = (),
    first_number: int = 0,
) -> list[Line]:
    """Encodes lines into parts of at most `max_input_length` tokens with the end.

    With `split_long`, a longer line is split into its sentences, as those of its language end;
    what is still too long is cut. Each of them gets the words in front that the line has.

    Args:
      lines: to read, in NFC.
      tokenizer: of both sides.
      config: settings.
      problem: preprocesses the lines.
      prefixes: how the outputs begin, as users write them.
      first_number: number of the first line.
    """
    seen = [problem.preprocess(line.text) for line in lines]
    filled = [number for number, line in enumerate(lines) if not is_blank(line.text)]
    encoded = encode_text([seen[number] for number in filled], tokenizer.source)
    pairs = zip(lines, prefixes, strict=True) if prefixes else ()
    begins = encode_text([line.hide(prefix) for line, prefix in pairs], tokenizer)
    most, language = config.max_input_length, problem.languages()[0]
    found = [Line(line, []) for line in lines]
    for number, ids in zip(filled, encoded, strict=True):
        front = problem.words_in_front(seen[number])
        rest, count = seen[number].removeprefix(front), count_words(front)
        texts, ids_of_parts, first_words = [rest], [ids], [0]
        if config.split_long and len(ids) > most:
            texts = sentences(rest, language)
            ids_of_parts = tokenizer.source.encode([front + text for text in texts])
            first_words = _first_words(rest, texts)
        # The line may begin with the words in front, or the problem has added them.
        own_front = count if lines[number].text.startswith(front) else 0
        parts = [
            Part(
                lines[number],
                text,
                np.append(ids[:-1][: most - 1], np.int32(EOS_ID)),
                own_front + first_word,
                count,
                own_front,
                number=(first_number + number + part * _PARTS) & _NUMBERS,
            )
            for part, (text, ids, first_word) in enumerate(
                zip(texts, ids_of_parts, first_words, strict=True)
            )
        ]
        prefix_cut = 0
        if prefixes:
            # A line's prefix belongs to its first part. There must be room for the end.
            parts[0].prefix = begins[number][:-1]
            longest = config.longest_output(len(parts[0].ids)) - 1
            prefix_cut = max(len(parts[0].prefix) - longest, 0)
        cut = sum(max(len(ids) - most, 0) for ids in ids_of_parts)
        found[number] = Line(lines[number], parts, cut, prefix_cut)
    return found


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
