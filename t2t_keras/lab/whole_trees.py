"""Parsing with constrained decoding: outputs that are whole trees over the words, unrepaired.

The tag dictionary is Ratnaparkhi's (1996), except for rare words: a word has only tags that it was
seen with.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_keras.decoding.lines import LineStage, Prepared
from t2t_keras.errors import UserError
from t2t_keras.io.files import sha256_of
from t2t_keras.parsing.trees import (
    Tree,
    cleaned,
    is_tag,
    leaves,
    symbols_among,
    symbols_of,
    tree_texts,
    trees_of,
    words_of,
)
from t2t_keras.text.alignment import Alignment

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator

# The value of the flag for trees without a tag dictionary.
WORDS = "words"
# Rarer words can have any tag, as they were hardly seen with all of theirs.
MIN_OCCURRENCES = 5


def whole_trees(value: str) -> "Callable[[Translator], Translator]":
    """Write whole parse trees: words, or a file of trees to limit the tags of frequent words."""
    lexicon = {} if value == WORDS else tag_dictionary(Path(value))
    checksum = sha256_of(Path(value)) if lexicon else ""
    return lambda translator: with_whole_trees(translator, lexicon, checksum)


def with_whole_trees(
    translator: "Translator", lexicon: Mapping[str, Collection[str]], checksum: str = ""
) -> "Translator":
    """Returns a translator whose outputs are whole trees over the words.

    Args:
      translator: the translator of a parsing problem, with Keras's engine.
      lexicon: the tags that a word can have; words that are not in it can have all.
      checksum: SHA-256 of the file that the lexicon is from, for the record of settings.

    Raises:
      UserError: the vocabulary has no tags, the engine does not support grammars, or `min_length`
        is set.
    """
    # Imported here, as it imports TensorFlow.
    from t2t_keras.lab.tree_grammar import TreeGrammar

    if not any(map(is_tag, symbols_among(translator.tokenizer.vocabulary()))):
        raise UserError(
            "Whole trees are for parsing, but this vocabulary has no tags such as (NN). Leave "
            "--whole_trees out.",
            code="other_vocabulary",
        )
    if translator.config.min_length > 1:
        raise UserError(
            f"The words decide how long a tree is, so min_length={translator.config.min_length} "
            f"cannot be kept. Leave it or --whole_trees out.",
            code="conflicting_settings",
        )
    stages = *translator.stages, WholeTrees(checksum)
    constrained = translator.with_stages(*stages)
    constrained.engine = translator.engine.with_grammar(TreeGrammar(translator.tokenizer, lexicon))
    return constrained


def trees_in(path: Path) -> Iterator[Tree]:
    """Yields the trees of a file as models are trained on them; raises `UserError` for others."""
    for text in tree_texts(path):
        yield from filter(None, map(cleaned, trees_of(text, path)))


def tag_dictionary(path: Path) -> dict[str, frozenset[str]]:
    """Returns the tags of each word that occurs in a file of trees at least five times.

    Raises:
      UserError: the file cannot be read, holds something else, or has no such word.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for tree in trees_in(path):
        for leaf in leaves(tree):
            counts[leaf.word][leaf.label] += 1
    lexicon = {
        word: frozenset(tags) for word, tags in counts.items() if tags.total() >= MIN_OCCURRENCES
    }
    if not lexicon:
        raise UserError(
            f"No word occurs {MIN_OCCURRENCES} times in {path}, so it limits no tags. Give the "
            f"training trees, or --whole_trees={WORDS}.",
            code="no_text",
        )
    return lexicon


class WholeTrees(LineStage):
    """Pairs the tags of outputs with the words in order, as section 6.3 does."""

    name = "whole_trees"

    def __init__(self, checksum: str = ""):
        self._checksum = checksum

    def prepare(self, line: str) -> Prepared:
        """See the base class."""
        return _Sentence(line)

    def settings(self) -> Mapping[str, Any]:
        """See the base class."""
        return {"lexicon": self._checksum}


class _Sentence(Prepared):
    """A sentence to parse."""

    def align(self, source: str, output: str, pairs: Alignment) -> Alignment:
        """Pairs tags with words in order; the last words of a cut sentence have no pair."""
        tags = [number for number, symbol in enumerate(symbols_of(output)) if is_tag(symbol)]
        return list(enumerate(tags[: len(words_of(source))]))
