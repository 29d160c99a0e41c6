"""Lines of text from users to the model: checked, prepared by stages, encoded, cut or split.

A stage prepares each line for the model, ranks and mends the hypotheses, and restores the output:
the seam for placeholders and terms. Stages run in order before the model, and in reverse
order after it.
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


# Parts of the first 2^24 lines have different numbers, up to 128 parts of a line.
_PARTS, _NUMBERS = 1 << 24, 0x7FFFFFFF


class Prepared:
    """A line that one stage has prepared; this base class leaves everything as it is.

    Sources and outputs come in the form that this stage gives the model: all later stages are
    undone. Each is of a whole line or of a sentence.

    Attributes:
      text: of the line, for the next stage or the model.
    """

    def __init__(self, text: str):
        self.text = text

    def original(self, source: str) -> str:
        """Returns a part of `text` as it was before this stage."""
        return source

    def hide(self, output: str) -> str:
        """Undoes `restore`: returns a user's text, such as a prefix, in the model's form."""
        return output

    def restore(self, output: str) -> str:
        """Returns an output in the form of the stage before, or of the user."""
        return output

    def costs(self, source: str, outputs: Sequence[str]) -> Sequence[float]:
        """Returns the cost of each output, 0 = no fault; the cheapest is taken."""
        return [0] * len(outputs)

    def align(self, source: str, output: str, pairs: Alignment) -> Alignment:
        """Returns pairs of words (source, output) as pairs of words of `original` and `restore`."""
        return pairs


class LineStage:
    """A stage; this base class leaves everything as it is.

    Threads share it: its knowledge of a line is kept in a `Prepared`.

    Attributes:
      name: the key of its notes, which no other stage of a translator has.
    """

    name = ""

    def prepare(self, line: str) -> Prepared:
        """Returns a line, in NFC, in the form for the next stage or the model."""
        return Prepared(line)

    def mend(self, drafts: "Sequence[Draft]", model: "StageContext") -> None:
        """Mends faulty hypotheses of drafts in place, and sets notes; `model` helps."""

    def note(self, notes: Sequence[Any]) -> Any:
        """Returns the note of a line from those of its parts, at least one."""
        return notes[0]

    def settings(self) -> Mapping[str, Any]:
        """Returns the settings that affect translations, as JSON can hold them."""
        return {}

    def counts(self, notes: Iterable[Any]) -> Counter:
        """Returns counts over the notes of lines, under names of the stage's own."""
        return Counter()

    def report(self, counts: Mapping[str, int]) -> Iterable[str]:
        """Yields lines of text on the sums of `counts`; those of other stages may be among them."""
        return ()

    def remarks(self, note: Any) -> Iterable[str]:
        """Yields lines of text on the note of one line, for an interactive user."""
        return ()


def line_stages(config: DecodeConfig, problem: Problem) -> list[LineStage]:
    """Returns the registered stages that apply to settings and a problem."""
    # This library's come first, whatever was imported before.
    makers = sorted(
        LINE_STAGES.values(), key=lambda make: not make.__module__.startswith("t2t_keras.")
    )
    return [stage for make in makers if (stage := make(config, problem))]


def check_stages(stages: Iterable[LineStage]) -> tuple[LineStage, ...]:
    """Returns stages; raises `UserError` where one has no name, or two have the same."""
    stages = tuple(stages)
    names = [stage.name for stage in stages]
    if not all(names) or len({*names}) < len(names):
        raise UserError(
            f"Expected stages of different names, got {', '.join(map(repr, names))}. Rename one, "
            f"or leave it out.",
            code="given_twice",
        )
    return stages


def stage_settings(stages: Iterable[LineStage]) -> dict[str, dict[str, Any]]:
    """Returns the settings of stages by their names, in their order."""
    return {stage.name: dict(stage.settings()) for stage in stages}


def merged_notes(stages: Iterable[LineStage], notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the notes of several texts, each by the stages' names, as those of one."""
    merged = {}
    for stage in stages:
        if of_stage := [by_name[stage.name] for by_name in notes if stage.name in by_name]:
            merged[stage.name] = stage.note(of_stage)
    return merged


@dataclasses.dataclass(eq=False)
class Line:
    """A line on its way through a translator.

    Attributes:
      source: what users gave, in NFC.
      steps: what each stage has prepared of it, in their order.
      parts: the line, or its sentences; a blank line has none.
      cut: number of its tokens beyond the longest allowed, which are left out.
      prefix_cut: the same of its prefix.
    """

    source: str
    steps: Sequence[Prepared] = ()
    parts: "list[Part]" = dataclasses.field(default_factory=list)
    cut: int = 0
    prefix_cut: int = 0

    @property
    def text(self) -> str:
        """The line for the model."""
        return self.steps[-1].text if self.steps else self.source

    def hide(self, output: str, after: int = -1) -> str:
        """Undoes `restore`; `after` = only of the stages behind that number."""
        for step in self.steps[after + 1 :]:
            output = step.hide(output)
        return output

    def restore(self, output: str, after: int = -1) -> str:
        """Returns a model's output in the user's form, or in that of the stage `after`."""
        for step in reversed(self.steps[after + 1 :]):
            output = step.restore(output)
        return output

    def original(self, source: str, after: int = -1) -> str:
        """Returns a part of `text` as it is in `source`, or as the stage `after` sees it."""
        for step in reversed(self.steps[after + 1 :]):
            source = step.original(source)
        return source

    def align(self, source: str, output: str, pairs: Alignment, after: int = -1) -> Alignment:
        """Returns an alignment of the model's words as one of `original` and `restore`."""
        for step in reversed(self.steps[after + 1 :]):
            pairs = step.align(source, output, pairs)
            source, output = step.original(source), step.restore(output)
        return pairs


@dataclasses.dataclass
class Part:
    """What a model translates at once: a line, or a sentence of it.

    Attributes:
      line: the line that it belongs to.
      source: its text as all stages have prepared it.
      ids: int32 [length], for the model: the words in front, the source and the end of sentence,
        cut to the longest allowed.
      first_word: number of its first word among those of `line.text`.
      words_in_front: number of words before the source, such as the language to write.
      own_front: how many of them are the line's own.
      prefix: int32 [prefix], how its outputs begin, without an end.
      number: in sampling, the draws depend on it.
      hypotheses: the results of the search, best first.
      rank: of the first hypothesis in the search; 0 = it was the best.
      notes: of the stages, by their names.
    """

    line: Line
    source: str
    ids: np.ndarray
    first_word: int = 0
    words_in_front: int = 0
    own_front: int = 0
    prefix: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int32))
    number: int = 0
    hypotheses: list[Hypothesis] = dataclasses.field(default_factory=list)
    rank: int = 0
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)

    def costs(self, num_hypotheses: int | None = None) -> list[tuple[float, ...]]:
        """Returns the costs of the first hypotheses, or of all, by each stage in turn."""
        source = self.source
        outputs = [hypothesis.text for hypothesis in self.hypotheses[:num_hypotheses]]
        by_stage: list[Sequence[float]] = []
        for step in reversed(self.line.steps):
            by_stage.append(step.costs(source, outputs))
            source, outputs = step.original(source), list(map(step.restore, outputs))
        return list(zip(*reversed(by_stage), strict=True)) if by_stage else [()] * len(outputs)

    def rerank(self, only_first: bool = False) -> None:
        """Puts the cheapest hypotheses first, or only the cheapest; of equals, the earlier."""
        costs = self.costs()
        order = sorted(range(len(costs)), key=costs.__getitem__)
        if only_first:
            order = [order[0], *(i for i in range(len(costs)) if i != order[0])]
        self.hypotheses, self.rank = [self.hypotheses[i] for i in order], order[0]

    def words_of_line(self, pairs: Alignment) -> list[tuple[int, int]]:
        """Returns an alignment of the words of `ids` as one of those of `line.text`."""
        front = self.words_in_front
        return [
            (self.first_word + word - front if word >= front else word, other)
            for word, other in pairs
            if word >= front or word < self.own_front
        ]

    def words_of_source(self, pairs: Alignment) -> list[tuple[int, int]]:
        """Returns an alignment of the words of `ids` as one of those of `source`."""
        front = self.words_in_front
        return [(word - front, other) for word, other in pairs if word >= front]


def prepare_line(line: str, stages: Iterable[LineStage]) -> Line:
    """Returns a line, in NFC, as all stages prepare it."""
    steps: list[Prepared] = []
    for stage in stages:
        steps.append(stage.prepare(steps[-1].text if steps else line))
    return Line(line, steps)


def encode_lines(
    lines: Sequence[Line],
    translator: "Searcher",
    prefixes: Sequence[str] = (),
    first_number: int = 0,
) -> None:
    """Gives prepared lines their parts, encoded, of at most `max_input_length` tokens each.

    With `split_long`, a longer line is split into its sentences, as those of its language end;
    what is still too long is cut. Each sentence gets the words in front of the line.

    Args:
      lines: prepared by the translator's stages.
      translator: has tokenizer, settings and problem.
      prefixes: how the output of each line begins, in the form of users; () = no prefixes.
      first_number: number of the first line.
    """
    tokenizer, config, problem = translator.tokenizer, translator.config, translator.problem
    longest, language = config.max_input_length, problem.languages()[0]
    texts = [problem.preprocess(line.text) for line in lines]
    filled = [number for number, line in enumerate(lines) if not is_blank(line.text)]
    encoded = encode_text([texts[number] for number in filled], tokenizer.source)
    for number, ids in zip(filled, encoded, strict=True):
        line, text = lines[number], texts[number]
        front = problem.words_in_front(text)
        rest, words_in_front = text.removeprefix(front), count_words(front) if front else 0
        sources, ids_of_parts, first_words = [rest], [ids], [0]
        if config.split_long and len(ids) > longest:
            sources = sentences(rest, language)
            ids_of_parts = tokenizer.source.encode([front + source for source in sources])
            first_words = _first_words(rest, sources)
        # The line may begin with the words in front, or the problem has added them.
        own_front = words_in_front if line.text.startswith(front) else 0
        line.parts = [
            Part(
                line,
                source,
                np.append(ids[:-1][: longest - 1], np.int32(EOS_ID)),
                own_front + first_word,
                words_in_front,
                own_front,
                number=(first_number + number + part * _PARTS) & _NUMBERS,
            )
            for part, (source, ids, first_word) in enumerate(
                zip(sources, ids_of_parts, first_words, strict=True)
            )
        ]
        line.cut = sum(max(len(ids) - longest, 0) for ids in ids_of_parts)
    if prefixes:
        hidden = [line.hide(prefix) for line, prefix in zip(lines, prefixes, strict=True)]
        for line, ids in zip(lines, encode_text(hidden, tokenizer), strict=True):
            if line.parts:  # A line's prefix belongs to its first part.
                first = line.parts[0]
                first.prefix = ids[:-1]
                # The output needs room for its end.
                most = config.longest_output(len(first.ids)) - 1
                line.prefix_cut = max(len(first.prefix) - most, 0)


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


def encode_text(lines: Sequence[str], tokenizer: Tokenizer) -> list[np.ndarray]:
    """`Tokenizer.encode` of lines in NFC, after `check_lines`."""
    check_lines(lines)
    return tokenizer.encode(list(map(normalized, lines)))


def encode_pairs(
    sources: Sequence[str], targets: Sequence[str], tokenizer: Tokenizer, problem: Problem
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Encodes the sides of pairs as a problem's model sees them, after `check_lines`."""
    check_lines(sources)
    check_one_each(sources, targets, "target")
    check_lines(targets)
    sides = (map(normalized, side) for side in (sources, targets))
    pairs = list(map(problem.prepare_pair, *sides))
    seen = [problem.preprocess(source) for source, _ in pairs]
    return tokenizer.source.encode(seen), tokenizer.encode([target for _, target in pairs])


def check_lengths(
    encoded: Sequence[Sequence[np.ndarray]], max_length: int, names: Sequence[str] = ()
) -> None:
    """Raises `UserError` if a side of a pair has more tokens; `names` are the pairs', for it."""
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
    check_several(lines)
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


def check_several(lines: Iterable[str]) -> None:
    """Raises `UserError` for a single string, whose characters would each be a line."""
    if isinstance(lines, str | bytes):
        raise UserError(
            f"Expected a list of lines, got one string: {lines[:50]!a}.", code="wrong_type"
        )


def check_one_each(lines: Sequence[str], others: Sequence, what: str) -> None:
    """Raises `UserError` if there is not one of the others for each line."""
    if len(lines) != len(others):
        raise UserError(
            f"Expected a {what} for each of {len(lines)} lines, got {len(others)}.",
            code="unequal_counts",
        )


class Searcher(Protocol):
    """What a stage may use of a `Translator` to mend hypotheses."""

    config: DecodeConfig
    engine: "Engine"
    tokenizer: Tokenizer
    problem: Problem
    stages: tuple[LineStage, ...]

    def search_parts(self, parts: Sequence[Part], num_stages: int) -> None:
        """Finds hypotheses of parts, mended by the first `num_stages` stages."""

    def align_parts(self, parts: Sequence[Part], outputs: Sequence[str]) -> list[Alignment]:
        """Returns pairs of words for an output of each part."""


class Draft:
    """A part with its hypotheses, in the form that a stage gives its text.

    Args:
      part: in the form of the model.
      stage: number of the stage.
      name: of the stage.

    Attributes:
      part: in the form of the model.
      prepared: what the stage has prepared of the line.
      source: the text.
    """

    def __init__(self, part: Part, stage: int, name: str):
        self.part, self._stage, self._name = part, stage, name
        self.prepared: Any = part.line.steps[stage]
        self.source = part.line.original(part.source, stage)

    def hide(self, output: str) -> str:
        """Returns an output in the form of the model."""
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
        """Replaces an output; its score stays."""
        before = self.part.hypotheses[rank]
        self.part.hypotheses[rank] = dataclasses.replace(before, text=self.hide(output))

    def take(self, other: "Draft") -> None:
        """Takes the hypotheses of another draft of this part, with their rank and notes."""
        self.part.hypotheses, self.part.rank = other.part.hypotheses, other.part.rank
        self.part.notes = dict(other.part.notes)

    def note(self, note: Any) -> None:
        """Sets the stage's note on the first output."""
        self.part.notes[self._name] = note

    def costs(self) -> tuple[float, ...]:
        """Returns the costs of the first output by the stages before."""
        return self.part.costs(1)[0][: self._stage]

    def continued(self, beginning: np.ndarray) -> "Draft":
        """Returns a draft of the same part without hypotheses, whose outputs begin with ids."""
        part = dataclasses.replace(self.part, prefix=beginning, hypotheses=[], rank=0, notes={})
        return Draft(part, self._stage, self._name)


class StageContext:
    """What one stage may use to mend drafts, many at a time: alignment, search and scores.

    Args:
      translator: searches, scores and aligns.
      stage: number of one of its stages.
    """

    def __init__(self, translator: "Searcher", stage: int):
        self._translator, self._stage = translator, stage

    def drafts(self, parts: Iterable[Part]) -> list[Draft]:
        """Returns parts in the stage's form."""
        name = self._translator.stages[self._stage].name
        return [Draft(part, self._stage, name) for part in parts]

    def prefix(self, draft: Draft) -> str:
        """Returns how each output of a draft must begin."""
        [text] = self._translator.tokenizer.decode([draft.part.prefix.tolist()])
        return draft.part.line.restore(text, self._stage)

    def align(self, drafts: Sequence[Draft], outputs: Sequence[str]) -> list[Alignment]:
        """Returns pairs of words (source, output) for an output of each draft."""
        parts, texts = [draft.part for draft in drafts], _hidden(drafts, outputs)
        alignments = self._translator.align_parts(parts, texts)
        return [
            part.line.align(part.source, text, part.words_of_source(pairs), self._stage)
            for part, text, pairs in zip(parts, texts, alignments, strict=True)
        ]

    def search(self, drafts: Sequence[Draft], beginnings: Sequence[str]) -> list[Draft]:
        """Returns new drafts with these beginnings of outputs, mended by the stages before."""
        continued = [
            draft.continued(ids[:-1])
            for draft, ids in zip(drafts, self._encoded(drafts, beginnings), strict=True)
        ]
        self._translator.search_parts([draft.part for draft in continued], self._stage)
        return continued

    def score(self, drafts: Sequence[Draft], outputs: Sequence[str]) -> list[Draft | None]:
        """Returns new drafts with one output each, scored as by a search; None = too long."""
        targets = self._encoded(drafts, outputs)
        longest = self._translator.config.longest_output
        fitting = [
            number
            for number, draft in enumerate(drafts)
            if len(targets[number]) <= longest(len(draft.part.ids))
        ]
        sources = [drafts[number].part.ids for number in fitting]
        scores = self._translator.engine.scores(sources, [targets[number] for number in fitting])
        scored: list[Draft | None] = [None] * len(drafts)
        for row, score in scores if fitting else ():
            draft, output = drafts[fitting[row]], outputs[fitting[row]]
            other = draft.continued(draft.part.prefix)
            other.part.hypotheses.append(Hypothesis(draft.hide(output), score))
            scored[fitting[row]] = other
        return scored

    def _encoded(self, drafts: Sequence[Draft], outputs: Sequence[str]) -> list[np.ndarray]:
        return encode_text(_hidden(drafts, outputs), self._translator.tokenizer)


def _hidden(drafts: Sequence[Draft], outputs: Sequence[str]) -> list[str]:
    return [draft.hide(output) for draft, output in zip(drafts, outputs, strict=True)]
