"""English constituency parsing (section 6.3): sentences in, trees out.

A target is a tree as symbols (`t2t_keras.parsing.trees`); each symbol is a piece of the vocabulary.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from t2t_keras.data.problem import Problem, Score
from t2t_keras.errors import UserError
from t2t_keras.parsing.score import reference_trees, score_parses
from t2t_keras.parsing.trees import (
    TreeChunk,
    bracketed,
    files_below,
    is_tag,
    rebuilt,
    split_files,
    symbols_among,
    symbols_of,
    tree_chunks,
    words_of,
)
from t2t_keras.registry import register_problem
from t2t_keras.settings import setting
from t2t_keras.text.alignment import Alignment, monotone_alignment
from t2t_keras.text.tokenizer import Tokenizer

# Name of the file or folder of another parser's trees.
_SILVER = "silver"


@dataclasses.dataclass(frozen=True)
class _Parsing(Problem):
    """Base of all parsing problems; they differ in `tree_files`, each split's files of trees."""

    source_language: str = "en"
    target_language: str = "trees"
    vocab_size: int = setting(16_000, "ids that words and symbols share (section 6.3)", minimum=4)
    vocab_lines: int = setting(
        1_000_000,
        "maximum training trees, evenly spread, to learn the vocabulary from",
        minimum=1,
    )
    # "char" is impossible: pieces of symbols begin with a space.
    vocab_kind: str = setting(
        "bpe", "units of the vocabulary: bpe or unigram", choices=("bpe", "unigram")
    )
    # F1 is the only score of trees.
    metrics: tuple[str, ...] = ()
    # The symbols of the vocabulary, see `with_vocabulary`.
    known_symbols: frozenset[str] = frozenset()

    reversible: ClassVar[bool] = False
    is_plain_text: ClassVar[bool] = False
    hparams_set: ClassVar[str] = "transformer_parsing_small"
    # Section 6.3.
    decoding: ClassVar[Mapping[str, Any]] = {"beam_size": 21, "alpha": 0.3, "extra_length": 300}
    postprocessed_suffix: ClassVar[str] = "trees"
    postprocess_by_alignment: ClassVar[bool] = True
    raw_output: ClassVar[str] = (
        "A translation is not a tree but the model's output: brackets and tags, divided by spaces, "
        "without the words, as `(S (NP (NNP) /NP) ... /S)`; it may be unbalanced, or lack tags. "
        "Sentences are tokens divided by one space, with brackets as -LRB- and -RRB-. With "
        '`problem = t2t_keras.problem("parsing_trees")`, '
        "`problem.postprocess(sentence, translation, alignment)` makes the tree over the words of "
        "the sentence from any output. The alignment is that of `t2t_keras.text.alignment`: with "
        "the outputs of the signature `attention` for sentence and translation, and "
        "`layer = alignment_layer(weights.shape[1])`, it is `word_alignment(text_pieces[0], "
        "translation_pieces[0], weights[0, layer].mean(axis=0), problem.align)`. Without an "
        "alignment, tags go to words in order, so a missing tag shifts all that follow."
    )

    def tree_files(self, tmp_dir: Path) -> dict[str, list[Path]]:
        """Returns each split's files of trees."""
        raise NotImplementedError

    def chunks(self, tmp_dir: Path, chunk_pairs: int) -> dict[str, list[TreeChunk]]:
        """Divides the files of trees into chunks."""
        return {
            split: tree_chunks(files, chunk_pairs)
            for split, files in self.tree_files(tmp_dir).items()
        }

    def preprocess(self, source: str) -> str:
        """Returns the words of a line, joined by spaces, with brackets as -LRB- and -RRB-."""
        return " ".join(words_of(source))

    def align(self, target: Sequence[str], weights: np.ndarray) -> Alignment:
        """Aligns each tag with a word, in order, by the largest sum of attention."""
        tags = [i for i, symbol in enumerate(target) if is_tag(symbol, self.known_symbols)]
        return [(word, tags[row]) for word, row in monotone_alignment(weights[tags])]

    def postprocess(self, source: str, output: str, alignment: Alignment | None = None) -> str:
        """Returns the tree over the words of a line, in brackets; "" for a line without words."""
        words = words_of(source)
        tree, _ = rebuilt(symbols_of(output), words, self.known_symbols, alignment)
        return bracketed(tree) if words else ""

    def postprocess_references(
        self, sources: Sequence[str], references: Sequence[str]
    ) -> Sequence[str]:
        """Returns the reference trees in brackets, one per line, as t2t-evalb reads them."""
        trees = reference_trees(references, map(words_of, sources))
        return [bracketed(tree) if tree.children else "" for tree in trees]

    def with_vocabulary(self, tokenizer: Tokenizer) -> Self:
        """Returns the problem set up with the symbols of the vocabulary."""
        return dataclasses.replace(self, known_symbols=symbols_among(tokenizer.vocabulary()))

    def score(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        sources: Sequence[str] = (),
        alignments: Sequence[Alignment | None] | None = None,
    ) -> Score:
        """Returns F1 of the trees; raises `UserError` for a reference that does not fit."""
        return score_parses(hypotheses, references, sources, self.known_symbols, alignments)


@register_problem
class ParsingTrees(_Parsing):
    """Your own trees: train.trees, dev.trees and, optionally, test.trees in --tmp_dir."""

    def tree_files(self, tmp_dir: Path) -> dict[str, list[Path]]:
        """See the class."""
        files = {split: tmp_dir / f"{split}.trees" for split in ("train", "dev", "test")}
        missing = [str(files[split]) for split in ("train", "dev") if not files[split].exists()]
        if missing:
            raise UserError(
                f"Expected {' and '.join(missing)}: trees in brackets, as in the Penn Treebank.",
                code="missing_source_files",
            )
        return {split: [path] for split, path in files.items() if path.exists()}


@register_problem
class ParsingCraft(ParsingTrees):
    """67 biomedical articles (CRAFT): 18,943 sentences in train.trees, 2,778 in dev.trees."""

    vocab_size: int = setting(8000, "ids that words and symbols share", minimum=4)


@register_problem
class ParsingWsj(_Parsing):
    """The Penn Treebank's Wall Street Journal: sections 02-21, dev 22, test 23 (Table 4)."""

    hparams_set: ClassVar[str] = "transformer_parsing_base"

    def tree_files(self, tmp_dir: Path) -> dict[str, list[Path]]:
        """Returns the `.mrg` files of the sections, without those for `parsing_wsj_semi`."""
        return split_files(tmp_dir, excluded_folder=tmp_dir / _SILVER)


@register_problem
class ParsingWsjSemi(_Parsing):
    """parsing_wsj with a parser's trees added: silver.trees, or a folder silver, in --tmp_dir."""

    vocab_size: int = setting(32_000, "ids that words and symbols share (section 6.3)", minimum=4)

    hparams_set: ClassVar[str] = "transformer_parsing_big"

    def tree_files(self, tmp_dir: Path) -> dict[str, list[Path]]:
        """Returns the sections' files; in the training set, the parser's files follow."""
        file, folder = tmp_dir / f"{_SILVER}.trees", tmp_dir / _SILVER
        silver_files = files_below(folder) if folder.is_dir() else []
        if file.exists() == bool(silver_files):
            raise UserError(
                f"Expected a parser's trees either in {file} or in files in {folder}, got "
                f"{'both' if silver_files else 'neither'}.",
                code="ambiguous_files" if silver_files else "missing_source_files",
            )
        splits = split_files(tmp_dir, excluded_folder=folder)
        return {**splits, "train": [*splits["train"], *(silver_files or [file])]}


@register_problem
class WsjParsing(ParsingWsj):
    """tensor2tensor's name for parsing_wsj."""


@register_problem
class ParsingEnglishPtb8k(ParsingWsj):
    """tensor2tensor's name for parsing_wsj with a vocabulary of 8,192."""

    vocab_size: int = setting(8192, "ids that words and symbols share", minimum=4)


@register_problem
class ParsingEnglishPtb16k(ParsingWsj):
    """tensor2tensor's name for parsing_wsj with a vocabulary of 16,384."""

    vocab_size: int = setting(16_384, "ids that words and symbols share", minimum=4)
