"""F1 of the trees that a model writes as symbols, by evalb's COLLINS parameters."""

import contextlib
import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from t2t_keras.errors import UserError
from t2t_keras.parsing.evalb import PARAMETERS, Score, compare, percent
from t2t_keras.parsing.symbols import rebuilt, symbols_of, words_of
from t2t_keras.parsing.tree import Tree, leaves, retagged, words
from t2t_keras.parsing.treebank import TreeError, cleaned, parsed
from t2t_keras.text.alignment import Alignment

_PUNCTUATION = PARAMETERS["COLLINS"].deleted
# The rows of F1 by length in words, each with its greatest length.
_ROWS = {"1-10": 10, "11-20": 20, "21-30": 30, "31-40": 40, "41 and more": math.inf}


@dataclasses.dataclass(frozen=True)
class ParsingScore:
    """How well parses match the references; `str()` gives a report."""

    brackets: Score  # Of all sentences.
    by_length: dict[str, Score]  # Of the sentences of so many words: "1-10", "11-20", ...
    repairs: Counter  # Number of repairs of each kind.
    repaired: int  # Number of outputs that were no trees over the words.
    right_tags: int  # Number of words with the reference's tag.
    punctuation: int  # Number of sentences in which other words are tagged as punctuation.

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
        rows = [f"{row} {each.f1:.2f} ({each.sentences:,})" for row, each in self.by_length.items()]
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
        if self.punctuation:
            report += (
                f"\nevalb itself would leave out {self.punctuation:,} of the sentences, in which "
                f"other words are tagged as punctuation"
            )
        return report


def score_parses(
    hypotheses: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str],
    known: Collection[str] = (),
    alignments: Sequence[Alignment | None] | None = None,
) -> ParsingScore:
    """Scores outputs after their repair.

    evalb leaves out a sentence in which other words than in the reference are tagged as
    punctuation. Here such a tag counts as wrong, and for the brackets the reference's tags count.
    Hypotheses are symbols divided by spaces, references the right trees as symbols or in brackets;
    for `known`, which references need not keep to, and `alignments` see `rebuilt`.
    """
    counts = [len(hypotheses), len(references), len(sources)]
    if len(set(counts)) > 1 or not hypotheses:
        raise UserError(
            f"Expected as many parses, references and sentences, at least one of each; got "
            f"{', '.join(map(str, counts))}.",
            code="unequal_counts",
        )
    by_length, repairs = dict.fromkeys(_ROWS, Score()), Counter()
    repaired = right_tags = punctuation = 0
    sentences = [words_of(source) for source in sources]
    for hypothesis, sentence, gold, alignment in zip(
        hypotheses,
        sentences,
        reference_trees(references, sentences),
        alignments or [None] * len(hypotheses),
        strict=True,
    ):
        tree, repairs_here = rebuilt(symbols_of(hypothesis), sentence, known, alignment)
        repairs += repairs_here
        repaired += bool(repairs_here)
        gold_tags, tags = ([leaf.label for leaf in leaves(each)] for each in (gold, tree))
        right_tags += sum(map(str.__eq__, gold_tags, tags))
        punctuation += any(
            (right in _PUNCTUATION) != (tag in _PUNCTUATION)
            for right, tag in zip(gold_tags, tags, strict=True)
        )
        score, error = compare([gold], [retagged(tree, gold_tags)], PARAMETERS["COLLINS"])
        assert not error, error
        by_length[next(row for row, longest in _ROWS.items() if len(tags) <= longest)] += score
    total = sum(by_length.values(), Score())
    by_length = {row: score for row, score in by_length.items() if score.sentences}
    return ParsingScore(total, by_length, repairs, repaired, right_tags, punctuation)


def reference_trees(
    references: Iterable[str], sentences: Iterable[Sequence[str]]
) -> Iterator[Tree]:
    """Yields the right tree of each line, below `TOP`; the line has it as symbols or in brackets.

    Raises `UserError` where that is no tree over the words of its sentence.
    """
    for number, (line, sentence) in enumerate(zip(references, sentences, strict=True), 1):
        tree, repairs = rebuilt(line.split(), sentence)
        if repairs:
            tree = None
            with contextlib.suppress(TreeError, ValueError):
                [only] = parsed(line, labelled=True)
                tree = cleaned(only)
        if tree is None or words(tree) != list(sentence):
            raise UserError(
                f"The reference in line {number} is no tree over the words of its sentence: "
                f"'{line[:60]}' for '{' '.join(sentence)[:60]}'. Give trees in brackets, or as "
                f"t2t-datagen writes them.",
                code="bad_tree",
            )
        yield tree
