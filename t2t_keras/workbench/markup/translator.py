"""Translates the text in HTML and XML, and puts the tags around the corresponding words."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from t2t_keras.decoding.lines import (
    Line,
    Part,
    check_lines,
    encode_lines,
    encode_text,
    merge_notes,
    prepare_line,
)
from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.text.files import normalized
from t2t_keras.text.sentences import sentences
from t2t_keras.workbench.markup.attention import span_weights
from t2t_keras.workbench.markup.reading import Fragment, read_fragment
from t2t_keras.workbench.markup.segments import (
    Segment,
    Sentence,
    Span,
    divide,
    join_markup,
)
from t2t_keras.workbench.markup.translated import TranslatedSentence
from t2t_keras.workbench.placeholders.stage import PlaceholderStage
from t2t_keras.workbench.placeholders.symbols import Shield
from t2t_keras.workbench.terms.glossary import positions_with_hints, without_hints

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator

# Maximum of source units times target units for placing marks by attention.
_MAX_WEIGHTS = 4_000_000
_TextWithUnits = tuple[str, list[Span]]


def translate_markup(
    translator: "Translator",
    texts: Sequence[str],
    format: str,  # noqa: A002
    blocks: Sequence[str] = (),
    keep: Sequence[str] = (),
    outline: bool = False,
    inline: Sequence[str] = (),
) -> list[Translation]:
    """Translates HTML or XML.

    Every tag comes back once, and well-nested tags stay well nested. Attributes, comments and
    untranslated elements come back byte for byte. Text is translated sentence by sentence, and its
    placeholders are checked.

    In HTML, elements such as `<code>`, `<script>` and `<style>` are not translated (see
    `t2t_keras.workbench.markup.tokens.HTML_KEPT`), nor elements with translate="no" or the
    class notranslate; in XML, elements with translate="no", CDATA, and XLIFF's codes are not.

    Args:
      translator: a `Translator`.
      texts: fragments or whole documents, each of at most four million characters.
      format: "html" or "xml".
      blocks: names of additional elements that divide the text; in XML, by default none do.
      keep: names of additional elements whose content is not translated.
      outline: whether, in XML, the outermost elements with their own text divide the text, as in
        documents with titles and paragraphs.
      inline: names of elements that `outline` does not apply to.

    Returns:
      The translation of each text. Its `text` and hypotheses are markup, `score` is the sum over
      the sentences, and `parts` are empty.

    Raises:
      UserError: a text is malformed XML or too long, or see `Translator.translate`.
    """
    check_lines(texts)
    split = functools.partial(sentences, language=translator.problem.languages()[0])
    parse = functools.partial(
        read_fragment, format=format, blocks=blocks, keep=keep, outline=outline, inline=inline
    )
    jobs = [_MarkupJob(parse(text), split) for text in texts]
    # Always check placeholders, whatever the settings are.
    stages = (stage for stage in translator.stages if not isinstance(stage, PlaceholderStage))
    placeholders = PlaceholderStage(PlaceholderStage.name in translator.problem.pair_transforms)
    translator = translator.with_stages(placeholders, *stages)
    translations: list[Translation] = []
    first_number = 0
    while jobs:
        # Translate texts together, but not a whole site at once.
        batch: list[_MarkupJob] = []
        count = 0
        while jobs and (not batch or count < translator.config.lines_at_once):
            batch.append(jobs.pop(0))
            count += len(batch[-1].sentences)
        translations += _translate_jobs(translator, placeholders, batch, first_number)
        first_number += count
    return translations


class MarkupTranslator:
    """Translates text and markup.

    Args:
      translator: translates text, with all its stages.
    """

    def __init__(self, translator: "Translator"):
        self.translator = translator

    def translate(
        self,
        texts: Sequence[str],
        format: str = "text",  # noqa: A002
    ) -> list[Translation]:
        """Translates lines of "text", or fragments or documents of "html" or "xml"."""
        if format == "text":
            return self.translator.translate(texts)
        return translate_markup(self.translator, texts, format)


class _MarkupJob:
    """A fragment, with its segments divided into sentences."""

    def __init__(self, fragment: Fragment, split: Callable[[str], list[str]]):
        self.fragment = fragment
        self.segments = fragment.segments
        self.sentences_by_segment = [divide(segment, split) for segment in self.segments]

    @property
    def sentences(self) -> list[tuple[Sentence, Segment]]:
        """Its sentences with their segments."""
        pairs = zip(self.sentences_by_segment, self.segments, strict=True)
        return [(sentence, segment) for sentences, segment in pairs for sentence in sentences]

    def write(self, sentences: Iterable[str]) -> str:
        """Returns the fragment's markup with its sentences replaced by `sentences`, as markup."""
        remaining = iter(sentences)
        texts = (
            join_markup(segment_sentences, itertools.islice(remaining, len(segment_sentences)))
            for segment_sentences in self.sentences_by_segment
        )
        return self.fragment.write(list(texts))


class _Item(NamedTuple):
    """A sentence during translation.

    Attributes:
      sentence: the sentence, with symbols for placeholders if the model has symbols.
      segment: the segment of the sentence.
      shield: the placeholders of the sentence.
      line: the sentence as a line of the translator.
    """

    sentence: Sentence
    segment: Segment
    shield: Shield
    line: Line


def _translate_jobs(
    translator: "Translator",
    placeholders: PlaceholderStage,
    jobs: Sequence[_MarkupJob],
    first_number: int,
) -> Iterator[Translation]:
    """Yields the translations of jobs; `placeholders` is the translator's first stage."""
    items: list[_Item] = []
    for sentence, segment in (pair for job in jobs for pair in job.sentences):
        shield_step = placeholders.prepare(normalized(sentence.text), sentence.kept_texts)
        prepared_line = prepare_line(shield_step.text, translator.stages[1:])
        steps = [shield_step, *prepared_line.steps]
        line = Line(sentence.text, prepared_line.text, steps)
        shield = shield_step.shield
        items.append(_Item(_with_symbols(sentence, shield), segment, shield, line))
    lines = [item.line for item in items]
    encode_lines(lines, translator, (), first_number)
    translator.search_parts([part for line in lines for part in line.parts])
    num_ranks = max((len(part.hypotheses) for line in lines for part in line.parts), default=1)
    by_rank = [_hypotheses_of_rank(translator, rank, items) for rank in range(num_ranks)]
    start = 0
    for job in jobs:
        rows = slice(start, start + len(job.sentences))
        start = rows.stop
        hypotheses = tuple(
            Hypothesis(job.write(markup[rows]), sum(scores[rows])) for markup, scores in by_rank
        )
        parts = [part for line in lines[rows] for part in line.parts]
        yield Translation(
            hypotheses[0].text,
            hypotheses[0].score,
            hypotheses,
            cut=sum(line.cut for line in lines[rows]),
            postprocessed=hypotheses[0].text,
            rank=max((part.rank for part in parts), default=0),
            notes=merge_notes(translator.stages, [part.notes for part in parts]),
        )


def _hypotheses_of_rank(
    translator: "Translator", rank: int, items: Sequence[_Item]
) -> tuple[list[str], list[float]]:
    """Returns each sentence's hypothesis of a rank (or its last one) as markup, and the scores."""
    hypotheses = [
        [part.hypotheses[min(rank, len(part.hypotheses) - 1)] for part in item.line.parts]
        for item in items
    ]
    results: list[TranslatedSentence] = []
    numbers: list[int] = []  # Of the sentences whose marks are placed by attention.
    for number, (item, drafts) in enumerate(zip(items, hypotheses, strict=True)):
        output = " ".join(draft.text for draft in drafts)
        restored_output = item.line.restore(output, after=0)
        # A blank sentence has no parts and is copied.
        text = restored_output if drafts or restored_output else item.shield.text
        sentence = TranslatedSentence(item.sentence, item.segment, text, item.shield.restore)
        results.append(sentence)
        parts = item.line.parts
        if (
            sentence.has_marks
            and len(parts) == 1
            # Attention is of the model's own input and output: stages may have added only hints.
            and without_hints(parts[0].source) == item.shield.text
            and restored_output == output
            and len(sentence.source_units) * len(sentence.target_units) <= _MAX_WEIGHTS
        ):
            numbers.append(number)
    parts = [items[number].line.parts[0] for number in numbers]
    spans = [_model_texts(results[n], part) for n, part in zip(numbers, parts, strict=True)]
    weights = dict(zip(numbers, _span_weights(translator, parts, spans), strict=True))
    markup = [sentence.markup(weights.get(number)) for number, sentence in enumerate(results)]
    return markup, [sum(draft.score for draft in drafts) for drafts in hypotheses]


def _span_weights(
    translator: "Translator",
    parts: Sequence[Part],
    pairs: Sequence[tuple[_TextWithUnits, _TextWithUnits]],
) -> list[np.ndarray]:
    """Returns the attention between spans of sources and translations, see `span_weights`.

    Args:
      translator: computes the attention.
      parts: parts of lines, one for each pair.
      pairs: source and translation, each a text with spans.
    """
    tokenizer, sources = translator.tokenizer, [part.ids for part in parts]
    targets = encode_text([text for _, (text, _) in pairs], tokenizer)
    weights = [np.zeros([len(target), len(source)]) for (_, source), (_, target) in pairs]
    if sources:
        for number, attention in translator.engine.cross_attention(sources, targets):
            pieces = (
                tokenizer.source.pieces(sources[number]),
                tokenizer.pieces(targets[number][: len(attention) + 1]),
            )
            weights[number] = span_weights(*pieces, attention, *pairs[number])
    return weights


def _model_texts(sentence: TranslatedSentence, part: Part) -> tuple[_TextWithUnits, _TextWithUnits]:
    """Returns the model's input and output with their units; a hint belongs to its word."""
    (text, units), target = sentence.texts_with_units()
    places = positions_with_hints(part.source, len(text))
    return (part.source, [(places[start], places[end]) for start, end in units]), target


def _with_symbols(sentence: Sentence, shield: Shield) -> Sentence:
    """Returns a sentence with symbols, as the model reads it."""
    marks = tuple(
        dataclasses.replace(mark, start=shield.offset(mark.start), end=shield.offset(mark.end))
        for mark in sentence.marks
    )
    raws = {}
    for place, (end, raw) in sentence.raws.items():
        # Drop the raws inside replaced placeholders.
        if not any(start < end and place < stop for start, stop in shield.places):
            raws[shield.offset(place) if place > 0 else place] = shield.offset(end), raw
    return dataclasses.replace(sentence, text=shield.text, marks=marks, raws=raws)
