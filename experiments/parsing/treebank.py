"""Counts in a treebank what constrained parsing relies on.

python experiments/parsing/treebank.py craft/train.trees craft/dev.trees
"""

import itertools
import sys
from pathlib import Path

from t2t_keras.lab.whole_trees import tag_dictionary, trees_in
from t2t_keras.parsing.trees import Tree, is_tag, leaves, symbols


def openings(tree: Tree) -> int:
    """Returns the maximum number of opening brackets in a row."""
    is_opening = (not is_tag(symbol) and symbol[0] == "(" for symbol in symbols(tree))
    return max(sum(run) for _, run in itertools.groupby(is_opening))


def main(train: Path, dev: Path) -> None:
    """Prints the counts."""
    counts = sorted(map(openings, trees_in(train)))
    most = counts[len(counts) * 999 // 1000]
    print(f"opening brackets in a row: at most {counts[-1]}; in 99.9 % of the trees at most {most}")
    lexicon = tag_dictionary(train)
    sentences = [leaves(tree) for tree in trees_in(dev)]
    words = [leaf for sentence in sentences for leaf in sentence]
    known = [leaf for leaf in words if leaf.word in lexicon]
    excluded = [leaf for leaf in known if leaf.label not in lexicon[leaf.word]]
    affected = sum(any(leaf in excluded for leaf in sentence) for sentence in sentences)
    tags = sum(len(lexicon[leaf.word]) for leaf in known)
    single = sum(len(lexicon[leaf.word]) == 1 for leaf in known)
    print(f"words in the dictionary: {len(lexicon):,}")
    print(
        f"dev: {len(words):,} words, {100 * len(known) / len(words):.1f} % in the dictionary, ",
        end="",
    )
    print(f"with {tags / len(known):.2f} tags; {100 * single / len(words):.1f} % with a single one")
    print(
        f"the reference's tag is excluded: {100 * len(excluded) / len(words):.2f} % of words, ",
        end="",
    )
    print(f"in {100 * affected / len(sentences):.1f} % of sentences")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
