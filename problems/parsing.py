"""English constituency parsing (section 6.3): sentences in, trees out.

A source is a sentence's words, tokenised as its treebank has them; a target is its tree as symbols
(`t2t_keras.trees.symbols`), each one piece of the vocabulary that words and symbols share. What
the model writes becomes a tree over the words, and F1 is evalb's.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from t2t_keras.data.problem import Alignment, Problem
from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.decoding.word_alignment import in_order
from t2t_keras.errors import UserError
from t2t_keras.registry import register_problem
from t2t_keras.settings import setting
from t2t_keras.trees.chunks import TreeChunk, chunk_symbols, tree_chunks
from t2t_keras.trees.penn_treebank import files_below, split_files
from t2t_keras.trees.symbols import is_tag, rebuilt, symbols_among, symbols_of, words_of
from t2t_keras.trees.tree import bracketed

# The name of what another parser made of unlabelled text.
_SILVER = "silver"


@dataclasses.dataclass(frozen=True)
class _Parsing(Problem):
    """All parsing problems; they differ in where the trees stand."""

    source_language: str = "en"
    target_language: str = "trees"
    vocab_size: int = setting(16_000, "ids that words and symbols share (section 6.3)", minimum=4)
    vocab_lines: int = setting(
        1_000_000,
        "most training trees, evenly spread, whose words the vocabulary is learned from",
        minimum=1,
    )
    # The pieces of symbols begin with a space, which "char" vocabularies do not have in pieces.
    vocab_kind: str = setting("bpe", "how the vocabulary is learned", choices=("bpe", "unigram"))
    # The symbols of a run's vocabulary; none where no vocabulary is at hand.
    known: frozenset[str] = frozenset()

    reversible: ClassVar[bool] = False
    # Section 6.3.
    decoding: ClassVar[Mapping[str, Any]] = {"beam_size": 21, "alpha": 0.3, "extra_length": 300}
    finished_suffix: ClassVar[str] = "trees"
    finished_by_alignment: ClassVar[bool] = True
    unfinished: ClassVar[str] = (
        "A translation is not a tree but what the model writes: brackets and tags, divided by "
        "spaces, without the words, as `(S (NP (NNP) /NP) ... /S)`; it need not be balanced, nor "
        "have a tag for each word. Sentences come as tokens with one space between, brackets as "
        "-LRB- and -RRB-. With "
        '`problem = t2t_keras.problem("parsing_trees")`, '
        "`problem.finished(sentence, translation, alignment)` makes the tree over the sentence's "
        "words, whatever was written; it takes labels as they are. With "
        "`t2t_keras.decoding.word_alignment`, what the signature `attention` gives for sentence "
        "and translation, pieces decoded, and `layer = alignment_layer(weights.shape[1])`, the "
        "alignment is `word_alignment(text_pieces[0], translation_pieces[0], "
        "weights[0, layer].mean(axis=0), problem.aligned)`; left out, tags are those of one word "
        "after the other, and one tag too few puts all that follow at the wrong word."
    )

    def tree_files(self, tmp_dir: Path) -> dict[str, list[Path]]:
        """Returns the files of trees of each split."""
        raise NotImplementedError

    def chunks(self, tmp_dir: Path, chunk_pairs: int) -> dict[str, list[TreeChunk]]:
        """Returns the chunks of the files of trees."""
        return {
            split: tree_chunks(files, chunk_pairs)
            for split, files in self.tree_files(tmp_dir).items()
        }

    def symbols(self, chunks: Sequence[TreeChunk]) -> list[str]:
        """Returns the brackets and tags of the training trees."""
        return chunk_symbols(chunks)

    def prepared(self, source: str) -> str:
        """Returns a line's words with a space between, brackets as -LRB- and -RRB-."""
        return " ".join(words_of(source))

    def aligned(self, target: Sequence[str], weights: np.ndarray) -> Alignment:
        """Returns which word each tag is of: in their order, with the most attention in all."""
        tags = [number for number, symbol in enumerate(target) if is_tag(symbol, self.known)]
        return [(word, tags[row]) for word, row in in_order(weights[tags])]

    def finished(self, source: str, output: str, alignment: Alignment | None = None) -> str:
        """Returns the tree over the line's words, in brackets; "" where it has none.

        Without an alignment, the tags are taken as those of one word after the other.
        """
        words = words_of(source)
        tree, _ = rebuilt(symbols_of(output), words, self.known, alignment)
        return bracketed(tree) if words else ""

    def finished_references(
        self, sources: Sequence[str], references: Sequence[str]
    ) -> Sequence[str]:
        """Returns the right trees in brackets, one a line, as t2t-evalb takes them.

        Raises:
          UserError: a reference is no tree over its source's words.
        """
        from t2t_keras.evaluation.parses import reference_trees

        trees = reference_trees(references, map(words_of, sources))
        return [bracketed(tree) if tree.children else "" for tree in trees]

    def with_vocabulary(self, tokenizer: Tokenizer) -> Problem:
        """Returns the problem that knows the symbols there are: to it any other is none."""
        return dataclasses.replace(self, known=symbols_among(tokenizer.vocabulary()))

    @property
    def tokenize(self) -> str:
        """Symbols are scored as trees, not as text."""
        return "none"

    def score(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        sources: Sequence[str] = (),
        alignments: Sequence[Alignment | None] | None = None,
    ):
        """Returns F1 of the trees over the words of the sources.

        Raises:
          UserError: a reference is no tree over its source's words.
        """
        from t2t_keras.evaluation.parses import score_parses

        return score_parses(hypotheses, references, sources, self.known, alignments)


@register_problem
@dataclasses.dataclass(frozen=True)
class ParsingTrees(_Parsing):
    """Your own trees: train.trees, dev.trees and, where there is one, test.trees in --tmp_dir."""

    def tree_files(self, tmp_dir: Path) -> dict[str, list[Path]]:
        """Returns the files; the test set is there if its file is.

        Raises:
          UserError: train.trees or dev.trees is missing.
        """
        files = {split: tmp_dir / f"{split}.trees" for split in ("train", "dev", "test")}
        missing = [str(files[split]) for split in ("train", "dev") if not files[split].exists()]
        if missing:
            raise UserError(
                f"{' and '.join(missing)} cannot be found. Give --tmp_dir the directory with the "
                f"trees, in brackets as the Penn Treebank has them."
            )
        return {split: [path] for split, path in files.items() if path.exists()}


@register_problem
@dataclasses.dataclass(frozen=True)
class ParsingCraft(ParsingTrees):
    """67 biomedical articles (CRAFT): train.trees of 18,943 and dev.trees of 2,778 sentences."""

    vocab_size: int = setting(8000, "ids that words and symbols share", minimum=4)


@register_problem
@dataclasses.dataclass(frozen=True)
class ParsingWsj(_Parsing):
    """The Penn Treebank's Wall Street Journal: sections 02-21, dev 22, test 23 (Table 4)."""

    def tree_files(self, tmp_dir: Path) -> dict[str, list[Path]]:
        """Returns the `.mrg` files of the sections, wherever below `tmp_dir` they stand.

        Those of a parser, for `parsing_wsj_semi`, are not taken.
        """
        return split_files(tmp_dir, besides=tmp_dir / _SILVER)


@register_problem
@dataclasses.dataclass(frozen=True)
class ParsingWsjSemi(_Parsing):
    """As parsing_wsj, and trees of a parser: silver.trees, or a folder silver, in --tmp_dir."""

    vocab_size: int = setting(32_000, "ids that words and symbols share (section 6.3)", minimum=4)

    def tree_files(self, tmp_dir: Path) -> dict[str, list[Path]]:
        """Returns the sections' files, and those of the parser's trees after those of train.

        Raises:
          UserError: there are no such trees, or both a file and a folder.
        """
        file, folder = tmp_dir / f"{_SILVER}.trees", tmp_dir / _SILVER
        inside = files_below(folder) if folder.is_dir() else []
        if file.exists() == bool(inside):
            raise UserError(
                f"{file} and {folder} are both there: leave one."
                if inside
                else f"There are no trees of a parser in {tmp_dir}: put them there as {file.name}, "
                f"or as files in a folder {folder.name}."
            )
        splits = split_files(tmp_dir, besides=folder)
        return {**splits, "train": [*splits["train"], *(inside or [file])]}


@register_problem
@dataclasses.dataclass(frozen=True)
class WsjParsing(ParsingWsj):
    """tensor2tensor's name of parsing_wsj."""


@register_problem
@dataclasses.dataclass(frozen=True)
class ParsingEnglishPtb8k(ParsingWsj):
    """tensor2tensor's name of parsing_wsj with a vocabulary of 8,192."""

    vocab_size: int = setting(8192, "ids that words and symbols share", minimum=4)


@register_problem
@dataclasses.dataclass(frozen=True)
class ParsingEnglishPtb16k(ParsingWsj):
    """tensor2tensor's name of parsing_wsj with a vocabulary of 16,384."""

    vocab_size: int = setting(16_384, "ids that words and symbols share", minimum=4)
