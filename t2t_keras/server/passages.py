"""A text as the sentences that a model translates, and what stands between them."""

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from t2t_keras.decoding.translation import Translation, one_line
from t2t_keras.errors import UserError

# Ends of lines of every system; they are kept.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|[\r\n])?")
# Also with quotation marks or brackets behind it.
_SENTENCE_END = re.compile(r"[.!?…。\uff01\uff1f][^\w\s]*$")
_AT_ONCE = 4_000  # characters of a line


class Passages(NamedTuple):
    """A text as sentences.

    Attributes:
      sentences: what is translated.
      between: the white space before the first, between any two, and behind the last.
    """

    sentences: list[str]
    between: list[str]

    def joined(self, sentences: Sequence[str]) -> str:
        """Returns the text with other sentences in the places of its own."""
        pairs = itertools.zip_longest(self.between, sentences, fillvalue="")
        return "".join(itertools.chain.from_iterable(pairs))


def read_passages(
    text: str, split_lines: bool = True, split: Callable[[str], list[str]] | None = None
) -> Passages:
    """Reads a text; joining its own sentences gives it back, character for character.

    Args:
      text: of any number of lines.
      split_lines: whether each line is translated by itself; else line ends are spaces.
      split: returns the sentences of a line, with the white space behind each; None = it is one.
    """
    sentences, between, space = [], [], ""
    for line in _LINE.findall(text) if split_lines else [text]:
        for part in split(line) if split and line.strip() else [line]:
            # Not by an expression: those take quadratic time where white space is long.
            sentence = part.strip()
            if not sentence:
                space += part
                continue
            begun = part.lstrip()
            sentences.append(sentence if split_lines else " ".join(sentence.split()))
            between.append(space + part[: len(part) - len(begun)])
            space = begun[len(sentence) :]
    return Passages(sentences, [*between, space])


def ends_sentence(text: str) -> bool:
    """Returns whether a text ends in a mark that ends sentences, or in one behind that."""
    return bool(_SENTENCE_END.search(text[-10:]))


@functools.lru_cache(maxsize=64)
def sentence_splitter(language: str) -> Callable[[str], list[str]]:
    """Returns a function that divides a line of a language into sentences, white space included.

    Raises:
      UserError: sentencex is not installed.
    """
    try:
        import sentencex
    except ImportError as error:
        raise UserError(
            f"Splitting sentences needs {error.name}, which is not installed: "
            f"pip install 't2t-keras[server]'. Or leave it out: --nosplit_sentences."
        ) from error
    return functools.partial(_divided, functools.partial(sentencex.segment, language))


def _divided(segment: Callable[[str], list[str]], line: str) -> list[str]:
    """Returns what `segment` finds in a line, part by part: many signs take it quadratic time."""
    found, rest = [], ""
    for first in range(0, len(line), _AT_ONCE):
        part = rest + line[first : first + _AT_ONCE]
        # The last one may go on in the next part.
        *finished, rest = segment(part) or [part]
        found += finished
        if len(rest) > _AT_ONCE:
            found.append(rest)
            rest = ""
    return [*found, rest] if rest else found


def hypothesis_texts(translation: Translation) -> list[str]:
    """Returns the translation and what else the beam found, each once, best first."""
    best = one_line(translation.postprocessed or translation.text)
    others = [one_line(each.text) for each in translation.hypotheses[1:]]
    return list(dict.fromkeys([best, *others]))


def joined_texts(passages: Passages, translations: Sequence[Translation]) -> list[str]:
    """Returns the translations of a text, best first: the best of all sentences, and so on."""
    ranked = [hypothesis_texts(each) for each in translations]
    count = max(map(len, ranked), default=1)
    texts = (
        passages.joined([each[min(rank, len(each) - 1)] for each in ranked])
        for rank in range(count)
    )
    return list(dict.fromkeys(texts))
