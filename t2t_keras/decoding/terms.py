"""Keeping the terms of a glossary: by hints in the source, or by force where they are missing."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from t2t_keras.decoding.candidates import Candidates
from t2t_keras.decoding.source_text import Source, encode_text
from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.errors import UserError
from t2t_keras.text.alignment import Alignment
from t2t_keras.text.glossary import Glossary
from t2t_keras.text.placeholders.repair import number_broken
from t2t_keras.text.terms.forcing import put_term
from t2t_keras.text.terms.hints import has_marks, with_hints, without_hints
from t2t_keras.text.terms.uses import INFLECTED, KINDS, MISSING, find_uses

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator

# In counts, before the source and the target of a term; and how many of these a report names.
_MISSING_TERM, _MOST_NAMED = "missing term ", 10
# The most searches for the missing terms of a line; each is for one term.
_MOST_ROUNDS = 12


def takes_hints(translator: "Translator") -> bool:
    """Returns whether a translator gives its models hints.

    Raises:
      UserError: it should, but they were not trained with hints.
    """
    trained = translator.problem.takes_hints
    if translator.config.terms == "soft" and not trained:
        raise UserError(
            "terms=soft needs a model that was trained with hints, --problem_config=terms=true,"
            "augment=terms:0.3. With this one, set terms=hard.",
            code="not_supported",
        )
    return trained


def hinted(text: str, glossary: Glossary) -> str:
    """Returns a source with hints of the terms in it; as it is if it has hints."""
    if has_marks(text):
        return text
    matches = glossary.matches(text)
    return with_hints(text, ((match.start, match.end, match.term.target) for match in matches))


def number_missing(glossary: Glossary, text: str, translation: str) -> int:
    """Returns how many terms of a text, with hints or without, its translation surely lacks."""
    text = without_hints(text)
    uses = find_uses(text, glossary.matches(text), translation, anywhere=True)
    return sum(use.kind == MISSING for use in uses)


def keep_terms(
    translator: "Translator",
    sources: Sequence[Source],
    prefixes: Sequence[np.ndarray],
    translations: Sequence[Translation],
    glossary: Glossary,
) -> list[Translation]:
    """Returns translations that say what became of the terms, and have those that are forced.

    Args:
      translator: that made them.
      sources: with hints, where it gives them.
      prefixes: ids that they begin with.
      translations: of the sources.
      glossary: the terms.
    """
    updated = _with_uses(translator, sources, translations, glossary)
    forces = {"auto": not translator.problem.takes_hints, "hard": True, "soft": False}
    if not forces[translator.config.terms]:
        return updated
    jobs = {
        number: _jobs(translator, source, prefix, translation, glossary)
        for number, (source, prefix, translation) in enumerate(
            zip(sources, prefixes, updated, strict=True)
        )
        if _num_missing(translation)
    }
    _force(translator, [job for of_line in jobs.values() for job in of_line], glossary)
    for number, of_line in jobs.items():
        joined = of_line[0].translation
        if len(of_line) > 1:
            candidates = Candidates(
                [[Hypothesis(_written(part), part.score)] for part in _translations(of_line)],
                sum(part.broken for part in _translations(of_line)),
                max(part.chosen for part in _translations(of_line)),
            )
            joined = candidates.joined(sources[number], prefixes[number], translator.config)
        updated[number] = joined
    changed = _with_uses(
        translator, [sources[i] for i in jobs], [updated[i] for i in jobs], glossary
    )
    for number, translation in zip(jobs, changed, strict=True):
        updated[number] = translation
    return updated


def _with_uses(
    translator: "Translator",
    sources: Sequence[Source],
    translations: Sequence[Translation],
    glossary: Glossary,
) -> list[Translation]:
    """Returns translations with `hinted` and `terms`."""
    texts = [without_hints(source.line) for source in sources]
    with_uses = []
    matches_of = functools.cache(glossary.matches)  # Several translations may be of one text.
    for source, text, translation in zip(sources, texts, translations, strict=True):
        hinted = source.line if source.line != text else ""
        matches, written = matches_of(text), _written(translation)
        terms = tuple(find_uses(text, matches, written, anywhere=True))
        with_uses.append(dataclasses.replace(translation, hinted=hinted, terms=terms))
    unsure = [
        number
        for number, translation in enumerate(with_uses)
        if any(use.kind == INFLECTED for use in translation.terms)
    ]
    alignments = _alignments(
        translator, [sources[number] for number in unsure], [with_uses[number] for number in unsure]
    )
    for number, alignment in zip(unsure, alignments, strict=True):
        matches = [use.match for use in with_uses[number].terms]
        terms = find_uses(texts[number], matches, _written(with_uses[number]), alignment)
        with_uses[number] = dataclasses.replace(with_uses[number], terms=tuple(terms))
    return with_uses


def _alignments(
    translator: "Translator", sources: Sequence[Source], translations: Sequence[Translation]
) -> Sequence[Alignment]:
    return translator.align_as_seen(sources, translations) if sources else []


def _written(translation: Translation) -> str:
    """Returns a translation as the model wrote it, which may have symbols for placeholders."""
    return " ".join(translation.parts)


def _num_missing(translation: Translation) -> int:
    return sum(use.kind == MISSING for use in translation.terms)


@dataclasses.dataclass
class _Job:
    """A line to be translated with its terms, or a sentence of one that was split."""

    source: Source
    prefix: np.ndarray
    translation: Translation
    tried: set[int] = dataclasses.field(default_factory=set)

    def broken(self, translation: Translation) -> int:
        """Returns how many placeholders a translation has lost or added."""
        text = without_hints(self.source.line)
        return number_broken(text, _written(translation), self.source.shield.verbatim)

    def next_missing(self) -> int:
        """Returns the number of the first missing term that was not tried yet, or -1."""
        numbers = (i for i, use in enumerate(self.translation.terms) if use.kind == MISSING)
        return next((number for number in numbers if number not in self.tried), -1)


def _jobs(
    translator: "Translator",
    source: Source,
    prefix: np.ndarray,
    translation: Translation,
    glossary: Glossary,
) -> list[_Job]:
    if len(source.parts) == 1:
        return [_Job(source, prefix, translation)]
    sources = [
        Source(text, [ids], [0], 0, [text], source.shield)
        for text, ids in zip(source.texts, source.parts, strict=True)
    ]
    prefixes = [prefix[: None if part == 0 else 0] for part in range(len(sources))]
    # Once more, for the score of each.
    translations = translator.search_sources(sources, prefixes, glossary=glossary)
    translations = _with_uses(translator, sources, translations, glossary)
    return list(map(_Job, sources, prefixes, translations))


def _translations(jobs: Sequence[_Job]) -> list[Translation]:
    return [job.translation for job in jobs]


def _force(translator: "Translator", jobs: Sequence[_Job], glossary: Glossary) -> None:
    """Inserts missing terms, one of each line in each of at most `_MOST_ROUNDS` rounds.

    Of the translations that begin with a term at its place, and of the one that is changed there
    only, what keeps most terms is taken, and of this the likeliest.
    """
    for _ in range(_MOST_ROUNDS):
        numbers = {i: number for i, job in enumerate(jobs) if (number := job.next_missing()) >= 0}
        if not numbers:
            break
        chosen = [jobs[i] for i in numbers]
        alignments = _alignments(translator, [job.source for job in chosen], _translations(chosen))
        begun: list[tuple[int, str]] = []
        texts: list[tuple[int, str]] = []
        for (i, number), alignment in zip(numbers.items(), alignments, strict=True):
            job = jobs[i]
            job.tried.add(number)
            match, text = job.translation.terms[number].match, without_hints(job.source.line)
            forced = put_term(match, text, _written(job.translation), alignment)
            [fixed] = translator.tokenizer.decode([job.prefix])
            begun += [(i, begin) for begin in forced.beginnings if begin.startswith(fixed)]
            texts += [(i, whole) for whole in forced.wholes if whole.startswith(fixed)]
        whole, of_whole = _scored(translator, jobs, texts)
        prefixes = encode_text([text for _, text in begun], translator.tokenizer)
        searched = translator.search_sources(
            [jobs[i].source for i, _ in begun], [ids[:-1] for ids in prefixes]
        )
        owners = [i for i, _ in begun] + whole
        searched = _with_uses(
            translator, [jobs[i].source for i in owners], [*searched, *of_whole], glossary
        )
        candidates: dict[int, list[Translation]] = {}
        for i, translation in zip(owners, searched, strict=True):
            candidates.setdefault(i, []).append(translation)
        for i, of_job in candidates.items():
            _take_best(jobs[i], of_job)


def _take_best(job: _Job, candidates: Sequence[Translation]) -> None:
    """Replaces the translation of a line by the best candidate that has more terms."""
    most_broken = job.broken(job.translation)
    unbroken = [other for other in candidates if job.broken(other) <= most_broken]
    best = min(
        unbroken, key=lambda other: (_num_missing(other), -other.score), default=job.translation
    )
    if _num_missing(best) < _num_missing(job.translation):
        job.translation = best
        job.tried.clear()


def _scored(
    translator: "Translator", jobs: Sequence[_Job], texts: Sequence[tuple[int, str]]
) -> tuple[list[int], list[Translation]]:
    """Returns texts as translations of jobs, scored as by a search; leaves out those too long."""
    config, found = translator.config, []
    targets = encode_text([text for _, text in texts], translator.tokenizer)
    fit = [
        number
        for number, (i, _) in enumerate(texts)
        if len(targets[number]) <= config.longest_output(len(jobs[i].source.parts[0]))
    ]
    owners = [texts[number][0] for number in fit]
    pairs = [jobs[i].source.parts[0] for i in owners], [targets[number] for number in fit]
    log_probs = dict(translator.engine.log_probs(*pairs)) if fit else {}
    for row, (number, i) in enumerate(zip(fit, owners, strict=True)):
        penalty = ((5 + len(targets[number])) / 6) ** config.alpha
        score = float(log_probs[row].sum(dtype=np.float64)) / penalty
        candidates = Candidates([[Hypothesis(texts[number][1], score)]])
        found.append(candidates.joined(jobs[i].source, jobs[i].prefix, config))
    return owners, found


def term_counts(translations: Iterable[Translation]) -> Counter:
    """Returns how many terms became what, by kind, and how often each one is missing."""
    counts: Counter = Counter()
    for use in (use for translation in translations for use in translation.terms):
        counts[f"terms {use.kind}"] += 1
        if use.kind == MISSING:
            counts[f"{_MISSING_TERM}{use.match.term.source} -> {use.match.term.target}"] += 1
    return counts


def terms_report(counts: Mapping[str, int]) -> str:
    """Returns what a sum of `term_counts` says, for people; other counts may be among it."""
    kinds = {kind: counts.get(f"terms {kind}", 0) for kind in KINDS}
    total = sum(kinds.values())
    if not total:
        return "No term of the glossary is in the source."
    shares = ", ".join(f"{count:,} {kind} ({count / total:.1%})" for kind, count in kinds.items())
    missing = {
        name.removeprefix(_MISSING_TERM): count
        for name, count in counts.items()
        if name.startswith(_MISSING_TERM)
    }
    lines = [f"{total:,} terms of the glossary: {shares}"]
    by_count = sorted(missing, key=lambda name: (-missing[name], name))
    lines += [
        f"  missing: {name} ({missing[name]:,} of its places)" for name in by_count[:_MOST_NAMED]
    ]
    if len(by_count) > _MOST_NAMED:
        lines.append(f"  and {len(by_count) - _MOST_NAMED:,} others")
    return "\n".join(lines)
