"""Quotation marks that one tree counts as words and the other does not, as `evalb` mends them.

Under its `new` parameters a quotation mark may be tagged as punctuation, which does not count, in
one tree, and as a possessive or a noun in the other. Both trees then have different numbers of
words; evalb puts the mark back where it was left out.
"""

from typing import NamedTuple

from t2t_keras.trees.tree import Tree


class Quote(NamedTuple):
    """A quotation mark that may have been misread.

    Attributes:
      leaf: the word with its tag.
      position: how many words that count stand before it.
      brackets_before: how many brackets begin before it.
      inside: which brackets it stands in.
      deleted: whether it does not count as a word.
    """

    leaf: Tree
    position: int
    brackets_before: int
    inside: tuple[int, ...]
    deleted: bool


def insert_misread_quotes(gold, test) -> None:
    """Puts the quotation marks back that only one of two trees counts, in place.

    Args:
      gold: an `evalb.Parse`.
      test: another one.
    """
    for number in range(len(test.quotes)):
        # As at the start of this turn, though the mark may be moved during it: so it is in evalb.
        position = test.quotes[number].position
        for other in range(len(gold.quotes)):
            right, found = gold.quotes[other], test.quotes[number]
            if right.position != position or right.deleted == found.deleted:
                continue
            if right.deleted:
                _insert(gold, other)
            else:
                _insert(test, number)


def _insert(parse, number: int) -> None:
    quote = parse.quotes[number]
    parse.words.insert(quote.position, quote.leaf.word)
    parse.tags.insert(quote.position, quote.leaf.label)
    for bracket in parse.brackets[quote.brackets_before :]:
        bracket[1] += 1
        bracket[2] += 1
    for index in quote.inside:
        parse.brackets[index][2] += 1
    for later in range(number, len(parse.quotes)):
        moved = parse.quotes[later]
        parse.quotes[later] = moved._replace(position=moved.position + 1)
