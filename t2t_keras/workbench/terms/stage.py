"""The stage that enforces terms of a glossary: by hints in the source, or by constrained search."""

import dataclasses
import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from t2t_keras.decoding.lines import Draft, LineStage, Prepared, StageContext
from t2t_keras.errors import UserError
from t2t_keras.text.alignment import Alignment, split_words
from t2t_keras.workbench.placeholders.stage import count_wrong
from t2t_keras.workbench.terms.glossary import (
    Glossary,
    Match,
    has_marks,
    with_hints,
    without_hint_words,
    without_hints,
)
from t2t_keras.workbench.terms.uses import (
    INFLECTED,
    KINDS,
    MISSING,
    Use,
    aligned_word_numbers,
    find_uses,
    source_word_numbers,
)

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator

_LEADING_SIGNS, _TRAILING_SIGNS = re.compile(r"\A\W*+"), re.compile(r"(?<!\W)\W*+$")
# Prefix of the counts of missing terms; maximum number of missing terms in a report.
_MISSING_PREFIX, _MAX_REPORTED = "missing term ", 10
# Maximum number of searches for a sentence; each inserts one missing term.
_MAX_ROUNDS = 12


class ForcedTexts(NamedTuple):
    """Texts to replace a translation that lacks a term.

    Attributes:
      beginnings: prefixes that end with the term, or with the word after it, so that the search
        does not extend the term's last word.
      full_texts: whole translations, changed only by the term.
    """

    beginnings: list[str]
    full_texts: list[str]


def insert_term(match: Match, source: str, target: str, alignment: Alignment) -> ForcedTexts:
    """Inserts a missing term into a translation.

    The term replaces the words aligned with it, or follows the translation of the preceding words.

    Args:
      match: the term in the source.
      source: the text.
      target: its translation.
      alignment: alignment of their words.
    """
    words = split_words(target)
    versions = [
        _insert(words, *span, match.term.target)
        for span in _candidate_spans(match, source, len(words), alignment)
    ]
    beginnings = [beginning for *pair, _ in versions for beginning in pair]
    full_texts = [text for _, _, text in versions]
    return ForcedTexts(
        *(list(dict.fromkeys(map(" ".join, texts))) for texts in (beginnings, full_texts))
    )


def _candidate_spans(
    match: Match, source: str, num_words: int, alignment: Alignment
) -> Iterator[tuple[int, int]]:
    """Yields the spans (first, end) of words that a term may replace; empty = insert there."""
    aligned = sorted(aligned_word_numbers(source, match, alignment))
    runs = itertools.groupby(enumerate(aligned), lambda pair: pair[1] - pair[0])
    spans = [[word for _, word in run] for _, run in runs]
    for span in sorted(spans, key=len, reverse=True)[:2]:
        yield span[0], span[-1] + 1
    # Insert after the aligned words, or after the translation of the nearest preceding word.
    end = aligned[-1] + 1 if aligned else 0
    for word in reversed(range(min(source_word_numbers(source, match), default=0))):
        if not end:
            end = max(
                (target_word + 1 for number, target_word in alignment if number == word), default=0
            )
    yield min(end, num_words), min(end, num_words)


def _insert(words: Sequence[str], first: int, end: int, term: str) -> tuple[list[str], ...]:
    """Returns the words with the term: up to the term, up to the word after it, and all words."""
    before, after = list(words[:first]), list(words[end:])
    leading = trailing = ""
    if first < end:
        leading = _signs(_LEADING_SIGNS, words[first])
        trailing = _signs(_TRAILING_SIGNS, words[end - 1]) if words[end - 1] != leading else ""
    elif not after and before and (trailing := _signs(_TRAILING_SIGNS, before[-1])):
        # Insert the term before a full stop, not after it.
        before[-1] = before[-1].removesuffix(trailing)
        before = [word for word in before if word]
    if first == 0 and words and words[0][:1].isupper():
        term = term[:1].upper() + term[1:]
    up_to_term = [*before, leading + term]
    with_trailing = [*before, leading + term + trailing]
    return up_to_term, with_trailing + after[:1], with_trailing + after


def _signs(pattern: re.Pattern[str], word: str) -> str:
    match = pattern.search(word)
    return match[0] if match else ""


class HintedLine(Prepared):
    """A line with or without hints."""

    def __init__(self, text: str, glossary: Glossary):
        super().__init__(text)
        # Cached, since each translation of a sentence needs the matches.
        self.matches = functools.cache(glossary.matches)

    def original(self, source: str) -> str:
        """See `Prepared`."""
        return without_hints(source)

    def costs(self, source: str, outputs: Sequence[str]) -> Sequence[float]:
        """See `Prepared`: for a source with hints, the number of missing terms in each output."""
        if not has_marks(source):
            return [0] * len(outputs)
        text = without_hints(source)
        matches = self.matches(text)
        uses = (find_uses(text, matches, output, anywhere=True) for output in outputs)
        return list(map(_num_missing, uses))

    def align(self, source: str, output: str, pairs: Alignment) -> Alignment:
        """See `Prepared`: words of a hint count as the last word of its term."""
        return without_hint_words(pairs, source) if has_marks(source) else pairs


class TermStage(LineStage):
    """Enforces the terms of a glossary.

    The stage's note is a tuple with the `Use` of each term, in the order of the source; in a split
    line, positions are relative to the sentence.

    Args:
      glossary: the terms.
      mode: see `DecodeConfig.terms`.
      supports_term_hints: whether the model was trained with hints.

    Raises:
      UserError: the mode needs a model that was trained with hints.
    """

    name = "terms"

    def __init__(self, glossary: Glossary, mode: str = "auto", supports_term_hints: bool = False):
        if mode == "soft" and not supports_term_hints:
            raise UserError(
                "terms=soft needs a model that was trained with hints, by --problem_config="
                "transforms=terms,augment={terms: 0.3}. For this model, set terms=hard.",
                code="not_supported",
            )
        self.glossary, self._adds_hints = glossary, supports_term_hints
        self._forces_terms = mode == "hard" or (mode == "auto" and not supports_term_hints)

    def prepare(self, line: str) -> HintedLine:
        """Adds hints if the model supports them, except to lines that contain marks."""
        text = line
        if self._adds_hints and not has_marks(line):
            matches = self.glossary.matches(line)
            text = with_hints(
                line, ((match.start, match.end, match.term.target) for match in matches)
            )
        return HintedLine(text, self.glossary)

    def mend(self, drafts: Sequence[Draft], context: StageContext) -> None:
        """Forces missing terms, depending on the mode, and notes the use of each term."""
        sentences = list(map(_Sentence, drafts))
        _set_uses(sentences, context)
        if self._forces_terms:
            _force_terms(sentences, context)
        for sentence in sentences:
            if sentence.uses:
                sentence.draft.note(tuple(sentence.uses))

    def note(self, notes: Sequence[tuple[Use, ...]]) -> tuple[Use, ...]:
        """See `LineStage`."""
        return tuple(use for uses in notes for use in uses)

    def settings(self) -> Mapping[str, Any]:
        """See `LineStage`."""
        return {"terms": [dataclasses.astuple(term) for term in self.glossary]}

    def counts(self, notes: Iterable[tuple[Use, ...]]) -> Counter:
        """See `LineStage`."""
        counts: Counter = Counter()
        for use in (use for uses in notes for use in uses):
            counts[f"terms {use.kind}"] += 1
            if use.kind == MISSING:
                term = use.match.term
                counts[f"{_MISSING_PREFIX}{term.source} -> {term.target}"] += 1
        return counts

    def report(self, counts: Mapping[str, int]) -> Iterator[str]:
        """See `LineStage`."""
        kinds = {kind: counts.get(f"terms {kind}", 0) for kind in KINDS}
        total = sum(kinds.values())
        if not total:
            yield "No term of the glossary is in the source."
            return
        shares = ", ".join(
            f"{count:,} {kind} ({count / total:.1%})" for kind, count in kinds.items()
        )
        yield f"Glossary terms: {total:,} in the source, {shares}"
        missing = {
            name.removeprefix(_MISSING_PREFIX): count
            for name, count in counts.items()
            if name.startswith(_MISSING_PREFIX)
        }
        by_count = sorted(missing, key=lambda name: (-missing[name], name))
        for name in by_count[:_MAX_REPORTED]:
            yield f"  missing: {name} ({missing[name]:,} times)"
        if len(by_count) > _MAX_REPORTED:
            yield f"  and {len(by_count) - _MAX_REPORTED:,} others"

    def remarks(self, note: tuple[Use, ...]) -> Iterator[str]:
        """See `LineStage`."""
        for use in note:
            if use.kind == MISSING:
                yield f"(Missing: {use.match.term.source} -> {use.match.term.target})"


def glossary(path: str) -> "Callable[[Translator], Translator]":
    """File of terms and their translations, one source<tab>target per line."""
    terms = Glossary.read(path)
    return lambda translator: with_terms(translator, terms)


def with_terms(translator: "Translator", glossary: Glossary | None) -> "Translator":
    """Returns a translator that enforces the terms of a glossary; None = the same translator."""
    if glossary is None:
        return translator
    term_stage = TermStage(
        glossary, translator.config.terms, "terms" in translator.problem.pair_transforms
    )
    stages = (stage for stage in translator.stages if stage.name != term_stage.name)
    return translator.with_stages(*stages, term_stage)


@dataclasses.dataclass
class _Sentence:
    """A sentence and its terms.

    Attributes:
      draft: its current translation.
      uses: uses of its terms.
      tried_terms: numbers of missing terms that could not be inserted.
    """

    draft: Draft
    uses: list[Use] = dataclasses.field(default_factory=list)
    tried_terms: set[int] = dataclasses.field(default_factory=set)

    @functools.cached_property
    def text(self) -> str:
        """The source without hints."""
        return without_hints(self.draft.source)

    @functools.cached_property
    def matches(self) -> list:
        """The terms of the glossary in `text`."""
        return self.draft.prepared.matches(self.text)

    @property
    def output(self) -> str:
        """The current translation."""
        return self.draft.output

    def costs(self) -> tuple[float, ...]:
        """Returns the costs of earlier stages, and the number of wrong placeholders."""
        return *self.draft.costs(), count_wrong(self.text, self.output)

    def convert(self, pairs: Alignment) -> Alignment:
        """Converts an alignment to the words of the source without hints."""
        return self.draft.prepared.align(self.draft.source, self.output, pairs)

    def next_missing(self) -> int:
        """Returns the number of the first missing term that was not tried, or -1."""
        numbers = (number for number, use in enumerate(self.uses) if use.kind == MISSING)
        return next((number for number in numbers if number not in self.tried_terms), -1)


def _num_missing(uses: Iterable[Use]) -> int:
    return sum(use.kind == MISSING for use in uses)


def _alignments(sentences: Sequence[_Sentence], context: StageContext) -> list[Alignment]:
    drafts = [sentence.draft for sentence in sentences]
    alignments = context.align(drafts, [sentence.output for sentence in sentences])
    return [sentence.convert(pairs) for sentence, pairs in zip(sentences, alignments, strict=True)]


def _set_uses(sentences: Sequence[_Sentence], context: StageContext) -> None:
    """Sets the uses of terms in sentences; the alignment must confirm inflected forms."""
    for sentence in sentences:
        sentence.uses = find_uses(sentence.text, sentence.matches, sentence.output, anywhere=True)
    unconfirmed = [
        sentence for sentence in sentences if any(use.kind == INFLECTED for use in sentence.uses)
    ]
    if unconfirmed:
        for sentence, alignment in zip(unconfirmed, _alignments(unconfirmed, context), strict=True):
            sentence.uses = find_uses(sentence.text, sentence.matches, sentence.output, alignment)


def _force_terms(sentences: Sequence[_Sentence], context: StageContext) -> None:
    """Inserts missing terms, one per sentence and round, in at most `_MAX_ROUNDS` rounds.

    Candidates are translations after a prefix that ends with the term, and the current translation
    with the term inserted. The candidate with the most terms wins; on a tie, the most likely.
    """
    for _ in range(_MAX_ROUNDS):
        incomplete = [sentence for sentence in sentences if sentence.next_missing() >= 0]
        if not incomplete:
            break
        to_extend: list[tuple[_Sentence, str]] = []
        to_score: list[tuple[_Sentence, str]] = []
        for sentence, alignment in zip(incomplete, _alignments(incomplete, context), strict=True):
            number = sentence.next_missing()
            sentence.tried_terms.add(number)
            forced = insert_term(
                sentence.uses[number].match, sentence.text, sentence.output, alignment
            )
            prefix = context.prefix(sentence.draft)
            to_extend += [(sentence, text) for text in forced.beginnings if text.startswith(prefix)]
            to_score += [(sentence, text) for text in forced.full_texts if text.startswith(prefix)]
        drafts = [
            *context.search(
                [sentence.draft for sentence, _ in to_extend], [text for _, text in to_extend]
            ),
            *context.score(
                [sentence.draft for sentence, _ in to_score], [text for _, text in to_score]
            ),
        ]
        owners = [sentence for sentence, _ in (*to_extend, *to_score)]
        pairs = [
            (owner, _Sentence(draft)) for owner, draft in zip(owners, drafts, strict=True) if draft
        ]
        _set_uses([candidate for _, candidate in pairs], context)
        candidates: dict[int, list[_Sentence]] = {}
        for owner, candidate in pairs:
            candidates.setdefault(id(owner), []).append(candidate)
        for sentence in incomplete:
            _take_best(sentence, candidates.get(id(sentence), ()))


def _take_best(sentence: _Sentence, candidates: Sequence[_Sentence]) -> None:
    """Takes the best candidate that has more terms and no higher costs, if there is one."""
    limit = sentence.costs()
    eligible = [candidate for candidate in candidates if candidate.costs() <= limit]
    best = min(
        eligible,
        key=lambda candidate: (_num_missing(candidate.uses), -candidate.draft.score),
        default=sentence,
    )
    if _num_missing(best.uses) < _num_missing(sentence.uses):
        sentence.draft.take(best.draft)
        sentence.uses = best.uses
        sentence.tried_terms.clear()
