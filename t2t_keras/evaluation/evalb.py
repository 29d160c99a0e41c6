"""Labelled bracketing scores of parses, as the C program `evalb` computes and prints them.

Sekine and Collins (1997) wrote it; parsers have been compared by it ever since. PYEVALB 0.1.3 is
no replacement: it deletes no labels, knows no equal ones, and prints other tables.
"""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from t2t_keras.errors import UserError
from t2t_keras.evaluation.misread_quotes import Quote, insert_misread_quotes
from t2t_keras.trees.tree import Step, Tree, walk
from t2t_keras.trees.treebank import TreeError, parsed

# Sentences of at most so many words have a summary of their own.
SHORT = 40
MAX_ERRORS = 10

_RULE = "=" * 76
_HEAD = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag",
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy",
    _RULE,
)
_NOT_A_WORD = "-NONE-"
_QUOTES = ("'", '"', "/")


@dataclasses.dataclass(frozen=True)
class Parameters:
    """What one of evalb's parameter files says.

    Attributes:
      deleted: labels that do not count: constituents of this label, and words of this tag.
      quotes: tags under which a quotation mark may have been misread.
    """

    deleted: frozenset[str]
    quotes: frozenset[str] = frozenset()


_COLLINS = frozenset(["TOP", _NOT_A_WORD, ",", ":", "``", "''", "."])
PARAMETERS = {
    "COLLINS": Parameters(_COLLINS),
    "new": Parameters(
        _COLLINS | {"S1", "?", "!"}, frozenset(["``", "''", "POS", "NN", "CD", "VBZ", ":"])
    ),
}


@dataclasses.dataclass
class Parse:
    """A sentence's tree as it is scored.

    Attributes:
      length: words, those included that do not count, but no empty elements.
      words: those that count.
      tags: theirs.
      brackets: [label, first word, word after the last] of every constituent, as they begin.
      quotes: the quotation marks that may have been misread.
    """

    length: int
    words: list[str]
    tags: list[str]
    brackets: list[list]
    quotes: list[Quote]


@dataclasses.dataclass(frozen=True)
class SentenceScore:
    """How well a sentence's parse matches the gold tree.

    Attributes:
      length: words of the gold tree, punctuation included.
      status: 0 is valid; 1 is an error, and 2 left out because no word counts: neither is in any
        sum.
      matched: brackets that are in both.
      gold: brackets of the gold tree.
      test: brackets of the parse.
      crossing: brackets of the parse that cross one of the gold tree.
      words: words that count.
      tags: words of the same tag in both.
    """

    length: int
    status: int = 0
    matched: int = 0
    gold: int = 0
    test: int = 0
    crossing: int = 0
    words: int = 0
    tags: int = 0


def parse_of(trees: Sequence[Tree], parameters: Parameters) -> Parse:
    """Returns the trees of a sentence as they are scored."""
    parse = Parse(0, [], [], [], [])
    opened: list[int] = []
    for step, node in itertools.chain.from_iterable(map(walk, trees)):
        if step is Step.OPEN:
            opened.append(len(parse.brackets))
            parse.brackets.append([node.label, len(parse.words), -1])
        elif step is Step.CLOSE:
            parse.brackets[opened.pop()][2] = len(parse.words)
        else:
            parse.length += node.label != _NOT_A_WORD
            if node.label in parameters.quotes and node.word in _QUOTES:
                quote = Quote(
                    node, len(parse.words), len(parse.brackets), tuple(opened),
                    node.label in parameters.deleted,
                )  # fmt: skip
                parse.quotes.append(quote)
            if node.label not in parameters.deleted:
                parse.words.append(node.word)
                parse.tags.append(node.label)
    return parse


def compare(
    gold: Sequence[Tree], test: Sequence[Tree], parameters: Parameters
) -> tuple[SentenceScore, str]:
    """Scores a sentence.

    Args:
      gold: its tree; a line may hold several.
      test: its parse.
      parameters: what counts.

    Returns:
      The score, and what is wrong where the words are not the same; else "".
    """
    right, found = (parse_of(trees, parameters) for trees in (gold, test))
    if not found.words:
        return SentenceScore(right.length, status=2), ""
    if len(right.words) != len(found.words):
        insert_misread_quotes(right, found)
    if len(right.words) != len(found.words):
        error = f"Length unmatch ({len(right.words)}|{len(found.words)})"
        return SentenceScore(right.length, status=1), error
    for pair in zip(right.words, found.words, strict=True):
        if pair[0] != pair[1]:
            error = f"Words unmatch ({pair[0]}|{pair[1]})"
            return SentenceScore(right.length, status=1), error
    in_gold, in_test = (_counted(parse.brackets, parameters) for parse in (right, found))
    score = SentenceScore(
        length=right.length,
        matched=(collections.Counter(in_gold) & collections.Counter(in_test)).total(),
        gold=len(in_gold),
        test=len(in_test),
        crossing=_crossing(in_gold, in_test),
        words=len(right.words),
        tags=sum(map(_same, right.tags, found.tags)),
    )
    return score, ""


def _same(one: str, other: str) -> bool:
    return _equivalent(one) == _equivalent(other)


def _equivalent(label: str) -> str:
    """Returns one name for labels that count as the same."""
    return "ADVP" if label == "PRT" else label


def _counted(brackets: Iterable[Sequence], parameters: Parameters) -> list[tuple[str, int, int]]:
    """Returns the brackets that count, without functions in their labels."""
    counted = []
    for label, start, end in brackets:
        category = label.partition("-")[0].partition("=")[0]
        if start < end and category not in parameters.deleted:
            counted.append((_equivalent(category), start, end))
    return counted


def _crossing(gold: Iterable[tuple], test: Iterable[tuple]) -> int:
    spans = {bracket[1:] for bracket in gold}
    # Nothing in a tree crosses one of its own spans.
    return sum(
        (start, end) not in spans
        and any(a < start < b < end or start < a < end < b for a, b in spans)
        for _, start, end in test
    )


@dataclasses.dataclass
class Totals:
    """Sums over the valid sentences, and what evalb computes of them; in percent where it is one.

    Attributes:
      sentences: all of them.
      errors: those that are not scored.
      skipped: those without a word that counts.
      sums: of the fields of `SentenceScore`.
      complete: sentences in which every bracket matches.
      uncrossed: sentences without crossing brackets.
      hardly_crossed: sentences with 2 or less.
    """

    sentences: int = 0
    errors: int = 0
    skipped: int = 0
    sums: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    complete: int = 0
    uncrossed: int = 0
    hardly_crossed: int = 0

    def add(self, score: SentenceScore) -> None:
        """Adds a sentence."""
        self.sentences += 1
        self.errors += score.status == 1
        self.skipped += score.status == 2
        if score.status == 0:
            self.sums.update(dataclasses.asdict(score))
            self.complete += score.matched == score.gold == score.test
            self.uncrossed += score.crossing == 0
            self.hardly_crossed += score.crossing <= 2

    @property
    def valid(self) -> int:
        """Sentences that are scored."""
        return self.sentences - self.errors - self.skipped

    @property
    def recall(self) -> float:
        """Share of the gold brackets that match."""
        return _percent(self.sums["matched"], self.sums["gold"])

    @property
    def precision(self) -> float:
        """Share of the parses' brackets that match."""
        return _percent(self.sums["matched"], self.sums["test"])

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision; NaN where both are 0, as in evalb."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else float("nan")

    def summary(self, title: str) -> list[str]:
        """Returns the lines of a summary."""
        # The C program's sign of a number that is none.
        f1 = f"{self.f1:6.2f}" if self.f1 == self.f1 else f"{'-nan':>6}"
        valid = self.valid
        return [
            "",
            f"-- {title} --",
            f"Number of sentence        = {self.sentences:6d}",
            f"Number of Error sentence  = {self.errors:6d}",
            f"Number of Skip  sentence  = {self.skipped:6d}",
            f"Number of Valid sentence  = {valid:6d}",
            f"Bracketing Recall         = {self.recall:6.2f}",
            f"Bracketing Precision      = {self.precision:6.2f}",
            f"Bracketing FMeasure       = {f1}",
            f"Complete match            = {_percent(self.complete, valid):6.2f}",
            f"Average crossing          = {self.sums['crossing'] / max(valid, 1):6.2f}",
            f"No crossing               = {_percent(self.uncrossed, valid):6.2f}",
            f"2 or less crossing        = {_percent(self.hardly_crossed, valid):6.2f}",
            f"Tagging accuracy          = {_percent(self.sums['tags'], self.sums['words']):6.2f}",
        ]

    def row(self) -> str:
        """Returns the line of sums below the table."""
        sums = self.sums
        brackets = (
            f"                {self.recall:6.2f} {self.precision:6.2f} {sums['matched']:6d} "
            f"{sums['gold']:5d} {sums['test']:5d}  {sums['crossing']:5d}"
        )
        accuracy = _percent(sums["tags"], sums["words"])
        tags = f"  {sums['words']:5d} {sums['tags']:5d}   {accuracy:6.2f}"
        return brackets + tags if sums["gold"] and sums["test"] else tags


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def _row(number: int, score: SentenceScore) -> str:
    recall, precision = (_percent(score.matched, each) for each in (score.gold, score.test))
    return (
        f"{number:4d}  {score.length:3d}    {score.status:d}  {recall:6.2f} {precision:6.2f}   "
        f"{score.matched:3d}    {score.gold:3d}  {score.test:3d}    {score.crossing:3d}   "
        f"{score.words:4d}  {score.tags:4d}   {_percent(score.tags, score.words):6.2f}"
    )


def evalb(
    gold: Iterable[str],
    test: Iterable[str],
    parameters: Parameters,
    on_error: Callable[[str], object],
    max_errors: int = MAX_ERRORS,
) -> Iterator[str]:
    """Yields evalb's table and summaries, line by line.

    Args:
      gold: a tree a line.
      test: line N is the parse of the same sentence.
      parameters: what counts.
      on_error: is told of each sentence that cannot be scored: "number : what is wrong".
      max_errors: evalb gives up when one error more than these has been forgiven.

    Raises:
      UserError: there are more errors.
    """
    everything, short = Totals(), Totals()
    errors = 0

    def tell(number: int, error: str) -> None:
        nonlocal errors
        errors += 1
        on_error(f"{number} : {error}")
        # The C program looks before it counts.
        if errors > max_errors + 1:
            raise UserError(
                f"{errors} sentences cannot be scored, more than max_errors={max_errors} and one. "
                f"Are these parses of the same sentences? --max_errors allows more."
            )

    yield from _HEAD
    number = 0
    for number, (gold_line, test_line) in enumerate(itertools.zip_longest(gold, test), 1):
        if gold_line is None or test_line is None:
            longer = "gold" if test_line is None else "test"
            tell(number, f"Number of lines unmatch (too many lines in {longer} file)")
            break
        score, error = _scored(gold_line, test_line, parameters)
        if error:
            tell(number, error)
        everything.add(score)
        if score.length <= SHORT:
            short.add(score)
        yield _row(number, score)
    yield _RULE
    yield everything.row()
    yield "=== Summary ==="
    yield from everything.summary("All")
    yield from short.summary(f"len<={SHORT}")


def _scored(gold: str, test: str, parameters: Parameters) -> tuple[SentenceScore, str]:
    """Scores two lines; one that is no tree is an error of its sentence."""
    length = 0
    for name, line in (("gold", gold), ("test", test)):
        try:
            trees = parsed(line)
        except TreeError as error:
            return SentenceScore(length, status=1), f"The {name} line is no tree: {error}"
        if name == "gold":
            gold_trees, length = trees, parse_of(trees, parameters).length
    return compare(gold_trees, trees, parameters)
