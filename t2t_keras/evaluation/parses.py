"""F1 of the trees that a model writes as symbols, by evalb's COLLINS parameters."""

import collections
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence

from t2t_keras.data.problem import Alignment
from t2t_keras.errors import UserError
from t2t_keras.evaluation.evalb import PARAMETERS, Totals, compare
from t2t_keras.trees.symbols import rebuilt, symbols_of, words_of
from t2t_keras.trees.tree import Step, Tree, TreeBuilder, leaves, walk, words
from t2t_keras.trees.treebank import TreeError, cleaned, parsed

_COLLINS = PARAMETERS["COLLINS"]
# Longest sentences of each row of F1 by length, in words.
_LENGTHS = (10, 20, 30, 40)


@dataclasses.dataclass(frozen=True)
class ParsingScore:
    """How well parses match the references; 0 .. 100 where it is not a count.

    Attributes:
      f1: labelled bracketing F1.
      recall: labelled bracketing recall.
      precision: labelled bracketing precision.
      f1_by_length: F1 of the sentences of so many words, with their number, by "1-10", "11-20", ...
      repaired: share of the outputs that were no trees over the words and had to be repaired.
      repairs: how many there were of each kind.
      report: all of this in lines; also `str()`.
    """

    f1: float
    recall: float
    precision: float
    f1_by_length: dict[str, tuple[float, int]]
    repaired: float
    repairs: dict[str, int]
    report: str

    def __str__(self) -> str:
        return self.report

    @property
    def main(self) -> tuple[str, float]:
        """Name and value of what is followed while training."""
        return "f1", self.f1


def score_parses(
    hypotheses: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str],
    known: Collection[str] = (),
    alignments: Sequence[Alignment | None] | None = None,
) -> ParsingScore:
    """Scores outputs after their repair.

    evalb leaves a sentence out when a tag says of another word than in the reference that it is
    punctuation. Here no sentence is left out: such a tag counts as wrong, and for the brackets as
    if it were the reference's.

    Args:
      hypotheses: what the model wrote: symbols, divided by spaces.
      references: line N is the right tree of hypothesis N, as symbols or in brackets.
      sources: line N has its words.
      known: the symbols that hypotheses can hold; see `rebuilt`. References may hold others.
      alignments: which word each tag of a hypothesis is of; see `rebuilt`. None: there are none.

    Raises:
      UserError: no lines, different numbers of them, or a reference that is no tree over the words
        of its source (it is named).
    """
    alignments = alignments or [None] * len(hypotheses)
    counts = [len(hypotheses), len(references), len(sources)]
    if len(set(counts)) > 1:
        raise UserError(
            f"{counts[0]} parses, {counts[1]} references and {counts[2]} sentences came: line N of "
            f"one must belong to line N of the others."
        )
    if not hypotheses:
        raise UserError("There are no lines to score.")
    tally = _Tally()
    sentences = [words_of(source) for source in sources]
    right = reference_trees(references, sentences)
    for hypothesis, sentence, gold, alignment in zip(
        hypotheses, sentences, right, alignments, strict=True
    ):
        tally.add(gold, *rebuilt(symbols_of(hypothesis), sentence, known, alignment))
    return tally.score()


def reference_trees(
    references: Iterable[str], sentences: Iterable[Sequence[str]]
) -> Iterator[Tree]:
    """Yields the right tree of each line, below `TOP`.

    Args:
      references: trees, as symbols or in brackets.
      sentences: the words of each.

    Raises:
      UserError: a reference is no tree over the words of its sentence (it is named).
    """
    for number, (line, sentence) in enumerate(zip(references, sentences, strict=True), 1):
        yield _reference(line, sentence, number)


def _reference(line: str, sentence: Sequence[str], number: int) -> Tree:
    tree, repairs = rebuilt(line.split(), sentence)
    if not repairs.total():
        return tree
    try:
        trees = [cleaned(tree) for tree in parsed(line, labelled=True)]
    except TreeError:
        trees = []
    if len(trees) != 1 or trees[0] is None or words(trees[0]) != list(sentence):
        raise UserError(
            f"The reference in line {number} is no tree over the words of its sentence: "
            f"'{line[:60]}' for '{' '.join(sentence)[:60]}'. Give trees in brackets, or as "
            f"t2t-datagen writes them."
        )
    return trees[0]


class _Tally:
    """Sums over sentences."""

    def __init__(self):
        self._all = Totals()
        self._by_length = {longest: Totals() for longest in (*_LENGTHS, None)}
        self._repairs: collections.Counter = collections.Counter()
        self._repaired = self._right_tags = self._tags = self._punctuation = 0

    def add(self, gold: Tree, test: Tree, repairs: collections.Counter) -> None:
        """Adds a sentence."""
        self._repairs.update(repairs)
        self._repaired += repairs.total() > 0
        gold_tags, test_tags = ([leaf.label for leaf in leaves(tree)] for tree in (gold, test))
        self._tags += len(gold_tags)
        self._right_tags += sum(map(str.__eq__, gold_tags, test_tags))
        tags = [
            right if (right in _COLLINS.deleted) != (found in _COLLINS.deleted) else found
            for right, found in zip(gold_tags, test_tags, strict=True)
        ]
        self._punctuation += tags != test_tags
        score, error = compare([gold], [_retagged(test, tags)], _COLLINS)
        assert not error, error
        self._all.add(score)
        longest = next((each for each in _LENGTHS if len(gold_tags) <= each), None)
        self._by_length[longest].add(score)

    def score(self) -> ParsingScore:
        """Returns the scores, with a report."""
        everything, outputs = self._all, self._all.sentences
        by_length, shortest = {}, 1
        for longest, totals in self._by_length.items():
            name = f"{shortest}-{longest}" if longest else f"{shortest} and more"
            shortest = longest + 1 if longest else 0
            if totals.sentences:
                by_length[name] = (_f1(totals), totals.sentences)
        repairs = dict(self._repairs.most_common())
        kinds = "; ".join(f"{count:,} {kind}" for kind, count in repairs.items() if count)
        lengths = ", ".join(f"{name} {f1:.2f} ({n:,})" for name, (f1, n) in by_length.items())
        repaired = 100.0 * self._repaired / outputs
        complete = 100.0 * everything.complete / max(everything.valid, 1)
        accuracy = 100.0 * self._right_tags / max(self._tags, 1)
        shares = f"recall {everything.recall:.2f}, precision {everything.precision:.2f}"
        how = "evalb's COLLINS, punctuation as in the references"
        lines = [
            f"F1 = {_f1(everything):.2f} ({shares}; {how}, {outputs:,} sentences)",
            f"complete match {complete:.2f}, tags {accuracy:.2f}",
            f"F1 by words: {lengths}",
            f"repaired: {repaired:.2f}% ({self._repaired:,} of {outputs:,} outputs)"
            + (f": {kinds}" if kinds else ""),
        ]
        if self._punctuation:
            lines.append(
                f"{self._punctuation:,} of the sentences evalb itself would leave out, for tags "
                f"that make punctuation of a word or a word of punctuation"
            )
        return ParsingScore(
            f1=_f1(everything),
            recall=everything.recall,
            precision=everything.precision,
            f1_by_length=by_length,
            repaired=repaired,
            repairs=repairs,
            report="\n".join(lines),
        )


def _f1(totals: Totals) -> float:
    """Returns F1, 0 where nothing matches."""
    return totals.f1 if totals.sums["matched"] else 0.0


def _retagged(tree: Tree, tags: Iterable[str]) -> Tree:
    """Returns a tree with other tags on its words."""
    builder, left = TreeBuilder(), iter(tags)
    for step, node in walk(tree):
        if step is Step.OPEN:
            builder.open(node.label)
        elif step is Step.CLOSE:
            builder.close()
        else:
            builder.add(Tree(next(left), (), node.word))
    return builder.roots[0]
