"""Hints in training text: the reference's own words beside the words that they translate.

A model that reads them learns to write what a hint says, in the form that the sentence needs.
"""

import random
import unicodedata
from collections.abc import Sequence

from t2t_keras.data.chunks import spread_pairs
from t2t_keras.data.problem import Change, PairTransform
from t2t_keras.workbench.terms.glossary import Token, tokens_of
from t2t_keras.workbench.terms.hints import MARKS, has_marks, with_hints
from t2t_keras.workbench.terms.lexicon import Lexicon, affordable_pairs, learn_lexicon
from t2t_keras.workbench.terms.uses import same_stem

# Of lines with hints, how many have one, two, three or four.
_NUMBERS = (0.5, 0.25, 0.15, 0.1)
# How often a hint goes on to the next word, where that is the next one in the translation too.
_LONGER = 0.25
# How often a hint is another form of the reference's word.
_OTHER_FORM = 0.3
# Signs that stand right beside a word in programs rather than in the language; no symbol does.
_OF_PROGRAMS = frozenset(r"%&@#*\_{}")

Link = tuple[int, int]


# Pairs by which the length of lines is estimated.
_SAMPLED_PAIRS = 1000


class Terms(PairTransform):
    """Hints for augment={terms: 0.3}, drawn by a lexicon that t2t-datagen learns."""

    artifact = "train-lexicon.npz"
    augments = True

    def symbols(self) -> Sequence[str]:
        """See `PairTransform`."""
        return MARKS

    def learn(self, chunks: Sequence) -> bytes:
        """Learns which words translate which, from pairs that are evenly spread."""
        print("Learning which words translate which ...", flush=True)
        sample = list(spread_pairs(chunks, _SAMPLED_PAIRS))
        return learn_lexicon(spread_pairs(chunks, affordable_pairs(sample))).to_bytes()

    def augmentation(self, artifact: bytes) -> Change:
        """See `PairTransform`."""
        return HintDrawer(Lexicon.from_bytes(artifact))


class HintDrawer:
    """Gives pairs of lines hints that are drawn.

    Args:
      lexicon: of their languages.
    """

    def __init__(self, lexicon: Lexicon):
        self._lexicon = lexicon

    def __call__(self, source: str, target: str, random: random.Random) -> tuple[str, str]:
        """Returns a pair with hints in the source; as it is, if no words are known to be linked."""
        if has_marks(source):
            return source, target
        sources, targets = tokens_of(source), tokens_of(target)
        links = [
            (row, column)
            for row, column in self._lexicon.links(sources, targets)
            if _is_word(source, sources[row]) and _is_word(target, targets[column])
        ]
        hints = []
        for first, last in self._spans(links, sources, random):
            text = target[targets[first[1]].start : targets[last[1]].end]
            if first == last:
                text = self._form(sources[first[0]].text, targets[first[1]], random)
            hints.append((sources[first[0]].start, sources[last[0]].end, text))
        return with_hints(source, hints), target

    def _spans(
        self, links: Sequence[Link], sources: Sequence[Token], random: random.Random
    ) -> list[tuple[Link, Link]]:
        """Returns some links that are drawn, each with the one that its hint ends with, in order.

        Rare words are drawn more often, as those of glossaries are.
        """
        number = 1 + random.choices(range(len(_NUMBERS)), _NUMBERS)[0]
        # Draws without replacement, by weights (Efraimidis and Spirakis, 2006).
        keys = {
            link: random.random() ** ((1 + self._lexicon.count(sources[link[0]].text)) ** 0.5)
            for link in links
        }
        chosen = set(sorted(links, key=keys.__getitem__, reverse=True)[:number])
        known, spans, end = set(links), [], -1
        for link in sorted(chosen):
            if link[0] <= end:
                continue  # It is in the hint before.
            last = link
            while (following := (last[0] + 1, last[1] + 1)) in known and random.random() < _LONGER:
                last = following
            spans.append((link, last))
            end = last[0]
        return spans

    def _form(self, source: str, target: Token, random: random.Random) -> str:
        """Returns a word of the reference, or another form that its source has elsewhere."""
        word = target.text
        if random.random() < _OTHER_FORM:
            own = word.casefold()
            forms = self._lexicon.translations(source)
            others = [form for form in forms if form != own and same_stem(form, own)]
            if others:
                other = random.choice(others)
                word = other[:1].upper() + other[1:] if word[:1].isupper() else other
        if target.start == 0 and word[1:].islower() and random.random() < 0.5:
            word = word[:1].lower() + word[1:]  # As a glossary would have it, but for a name.
        return word


def _is_word(text: str, token: Token) -> bool:
    """Returns whether a token is a word of the language, not part of markup or a placeholder."""
    around = f" {text} "[token.start], f" {text} "[token.end + 1]
    return token.text[0].isalpha() and all(
        each.isspace() or (unicodedata.category(each)[0] == "P" and each not in _OF_PROGRAMS)
        for each in around
    )
