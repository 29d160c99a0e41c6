"""Prepares users' lines for the model: checks, stages, encoding, cutting or splitting.

A stage prepares each line for the model, ranks and mends the hypotheses, and restores the output.
Placeholders and terms are stages. Stages run in order before the model, and in reverse order after
it.
"""

import bisect
import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Hypothesis
from t2t_keras.errors import UserError
from t2t_keras.registry import LINE_STAGES
from t2t_keras.special_ids import EOS_ID
from t2t_keras.text.alignment import Alignment, count_words, word_spans
from t2t_keras.text.files import is_blank, is_text, normalized
from t2t_keras.text.sentences import sentences
from t2t_keras.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from t2t_keras.decoding.engine import Engine


# A part's number is unique among the first 128 parts of the first 2^24 lines.
_PART_STEP, _NUMBER_MASK = 1 << 24, 0x7FFFFFFF


class Prepared:
    """A line that one stage has prepared; this base class changes nothing.

    Methods take sources and outputs, of a line or a sentence, in the form between this stage and
    the next.

    Attributes:
      text: text of the line for the next stage or the model.
    """

    def __init__(self, text: str):
        self.text = text

    def original(self, source: str) -> str:
        """Returns a part of `text` in its form before this stage."""
        return source

    def hide(self, output: str) -> str:
        """Undoes `restore`: returns a user's text, such as a prefix, in the model's form."""
        return output

    def restore(self, output: str) -> str:
        """Returns an output in the form of the previous stage, or of the user."""
        return output

    def costs(self, source: str, outputs: Sequence[str]) -> Sequence[float]:
        """Returns the cost of each output, 0 = no fault; the cheapest is chosen."""
        return [0] * len(outputs)

    def align(self, source: str, output: str, pairs: Alignment) -> Alignment:
        """Converts pairs of words (source, output) to words of `original` and `restore`."""
        return pairs


class LineStage:
    """A stage; this base class changes nothing.

    Threads share a stage, so a `Prepared` holds the state of a line.

    Attributes:
      name: the key of its notes, unique among the stages of a translator.
    """

    name = ""

    def prepare(self, line: str) -> Prepared:
        """Returns a line, in NFC, in the form for the next stage or the model."""
        return Prepared(line)

    def mend(self, drafts: "Sequence[Draft]", context: "StageContext") -> None:
        """Mends faulty hypotheses of drafts in place with the help of `context`, and sets notes."""

    def note(self, notes: Sequence[Any]) -> Any:
        """Merges the notes of a line's parts, at least one, into the note of the line."""
        return notes[0]

    def settings(self) -> Mapping[str, Any]:
        """Returns the settings that affect translations, as JSON values."""
        return {}

    def counts(self, notes: Iterable[Any]) -> Counter:
        """Returns counts over the notes of lines, by names that only this stage uses."""
        return Counter()

    def report(self, counts: Mapping[str, int]) -> Iterable[str]:
        """Yields lines of text on the sums of `counts`, which may include other stages' counts."""
        return ()

    def remarks(self, note: Any) -> Iterable[str]:
        """Yields lines of text on the note of one line, for an interactive user."""
        return ()


def line_stages(config: DecodeConfig, problem: Problem) -> list[LineStage]:
    """Returns the registered stages that apply to settings and a problem."""
    # This library's stages come first, whatever the order of imports.
    makers = sorted(
        LINE_STAGES.values(), key=lambda make: not make.__module__.startswith("t2t_keras.")
    )
    return [stage for make in makers if (stage := make(config, problem))]


def check_stages(stages: Iterable[LineStage]) -> tuple[LineStage, ...]:
    """Returns stages; raises `UserError` if one has no name, or two have the same name."""
    stages = tuple(stages)
    names = [stage.name for stage in stages]
    if not all(names) or len({*names}) < len(names):
        raise UserError(
            f"Expected stages with different names, got {', '.join(map(repr, names))}. Rename one, "
            f"or leave it out.",
            code="given_twice",
        )
    return stages


def stage_settings(stages: Iterable[LineStage]) -> dict[str, dict[str, Any]]:
    """Returns the settings of stages by their names, in their order."""
    return {stage.name: dict(stage.settings()) for stage in stages}


def merge_notes(stages: Iterable[LineStage], notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merges the notes of several texts, each a mapping from names of stages to notes."""
    merged_by_stage = {}
    for stage in stages:
        if stage_notes := [by_name[stage.name] for by_name in notes if stage.name in by_name]:
            merged_by_stage[stage.name] = stage.note(stage_notes)
    return merged_by_stage


@dataclasses.dataclass(eq=False)
class Line:
    """A line on its way through a translator.

    Attributes:
      source: the user's text, in NFC.
      text: the line for the model.
      steps: the `Prepared` of each stage, in order.
      parts: the line, or its sentences; none for a blank line.
      cut: number of tokens left out because the line was too long.
      prefix_cut: number of tokens left out because its prefix was too long.
    """

    source: str
    text: str
    steps: Sequence[Prepared] = ()
    parts: "list[Part]" = dataclasses.field(default_factory=list)
    cut: int = 0
    prefix_cut: int = 0

    def hide(self, output: str, after: int = -1) -> str:
        """Undoes `restore`, for all stages or only for the stages after number `after`."""
        for step in self.steps[after + 1 :]:
            output = step.hide(output)
        return output

    def restore(self, output: str, after: int = -1) -> str:
        """Returns a model's output in the user's form, or in the form of stage `after`."""
        for step in reversed(self.steps[after + 1 :]):
            output = step.restore(output)
        return output

    def original(self, source: str, after: int = -1) -> str:
        """Returns a part of `text` in the form of `source`, or in the form of stage `after`."""
        for step in reversed(self.steps[after + 1 :]):
            source = step.original(source)
        return source

    def align(self, source: str, output: str, pairs: Alignment, after: int = -1) -> Alignment:
        """Converts an alignment of the model's words to words of `original` and `restore`."""
        for step in reversed(self.steps[after + 1 :]):
            pairs = step.align(source, output, pairs)
            source, output = step.original(source), step.restore(output)
        return pairs


@dataclasses.dataclass
class Part:
    """A line, or a sentence of it, which a model translates as a unit.

    Attributes:
      line: the line that it belongs to.
      source: its text, prepared by all stages.
      ids: int32 [length], for the model: the words in front, the source and the end of sentence,
        cut to `max_input_length`.
      first_word: number of its first word among the words of `line.text`.
      num_front_words: number of words before the source, such as a target-language token.
      num_own_front_words: number of words in front that the line itself has.
      prefix: int32 [prefix length], required beginning of its outputs, without end of sentence.
      number: number that the draws of sampling depend on.
      hypotheses: the results of the search, best first.
      rank: rank of the first hypothesis in the search; 0 = best.
      notes: notes of the stages, by their names.
    """

    line: Line
    source: str
    ids: np.ndarray
    first_word: int = 0
    num_front_words: int = 0
    num_own_front_words: int = 0
    prefix: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int32))
    number: int = 0
    hypotheses: list[Hypothesis] = dataclasses.field(default_factory=list)
    rank: int = 0
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)

    def costs(self, num_hypotheses: int | None = None) -> list[tuple[float, ...]]:
        """Returns, for all or the first `num_hypotheses` hypotheses, the costs by stage."""
        source = self.source
        outputs = [hypothesis.text for hypothesis in self.hypotheses[:num_hypotheses]]
        columns: list[Sequence[float]] = []
        for step in reversed(self.line.steps):
            columns.append(step.costs(source, outputs))
            source, outputs = step.original(source), list(map(step.restore, outputs))
        return list(zip(*reversed(columns), strict=True))

    def rerank(self, only_first: bool = False) -> None:
        """Sorts the hypotheses by cost, or only moves the cheapest to the front; stable."""
        costs = self.costs()
        order = sorted(range(len(costs)), key=costs.__getitem__)
        if only_first:
            order = [order[0], *(i for i in range(len(costs)) if i != order[0])]
        self.hypotheses, self.rank = [self.hypotheses[i] for i in order], order[0]

    def words_of_line(self, pairs: Alignment) -> list[tuple[int, int]]:
        """Converts an alignment from the words of `ids` to the words of `line.text`."""
        front = self.num_front_words
        return [
            (self.first_word + word - front if word >= front else word, output_word)
            for word, output_word in pairs
            if word >= front or word < self.num_own_front_words
        ]

    def words_of_source(self, pairs: Alignment) -> list[tuple[int, int]]:
        """Converts an alignment from the words of `ids` to the words of `source`."""
        front = self.num_front_words
        return [(word - front, output_word) for word, output_word in pairs if word >= front]


def prepare_line(line: str, stages: Iterable[LineStage]) -> Line:
    """Returns a line, in NFC, prepared by all stages."""
    text, steps = line, list[Prepared]()
    for stage in stages:
        steps.append(stage.prepare(text))
        text = steps[-1].text
    return Line(line, text, steps)


def encode_lines(
    lines: Sequence[Line],
    translator: "Searcher",
    prefixes: Sequence[str] = (),
    first_number: int = 0,
) -> None:
    """Encodes prepared lines: sets their parts, of at most `max_input_length` tokens.

    With `split_long`, longer lines are split into sentences. Parts that are still too long are cut.
    Each sentence begins with the line's words in front.

    Args:
      lines: lines that the translator's stages have prepared.
      translator: has the tokenizer, settings and problem.
      prefixes: required beginning of each line's output, in the user's form; () = none.
      first_number: number of the first line.
    """
    tokenizer, config, problem = translator.tokenizer, translator.config, translator.problem
    max_length = config.max_input_length
    texts = [normalized(problem.preprocess(line.text)) for line in lines]
    nonblank_numbers = [number for number, line in enumerate(lines) if not is_blank(line.text)]
    encoded = tokenizer.source.encode([texts[number] for number in nonblank_numbers])
    for number, ids in zip(nonblank_numbers, encoded, strict=True):
        line, text = lines[number], texts[number]
        front = problem.words_in_front(text)
        body, num_front_words = text.removeprefix(front), count_words(front) if front else 0
        sources, part_ids, first_words = [body], [ids], [0]
        if config.split_long and len(ids) > max_length:
            sources = sentences(body, problem.languages()[0])
            part_ids = tokenizer.source.encode([front + source for source in sources])
            first_words = _first_words(body, sources)
        # The words in front are the line's own, or the problem has added them.
        num_own_front_words = num_front_words if line.text.startswith(front) else 0
        line.parts = [
            Part(
                line,
                source,
                np.append(ids[:-1][: max_length - 1], np.int32(EOS_ID)),
                num_own_front_words + first_word,
                num_front_words,
                num_own_front_words,
                number=(first_number + number + part * _PART_STEP) & _NUMBER_MASK,
            )
            for part, (source, ids, first_word) in enumerate(
                zip(sources, part_ids, first_words, strict=True)
            )
        ]
        line.cut = sum(max(len(ids) - max_length, 0) for ids in part_ids)
    if prefixes:
        model_prefixes = [line.hide(prefix) for line, prefix in zip(lines, prefixes, strict=True)]
        for line, ids in zip(lines, encode_text(model_prefixes, tokenizer), strict=True):
            if line.parts:  # A line's prefix belongs to its first part.
                first = line.parts[0]
                first.prefix = ids[:-1]
                # The output needs room for its end of sentence.
                max_prefix_length = config.max_output_length(len(first.ids)) - 1
                line.prefix_cut = max(len(first.prefix) - max_prefix_length, 0)


def _first_words(line: str, parts: Sequence[str]) -> list[int]:
    """Returns the index of each part's first word among the words of a line."""
    numbers, position = [], 0
    starts = [start for start, _ in word_spans(line)]
    for part in parts:
        position = line.index(part, position)
        # A part that begins inside a word has that word as its first.
        numbers.append(bisect.bisect_right(starts, position) - 1)
        position += len(part)
    return numbers


def encode_text(lines: Sequence[str], tokenizer: Tokenizer) -> list[np.ndarray]:
    """Checks lines and encodes them in NFC."""
    check_lines(lines)
    return tokenizer.encode(list(map(normalized, lines)))


def encode_pairs(
    sources: Sequence[str], targets: Sequence[str], tokenizer: Tokenizer, problem: Problem
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Checks pairs and encodes their sides in the form that the problem's model reads."""
    check_lines(sources)
    check_equal_counts(sources, targets, "target")
    check_lines(targets)
    sides = (map(normalized, side) for side in (sources, targets))
    pairs = list(map(problem.prepare_pair, *sides))
    model_sources = [problem.preprocess(source) for source, _ in pairs]
    return tokenizer.source.encode(model_sources), tokenizer.encode([target for _, target in pairs])


def check_lengths(
    encoded: Sequence[Sequence[np.ndarray]], max_length: int, names: Sequence[str] = ()
) -> None:
    """Raises `UserError`, with the pair's name, if a side has more than `max_length` tokens."""
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
    check_not_string(lines)
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


def check_not_string(lines: Iterable[str]) -> None:
    """Raises `UserError` for a single string, whose characters would be taken as lines."""
    if isinstance(lines, str | bytes):
        raise UserError(
            f"Expected a list of lines, got one string: {lines[:50]!a}.", code="wrong_type"
        )


def check_equal_counts(lines: Sequence[str], values: Sequence, noun: str) -> None:
    """Raises `UserError` unless there are as many values as lines."""
    if len(lines) != len(values):
        raise UserError(
            f"Expected a {noun} for each of {len(lines)} lines, got {len(values)}.",
            code="unequal_counts",
        )


class Searcher(Protocol):
    """The part of a `Translator` that stages may use to mend hypotheses."""

    config: DecodeConfig
    engine: "Engine"
    tokenizer: Tokenizer
    problem: Problem
    stages: tuple[LineStage, ...]

    def search_parts(self, parts: Sequence[Part], num_stages: int) -> None:
        """Finds hypotheses of parts, mended by the first `num_stages` stages."""

    def align_parts(self, parts: Sequence[Part], outputs: Sequence[str]) -> list[Alignment]:
        """Returns, for each part, pairs (number of a source word, number of an output word)."""


class Draft:
    """A part and its hypotheses, in the form after a stage.

    Args:
      part: the part in the model's form.
      stage: number of the stage.
      name: name of the stage.

    Attributes:
      part: the part in the model's form.
      prepared: the line as the stage prepared it.
      source: the part's text.
    """

    def __init__(self, part: Part, stage: int, name: str):
        self.part, self._stage, self._name = part, stage, name
        self.prepared: Any = part.line.steps[stage]
        self.source = part.line.original(part.source, stage)

    def hide(self, output: str) -> str:
        """Returns an output in the model's form."""
        return self.part.line.hide(output, self._stage)

    @property
    def output(self) -> str:
        """The best hypothesis."""
        return self.part.line.restore(self.part.hypotheses[0].text, self._stage)

    @property
    def outputs(self) -> list[str]:
        """All hypotheses, best first."""
        restore = self.part.line.restore
        return [restore(hypothesis.text, self._stage) for hypothesis in self.part.hypotheses]

    @property
    def score(self) -> float:
        """The score of the best hypothesis."""
        return self.part.hypotheses[0].score

    def replace(self, rank: int, output: str) -> None:
        """Replaces an output, but keeps its score."""
        old_hypothesis = self.part.hypotheses[rank]
        self.part.hypotheses[rank] = dataclasses.replace(old_hypothesis, text=self.hide(output))

    def take(self, other: "Draft") -> None:
        """Takes over the hypotheses of another draft of this part, with their rank and notes."""
        self.part.hypotheses, self.part.rank = other.part.hypotheses, other.part.rank
        self.part.notes = dict(other.part.notes)

    def note(self, note: Any) -> None:
        """Sets the stage's note on the first output."""
        self.part.notes[self._name] = note

    def costs(self) -> tuple[float, ...]:
        """Returns the costs that the previous stages assign to the first output."""
        return self.part.costs(1)[0][: self._stage]

    def with_prefix(self, prefix: np.ndarray) -> "Draft":
        """Returns a draft of the part, without hypotheses; outputs must begin with `prefix`."""
        part = dataclasses.replace(self.part, prefix=prefix, hypotheses=[], rank=0, notes={})
        return Draft(part, self._stage, self._name)


class StageContext:
    """Alignment, search and scores for a stage that mends drafts, for many drafts at a time.

    Args:
      translator: searches, scores and aligns.
      stage: number of the stage.
    """

    def __init__(self, translator: "Searcher", stage: int):
        self._translator, self._stage = translator, stage

    def drafts(self, parts: Iterable[Part]) -> list[Draft]:
        """Returns a draft of each part, in the stage's form."""
        name = self._translator.stages[self._stage].name
        return [Draft(part, self._stage, name) for part in parts]

    def prefix(self, draft: Draft) -> str:
        """Returns the required beginning of a draft's outputs."""
        [text] = self._translator.tokenizer.decode([draft.part.prefix.tolist()])
        return draft.part.line.restore(text, self._stage)

    def align(self, drafts: Sequence[Draft], outputs: Sequence[str]) -> list[Alignment]:
        """Returns pairs of words (source, output) for an output of each draft."""
        parts, texts = [draft.part for draft in drafts], _hide(drafts, outputs)
        alignments = self._translator.align_parts(parts, texts)
        return [
            part.line.align(part.source, text, part.words_of_source(pairs), self._stage)
            for part, text, pairs in zip(parts, texts, alignments, strict=True)
        ]

    def search(self, drafts: Sequence[Draft], beginnings: Sequence[str]) -> list[Draft]:
        """Searches for outputs with these beginnings; returns drafts that earlier stages mended."""
        new_drafts = [
            draft.with_prefix(ids[:-1])
            for draft, ids in zip(drafts, self._encode(drafts, beginnings), strict=True)
        ]
        self._translator.search_parts([draft.part for draft in new_drafts], self._stage)
        return new_drafts

    def score(self, drafts: Sequence[Draft], outputs: Sequence[str]) -> list[Draft | None]:
        """Returns new drafts with one output each, scored as in a search; None = too long."""
        targets = self._encode(drafts, outputs)
        max_length = self._translator.config.max_output_length
        numbers = [
            number
            for number, draft in enumerate(drafts)
            if len(targets[number]) <= max_length(len(draft.part.ids))
        ]
        sources = [drafts[number].part.ids for number in numbers]
        scores = self._translator.engine.scores(sources, [targets[number] for number in numbers])
        scored_drafts: list[Draft | None] = [None] * len(drafts)
        for row, score in scores if numbers else ():
            draft, output = drafts[numbers[row]], outputs[numbers[row]]
            scored_draft = draft.with_prefix(draft.part.prefix)
            scored_draft.part.hypotheses.append(Hypothesis(draft.hide(output), score))
            scored_drafts[numbers[row]] = scored_draft
        return scored_drafts

    def _encode(self, drafts: Sequence[Draft], outputs: Sequence[str]) -> list[np.ndarray]:
        return encode_text(_hide(drafts, outputs), self._translator.tokenizer)


def _hide(drafts: Sequence[Draft], outputs: Sequence[str]) -> list[str]:
    return [draft.hide(output) for draft, output in zip(drafts, outputs, strict=True)]
