"""A text as the sentences that a model translates, and the white space between them."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from t2t_keras.decoding.translation import Translation, one_line
from t2t_keras.text.files import has_letters
from t2t_keras.text.sentences import join_sentences

# Ends of lines of every system; they are kept.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|[\r\n])?")
_SPACES = re.compile(r"[ \t\r\n]+")


class Passages(NamedTuple):
    """A text as sentences.

    Attributes:
      sentences: to translate.
      between: the white space before, between and after them, together with sentences that have
        no letters, as "42", and stay.
    """

    sentences: list[str]
    between: list[str]

    def joined(self, sentences: Sequence[str]) -> str:
        """Returns the text with its sentences replaced."""
        if not sentences:
            return self.between[0]
        begin, *gaps, end = self.between
        return begin + join_sentences(sentences, gaps) + end


def read_passages(
    text: str, split_lines: bool = True, split: Callable[[str], list[str]] | None = None
) -> Passages:
    """Reads a text; joining the unchanged sentences restores it exactly.

    Args:
      text: of any number of lines.
      split_lines: whether each line is translated by itself; else line ends are spaces.
      split: returns the sentences of a line with the white space after them; None = no splitting.
    """
    sentences, between, space = [], [], ""
    for line in _LINE.findall(text) if split_lines else [text]:
        for part in split(line) if split and line.strip() else [line]:
            # Not by a regular expression, which takes quadratic time for long white space.
            sentence = part.strip()
            if not has_letters(sentence):
                space += part
                continue
            begun = part.lstrip()
            sentences.append(sentence if split_lines else _SPACES.sub(" ", sentence))
            between.append(space + part[: len(part) - len(begun)])
            space = begun[len(sentence) :]
    return Passages(sentences, [*between, space])


def hypothesis_texts(translation: Translation) -> list[str]:
    """Returns the distinct hypotheses of a translation, best first."""
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
