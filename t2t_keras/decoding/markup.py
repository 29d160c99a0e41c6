"""Translation of HTML and XML: of the text in it, with its tags around the same words."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from t2t_keras.decoding.aligning import spans_of_pairs
from t2t_keras.decoding.candidates import Candidates
from t2t_keras.decoding.source_text import Source, check_lines
from t2t_keras.decoding.terms import keep_terms
from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.text.glossary import Glossary
from t2t_keras.text.markup.characters import write_characters
from t2t_keras.text.markup.reading import Fragment, read_fragment
from t2t_keras.text.markup.segments import Segment
from t2t_keras.text.markup.sentences import Sentence, divide, join_markup, kept_in
from t2t_keras.text.markup.translated import Translated
from t2t_keras.text.markup.units import Span
from t2t_keras.text.sentences import sentences
from t2t_keras.text.terms.hints import places_with_hints
from t2t_keras.text.terms.uses import Use

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator

# Products of units of both sides beyond which the marks of a sentence stand in proportion.
_MOST_WEIGHTS = 4_000_000
_NO_PREFIX = np.zeros(0, np.int32)


def translate_markup(
    translator: "Translator",
    texts: Sequence[str],
    format: str,  # noqa: A002
    blocks: Sequence[str] = (),
    keep: Sequence[str] = (),
    glossary: Glossary | None = None,
    outline: bool = False,
    inline: Sequence[str] = (),
) -> list[Translation]:
    """Translates HTML or XML.

    Every tag comes back once, and where tags were well nested they are; attributes, comments and
    what is not to be translated are as they were, byte for byte. Text is translated sentence by
    sentence. The placeholders in it are checked.

    What is not translated: in HTML, the content of elements as `<code>`, `<script>` and `<style>`
    (see `t2t_keras.text.markup.matching.HTML_KEPT`) and what has translate="no" or the class
    notranslate; in XML, what has translate="no", CDATA, and XLIFF's codes.

    Args:
      translator: a `Translator`.
      texts: fragments, or whole documents; each of at most four million characters.
      format: "html" or "xml".
      blocks: more elements that divide the text. All other elements of XML are inline.
      keep: more elements whose content is not translated.
      glossary: as of `Translator.translate`.
      outline: whether in XML the outermost elements that have text of their own divide it, as in
        documents with titles and paragraphs.
      inline: elements that do not even so.

    Returns:
      Of each text, a translation whose `text` and hypotheses are markup; `score` is the sum over
      the sentences, and `parts` are empty.

    Raises:
      UserError: a text is malformed XML or too long, or as of `Translator.translate`.
    """
    check_lines(texts)
    split = functools.partial(sentences, language=translator.problem.languages()[0])
    read = functools.partial(
        read_fragment, format=format, blocks=blocks, keep=keep, outline=outline, inline=inline
    )
    jobs = [_Job(read(text), split) for text in texts]
    translations: list[Translation] = []
    number = 0
    while jobs:
        # Their sentences are translated together, but not those of a whole site.
        batch, count = [], 0
        while jobs and (not batch or count < translator.config.lines_at_once):
            batch.append(jobs.pop(0))
            count += len(batch[-1].sentences)
        translations += _translated(translator, batch, number, glossary)
        number += count
    return translations


class _Job:
    """A fragment, its segments divided into sentences."""

    def __init__(self, fragment: Fragment, split: Callable[[str], list[str]]):
        self.fragment = fragment
        self.segments = fragment.segments
        self.divided = [divide(segment, split) for segment in self.segments]

    @property
    def sentences(self) -> list[tuple[Sentence, Segment]]:
        """Its sentences, each with its segment."""
        pairs = zip(self.divided, self.segments, strict=True)
        return [(sentence, segment) for some, segment in pairs for sentence in some]

    def written(self, sentences: Iterable[str]) -> str:
        """Returns its markup with other sentences, given as markup."""
        rest = iter(sentences)
        texts = (join_markup(some, itertools.islice(rest, len(some))) for some in self.divided)
        return self.fragment.write(list(texts))


def _translated(
    translator: "Translator", jobs: Sequence[_Job], first_number: int, glossary: Glossary | None
) -> Iterator[Translation]:
    pairs = [pair for job in jobs for pair in job.sentences]
    texts, kept = ([each.text for each, _ in pairs], [each.kept for each, _ in pairs])
    sources = translator.read(texts, kept, glossary=glossary)
    prefixes = [_NO_PREFIX] * len(sources)
    candidates = translator.candidates(
        sources, prefixes, first_number, check=True, glossary=glossary
    )
    terms: list[tuple[Use, ...]] = [()] * len(sources)
    if glossary:
        best = [
            each.joined(source, _NO_PREFIX, translator.config)
            for each, source in zip(candidates, sources, strict=True)
        ]
        best = keep_terms(translator, sources, prefixes, best, glossary)
        candidates = list(map(_with_best, candidates, best))
        terms = [each.terms for each in best]
    num_ranks = max((len(part) for each in candidates for part in each.parts), default=1)
    ranks = [_of_rank(translator, rank, pairs, sources, candidates) for rank in range(num_ranks)]
    first = 0
    for job in jobs:
        rows = slice(first, first + len(job.sentences))
        first = rows.stop
        hypotheses = tuple(
            Hypothesis(job.written(markup[rows]), sum(scores[rows])) for markup, scores in ranks
        )
        yield Translation(
            hypotheses[0].text,
            hypotheses[0].score,
            hypotheses[: translator.config.num_hypotheses],
            cut=sum(each.cut for each in sources[rows]),
            postprocessed=hypotheses[0].text,
            broken=sum(each.broken for each in candidates[rows]),
            chosen=max((each.chosen for each in candidates[rows]), default=0),
            terms=tuple(use for uses in terms[rows] for use in uses),
        )


def _with_best(candidates: Candidates, best: Translation) -> Candidates:
    """Returns candidates with the parts of a translation that has its terms in front."""
    parts = []
    for text, others in zip(best.parts, candidates.parts, strict=True):
        score = others[0].score if len(candidates.parts) > 1 else best.score
        parts.append([Hypothesis(text, score), *(each for each in others if each.text != text)])
    return Candidates(parts, best.broken, best.chosen)


def _of_rank(
    translator: "Translator",
    rank: int,
    pairs: Sequence[tuple[Sentence, Segment]],
    sources: Sequence[Source],
    candidates: Sequence[Candidates],
) -> tuple[list[str], list[float]]:
    """Returns the hypothesis of a rank of each sentence as markup, or its last one; and scores."""
    chosen = [[part[min(rank, len(part) - 1)] for part in each.parts] for each in candidates]
    translated = [
        # A blank sentence has no parts and is copied.
        _with_marks(*pair, source, " ".join(texts) if texts else source.shield.text)
        for pair, source, texts in zip(
            pairs, sources, ([each.text for each in parts] for parts in chosen), strict=True
        )
    ]
    weights: list[np.ndarray | None] = [None] * len(translated)
    aligned = [
        number
        for number, (each, source) in enumerate(zip(translated, sources, strict=True))
        if each.has_marks
        and len(source.parts) == 1
        and len(each.source_units) * len(each.target_units) <= _MOST_WEIGHTS
    ]
    spans = [_seen(translated[number], sources[number]) for number in aligned]
    ids = [sources[number].parts[0] for number in aligned]
    engine, tokenizer = translator.engine, translator.tokenizer
    for number, each in zip(aligned, spans_of_pairs(engine, tokenizer, ids, spans), strict=True):
        weights[number] = each
    markup = [each.markup(some) for each, some in zip(translated, weights, strict=True)]
    return markup, [sum(part.score for part in parts) for parts in chosen]


def _seen(
    translated: Translated, source: Source
) -> tuple[tuple[str, list[Span]], tuple[str, list[Span]]]:
    """Returns both texts as the model has them, each with its units; a hint is of its word."""
    (text, units), of_target = translated.texts_with_units()
    [seen] = source.texts
    places = places_with_hints(seen, len(text))
    return (seen, [(places[start], places[end]) for start, end in units]), of_target


def _with_marks(
    sentence: Sentence, segment: Segment, source: Source, translation: str
) -> Translated:
    shield = source.shield
    marks = [
        dataclasses.replace(mark, start=shield.offset(mark.start), end=shield.offset(mark.end))
        for mark in sentence.marks
    ]
    kept = kept_in(shield.text, marks)

    raws = {}
    for place, (end, raw) in sentence.raws.items():
        # Parts inside a replaced placeholder are gone.
        if not any(start < end and place < stop for start, stop, _ in shield.places):
            raws[shield.offset(place) if place > 0 else place] = shield.offset(end), raw

    def write(text: str, after: str) -> str:
        return write_characters(shield.restore(text), segment.spelled, after)

    return Translated(shield.text, marks, translation, kept, write, raws, segment.is_html)
