"""Labelled bracketing F1, as the C program evalb computes it.

PYEVALB 0.1.3 is not a replacement: it neither deletes labels nor knows equivalent labels.
"""

import contextlib
import dataclasses
import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.parsing.trees import (
    EMPTY_ELEMENT,
    ROOT,
    Step,
    Tree,
    TreeError,
    cleaned,
    leaves,
    parsed,
    rebuilt,
    retagged,
    symbols_of,
    walk,
    words,
    words_of,
)
from t2t_keras.text.alignment import Alignment

# Sentences of up to this many words have a separate summary.
SHORT_SENTENCE_WORDS = 40
MAX_ERRORS = 10

_QUOTES = ("'", '"', "/")
_ZEROS: Counter = Counter()


class Parameters(NamedTuple):
    """One of evalb's parameter files."""

    deleted: frozenset[str]  # Labels and tags of constituents and words that do not count.
    quotes: frozenset[str] = frozenset()  # Tags of quotation marks that may be misread.


_COLLINS = frozenset([ROOT, EMPTY_ELEMENT, ",", ":", "``", "''", "."])
PARAMETERS = {
    "COLLINS": Parameters(_COLLINS),
    "new": Parameters(
        _COLLINS | {"S1", "?", "!"}, frozenset(["``", "''", "POS", "NN", "CD", "VBZ", ":"])
    ),
}


class _Quote(NamedTuple):
    """A quotation mark that may have been misread."""

    leaf: int  # Its number among the leaves of the sentence.
    position: int  # Number of counted words before it.
    deleted: bool  # Whether it does not count as a word.


class _Parse:
    """The scored parts of a sentence's trees; `restored` = how often each deleted leaf counts."""

    def __init__(self, trees: Sequence[Tree], parameters: Parameters, restored: Counter = _ZEROS):
        self.length = 0  # Number of words, with deleted ones, without empty elements.
        self.words: list[str] = []  # The counted words.
        # (label, first word, word after the last) of the counted constituents.
        self.brackets: list[tuple[str, int, int]] = []
        self.quotes: list[_Quote] = []  # The quotation marks that may have been misread.
        starts, leaf_numbers = [], itertools.count()
        for step, node in itertools.chain.from_iterable(map(walk, trees)):
            deleted = node.label in parameters.deleted
            if step is Step.OPEN:
                starts.append(len(self.words))
            elif step is Step.CLOSE:
                start, end = starts.pop(), len(self.words)
                label = node.label.partition("-")[0].partition("=")[0]
                if start < end and label not in parameters.deleted:
                    # Adverb phrases and particles are equivalent.
                    self.brackets.append(("ADVP" if label == "PRT" else label, start, end))
            else:
                leaf = next(leaf_numbers)
                self.length += node.label != EMPTY_ELEMENT
                if node.label in parameters.quotes and node.word in _QUOTES:
                    self.quotes.append(_Quote(leaf, len(self.words), deleted))
                self.words += [node.word] * (restored[leaf] if deleted else 1)


def _misread_quotes(gold: _Parse, test: _Parse) -> tuple[Counter, Counter]:
    """Returns how often to restore deleted quotation marks, in the gold and in the test parse.

    A mark is restored if it is a counted word in the other parse. evalb compares each mark of the
    test parse with each mark of the gold parse. A restored mark moves itself and the marks after it
    by one position, so that evalb may restore it twice; the sentence is then an error. Positions
    only rise, so one pass finds the same marks.
    """
    in_gold, in_test = Counter[int](), Counter[int]()
    counted = {quote.position: i for i, quote in enumerate(gold.quotes) if not quote.deleted}
    next_gold = moved_gold = moved_test = 0
    for quote in test.quotes:
        position = quote.position + moved_test - moved_gold  # Among the gold words.
        while next_gold < len(gold.quotes) and gold.quotes[next_gold].position < position:
            next_gold += 1
        if quote.deleted:
            if counted.get(position, -1) >= next_gold:
                in_test[quote.leaf] += 1
                moved_test += 1
        elif next_gold < len(gold.quotes) and gold.quotes[next_gold][1:] == (position, True):
            in_gold[gold.quotes[next_gold].leaf] += 1
            moved_gold += 1
    return in_gold, in_test


@dataclasses.dataclass(frozen=True)
class Score:
    """The score of one parse, or the sums over several, against gold trees."""

    words: int = 0  # Words of the gold trees, including punctuation.
    sentences: int = 0
    errors: int = 0  # Sentences whose words differ, which no other sum includes.
    skipped: int = 0  # Sentences without counted words, which no other sum includes.
    matched: int = 0  # Brackets in both trees.
    gold: int = 0  # Brackets of the gold trees.
    test: int = 0  # Brackets of the parses.
    complete: int = 0  # Sentences in which every bracket matches.

    def __add__(self, other: "Score") -> "Score":
        return Score(*map(operator.add, dataclasses.astuple(self), dataclasses.astuple(other)))

    @property
    def valid(self) -> int:
        """Number of scored sentences."""
        return self.sentences - self.errors - self.skipped

    @property
    def recall(self) -> float:
        """Share of the gold brackets that match, in percent."""
        return percent(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """Share of the parses' brackets that match, in percent."""
        return percent(self.matched, self.test)

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision, in percent; 0 if nothing matches."""
        return percent(2 * self.matched, self.gold + self.test)


def percent(part: int, whole: int) -> float:
    """Returns a share in percent; 0 if `whole` is 0."""
    return 100.0 * part / whole if whole else 0.0


def compare(
    gold: Sequence[Tree], test: Sequence[Tree], parameters: Parameters
) -> tuple[Score, str]:
    """Returns the score of a sentence's parse, and the error if the words differ, else ""."""
    gold_parse, test_parse = _Parse(gold, parameters), _Parse(test, parameters)
    score = Score(gold_parse.length, sentences=1)
    if not test_parse.words:
        return dataclasses.replace(score, skipped=1), ""
    if len(gold_parse.words) != len(test_parse.words):
        in_gold, in_test = _misread_quotes(gold_parse, test_parse)
        gold_parse, test_parse = (
            _Parse(gold, parameters, in_gold),
            _Parse(test, parameters, in_test),
        )
    if gold_parse.words != test_parse.words:
        error = f"Length unmatch ({len(gold_parse.words)}|{len(test_parse.words)})"
        if len(gold_parse.words) == len(test_parse.words):
            pairs = zip(gold_parse.words, test_parse.words, strict=True)
            error = "Words unmatch ({}|{})".format(*next(p for p in pairs if len(set(p)) > 1))
        return dataclasses.replace(score, errors=1), error
    in_both = (Counter(gold_parse.brackets) & Counter(test_parse.brackets)).total()
    brackets = in_both, len(gold_parse.brackets), len(test_parse.brackets)
    return Score(gold_parse.length, 1, 0, 0, *brackets, complete=len(set(brackets)) == 1), ""


def evalb(
    gold: Iterable[str],
    test: Iterable[str],
    parameters: Parameters,
    on_error: Callable[[str], object],
    max_errors: int = MAX_ERRORS,
) -> Iterator[str]:
    """Yields a line of scores for each sentence, and summaries; the files have a tree per line.

    Calls `on_error` with "number : error" for each sentence that cannot be scored. Raises
    `UserError` at the second error beyond `max_errors`.
    """
    total, short_total, errors = Score(), Score(), 0
    yield "  ID  Len. Stat. Recall  Prec. Matched Gold Test     F1"
    for number, lines in enumerate(itertools.zip_longest(gold, test), 1):
        score, error = _score_lines(*lines, parameters)
        if error:
            errors += 1
            on_error(f"{number} : {error}")
        # + 1, as the C program checks the limit before it counts an error.
        if errors > max_errors + 1:
            raise UserError(
                f"{errors} sentences cannot be scored, but --max_errors={max_errors} allows only "
                f"{max_errors + 1}. Give parses of the sentences of the gold trees.",
                code="too_many_errors",
            )
        if score is None:
            break
        total += score
        if score.words <= SHORT_SENTENCE_WORDS:
            short_total += score
        yield (
            f"{number:4d} {score.words:5d} {score.errors + 2 * score.skipped:5d} "
            f"{score.recall:6.2f} {score.precision:6.2f} {score.matched:7d} {score.gold:4d} "
            f"{score.test:4d} {score.f1:6.2f}"
        )
    yield from (*_summary("All", total), *_summary(f"len<={SHORT_SENTENCE_WORDS}", short_total))


def _score_lines(
    gold: str | None, test: str | None, parameters: Parameters
) -> tuple[Score | None, str]:
    """Returns the score of two lines, None after the end of a file, and an error or ""."""
    if gold is None or test is None:
        longer = "gold" if test is None else "test"
        return None, f"Number of lines unmatch (too many lines in {longer} file)"
    try:
        gold_trees = parsed(gold)
    except TreeError as error:
        return Score(0, 1, errors=1), f"The gold line is not a tree: {error}"
    try:
        return compare(gold_trees, parsed(test), parameters)
    except TreeError as error:
        num_words = _Parse(gold_trees, parameters).length
        return Score(num_words, 1, errors=1), f"The test line is not a tree: {error}"


def _summary(title: str, score: Score) -> list[str]:
    return [
        "",
        f"-- {title} --",
        f"Number of sentence        = {score.sentences:6d}",
        f"Number of Error sentence  = {score.errors:6d}",
        f"Number of Skip  sentence  = {score.skipped:6d}",
        f"Number of Valid sentence  = {score.valid:6d}",
        f"Bracketing Recall         = {score.recall:6.2f}",
        f"Bracketing Precision      = {score.precision:6.2f}",
        f"Bracketing FMeasure       = {score.f1:6.2f}",
        f"Complete match            = {percent(score.complete, score.valid):6.2f}",
    ]


_PUNCTUATION = PARAMETERS["COLLINS"].deleted
# Rows of F1 by sentence length, and the maximum number of words in each.
_MAX_WORDS_BY_ROW = {"1-10": 10, "11-20": 20, "21-30": 30, "31-40": 40, "41 and more": math.inf}


@dataclasses.dataclass(frozen=True)
class ParsingScore:
    """The scores of parses against references; `str()` returns a report."""

    brackets: Score  # The score of all sentences.
    # Scores by the number of words in the sentence: "1-10", "11-20", ...
    by_length: dict[str, Score]
    repairs: Counter  # Number of repairs of each kind.
    repaired: int  # Number of outputs that were not trees over the words.
    right_tags: int  # Number of words with the reference's tag.
    # Number of sentences whose parse and reference tag different words as punctuation.
    punctuation_errors: int

    @property
    def f1(self) -> float:
        """Labelled bracketing F1, 0 .. 100."""
        return self.brackets.f1

    @property
    def main(self) -> tuple[str, float]:
        """Name and value of the score to follow while training."""
        return "f1", self.f1

    def __str__(self) -> str:
        total, count = self.brackets, self.brackets.sentences
        rows = [
            f"{row} {score.f1:.2f} ({score.sentences:,})" for row, score in self.by_length.items()
        ]
        report = (
            f"F1 = {total.f1:.2f} (recall {total.recall:.2f}, precision {total.precision:.2f}; "
            f"evalb's COLLINS, punctuation as in the references, {count:,} sentences)\n"
            f"complete match {percent(total.complete, total.valid):.2f}, "
            f"tags {percent(self.right_tags, total.words):.2f}\n"
            f"F1 by words: {', '.join(rows)}\n"
            f"repaired: {percent(self.repaired, count):.2f}% "
            f"({self.repaired:,} of {count:,} outputs)"
        )
        if self.repairs:
            kinds = self.repairs.most_common()
            report += ": " + "; ".join(f"{number:,} {kind}" for kind, number in kinds)
        if self.punctuation_errors:
            report += (
                f"\nevalb itself would leave out {self.punctuation_errors:,} sentences: parse and "
                f"reference tag different words as punctuation"
            )
        return report


def score_parses(
    hypotheses: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str],
    known_symbols: Collection[str] = (),
    alignments: Sequence[Alignment | None] | None = None,
) -> ParsingScore:
    """Repairs outputs and scores them.

    evalb skips a sentence whose parse and reference tag different words as punctuation. Here such a
    tag counts as wrong, and the reference's tags decide which brackets count. Hypotheses are
    symbols separated by spaces; references are trees as symbols or in brackets. For `alignments`
    and `known_symbols` see `rebuilt`; `known_symbols` does not apply to references.
    """
    counts = [len(hypotheses), len(references), len(sources)]
    if len(set(counts)) > 1 or not hypotheses:
        raise UserError(
            f"Expected equal numbers of parses, references and sentences, at least one each; got "
            f"{', '.join(map(str, counts))}.",
            code="unequal_counts",
        )
    by_length, repairs = dict.fromkeys(_MAX_WORDS_BY_ROW, Score()), Counter[str]()
    repaired = right_tags = punctuation_errors = 0
    sentences = [words_of(source) for source in sources]
    for hypothesis, sentence, gold, alignment in zip(
        hypotheses,
        sentences,
        reference_trees(references, sentences),
        alignments or [None] * len(hypotheses),
        strict=True,
    ):
        tree, output_repairs = rebuilt(symbols_of(hypothesis), sentence, known_symbols, alignment)
        repairs += output_repairs
        repaired += bool(output_repairs)
        gold_tags, tags = ([leaf.label for leaf in leaves(parse)] for parse in (gold, tree))
        right_tags += sum(map(str.__eq__, gold_tags, tags))
        punctuation_errors += any(
            (gold_tag in _PUNCTUATION) != (tag in _PUNCTUATION)
            for gold_tag, tag in zip(gold_tags, tags, strict=True)
        )
        score, error = compare([gold], [retagged(tree, gold_tags)], PARAMETERS["COLLINS"])
        assert not error, error
        row = next(row for row, limit in _MAX_WORDS_BY_ROW.items() if len(tags) <= limit)
        by_length[row] += score
    total = sum(by_length.values(), Score())
    by_length = {row: score for row, score in by_length.items() if score.sentences}
    return ParsingScore(total, by_length, repairs, repaired, right_tags, punctuation_errors)


def reference_trees(
    references: Iterable[str], sentences: Iterable[Sequence[str]]
) -> Iterator[Tree]:
    """Yields the tree of each line, given as symbols or in brackets; its root is `TOP`.

    Raises `UserError` if a line is not a tree over the words of its sentence.
    """
    for number, (line, sentence) in enumerate(zip(references, sentences, strict=True), 1):
        tree: Tree | None
        tree, repairs = rebuilt(line.split(), sentence)
        if repairs:
            tree = None
            with contextlib.suppress(TreeError, ValueError):
                [labelled_tree] = parsed(line, labelled=True)
                tree = cleaned(labelled_tree)
        if tree is None or words(tree) != list(sentence):
            raise UserError(
                f"The reference in line {number} is not a tree over the words of its sentence: "
                f"'{line[:60]}' for '{' '.join(sentence)[:60]}'. Give trees in brackets, or the "
                f"symbols that t2t-datagen writes.",
                code="bad_tree",
            )
        yield tree
