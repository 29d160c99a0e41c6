"""`Problem`: what is translated, where the text comes from, and how it is scored."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from t2t_keras.data.tokenizer import VOCABULARY_KINDS, Tokenizer
from t2t_keras.errors import UserError
from t2t_keras.settings import setting

# Pairs (source word, target word), both counted from 0, by target word.
Alignment = Sequence[tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A file that must stand in --tmp_dir: text in any format of `text_formats`, or an archive.

    Attributes:
      name: its file name there.
      url: where to download it, "" if it must be put there by hand. An address that ends in ".gz"
        is unpacked, unless the name ends so too.
      size: bytes of the file as it stands in --tmp_dir, None if not known.
      sha256: checksum of the same in hex, "" if not known.
      md5: the same, for files of which nothing better was published.
      members: where the file is a tar archive, the text's name in it, without folders; of several
        names, the first that the archive has.
    """

    name: str
    url: str = ""
    size: int | None = None
    sha256: str = ""
    md5: str = ""
    members: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ParallelFiles:
    """Two files of which line N of one is the translation of line N of the other.

    Attributes:
      source: text in the source language.
      target: text in the target language; the same file where one (.tsv, .tmx) holds both.
      languages: codes of source and target; needed where one file holds both.
    """

    source: SourceFile
    target: SourceFile
    languages: tuple[str, str] = ("", "")


@dataclasses.dataclass(frozen=True)
class PreparedText:
    """A split of a translation data set of tensorflow-datasets.

    Attributes:
      dataset: its name there, e.g. "wmt14_translate/de-en".
      split: "train", "validation" or "test".
      languages: codes of source and target.
      data_dir: directory of tensorflow-datasets.
      archives: the files that it prepares the data set from.
      has_entities: whether it leaves the text as SGML has it, with "&amp;" for "&".
    """

    dataset: str
    split: str
    languages: tuple[str, str]
    data_dir: str
    archives: tuple[SourceFile, ...] = ()
    has_entities: bool = False


@dataclasses.dataclass(frozen=True)
class Problem:
    """Base of all problems; `registry.register_problem` gives a subclass its name.

    A subclass overrides either `files` (text in files) or `examples` (text that it makes), and
    states what differs below. A field made by `setting` can be changed with --problem_config; one
    with a plain default is fixed.
    """

    source_language: str = setting("", "language code of the source, e.g. en")
    target_language: str = setting("", "language code of the target, e.g. de")
    vocab_size: int = setting(8000, "ids of the shared vocabulary (section 5.1)", minimum=4)
    vocab_kind: str = setting(
        "bpe", "how the vocabulary is learned (section 5.1: bpe)", choices=VOCABULARY_KINDS
    )
    vocab_file: str = setting(
        "", "a SentencePiece .model to use instead of learning one, as for fine-tuning"
    )
    vocab_lines: int = setting(
        5_000_000,
        "most training lines a side, evenly spread, that the vocabulary is learned from",
        minimum=1,
    )
    max_pair_length: int = setting(
        512,
        "training pairs with a side of more tokens, EOS included, are left out and counted",
        minimum=2,
    )
    filters: str = setting(
        "",
        "training pairs to leave out and count, + between several: duplicates, identical (sides), "
        "language (another one), length_ratio",
    )
    max_length_ratio: float = setting(
        3.0, "most tokens of a side for each of the other's, for filters=length_ratio", minimum=1
    )
    name: str = ""
    reverse: bool = False

    # The splits that `examples` makes; problems with files have those that `files` returns.
    splits: ClassVar[tuple[str, ...]] = ("train", "dev", "test")
    # Whether the problem also exists the other way round, as `<name>_rev`.
    reversible: ClassVar[bool] = True
    # Decoding settings that this problem has other defaults for, by name.
    decoding: ClassVar[Mapping[str, Any]] = {}
    # What ends the name of the file of `finished` outputs; "" = outputs are finished as they are.
    finished_suffix: ClassVar[str] = ""
    # Whether `finished` and `score` take what `aligned` finds.
    finished_by_alignment: ClassVar[bool] = False
    # What outputs are before they are finished, for those who get them so, as from an export.
    unfinished: ClassVar[str] = ""

    def __post_init__(self):
        if self.reverse and not self.reversible:
            base = self.name.removesuffix("_rev")
            raise UserError(f"There is no problem '{self.name}': {base} has no other way round.")

    def files(self, tmp_dir: Path) -> dict[str, list[ParallelFiles | PreparedText]]:
        """Returns the files of each split ("train", "dev" and, where there is one, "test").

        Source and target are those of the problem without `_rev`. The default, no files, says that
        `examples` makes the text.

        Args:
          tmp_dir: where the files stand, for problems that look which ones do.
        """
        return {}

    def examples(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields the (source, target) lines of a split, the same at every call."""
        raise NotImplementedError(f"{type(self).__name__} overrides neither files nor examples.")

    def chunks(self, tmp_dir: Path, chunk_pairs: int) -> dict[str, list]:
        """Returns the chunks of each split, for a problem that reads a format of its own.

        The default, no chunks, says that `files` or `examples` gives the text.

        Args:
          tmp_dir: where the source files stand.
          chunk_pairs: the most pairs of a chunk.

        Returns:
          For each split, what has `count`, `pairs` and `place` as a `chunks.Chunk`.
        """
        return {}

    def symbols(self, chunks: Sequence) -> list[str]:
        """Returns the words of the training set's chunks that are one piece of the vocabulary."""
        return []

    def prepared(self, source: str) -> str:
        """Returns a line that a user gives as the model is to see it."""
        return source

    def aligned(self, target: Sequence[str], weights: np.ndarray) -> Alignment:
        """Returns which words of a source the words of its output belong to, by the attention.

        Args:
          target: the words of the output.
          weights: float32 [target words, source words].
        """
        from t2t_keras.decoding.word_alignment import most_attended

        return most_attended(target, weights)

    def finished(self, source: str, output: str, alignment: Alignment | None = None) -> str:
        """Returns a line's output as users want it; see `finished_suffix`.

        Args:
          source: the line.
          output: what the model wrote.
          alignment: the line's words and the output's that belong together, as `aligned` found.
        """
        return output

    def finished_references(
        self, sources: Sequence[str], references: Sequence[str]
    ) -> Sequence[str]:
        """Returns what is right in the form of `finished` outputs."""
        return references

    def with_vocabulary(self, tokenizer: Tokenizer) -> "Problem":
        """Returns the problem as it finishes and scores what is written with a vocabulary."""
        return self

    def resolved(self, tmp_dir: Path) -> "Problem":
        """Returns the problem with settings that depend on the files in `tmp_dir` decided."""
        return self

    def undecided(self) -> tuple[str, ...]:
        """Returns the names of settings that `resolved` has yet to decide."""
        return ()

    @property
    def tokenize(self) -> str:
        """Tokenisation of sacreBLEU for this text; "none" where the text is tokenised."""
        return "13a"

    def text_name(self, split: str, lines: int) -> str:
        """Returns what a dev or test set of so many lines is called where its score is told.

        "", the default, says that it has no name but that of its split.
        """
        return ""

    def languages(self) -> tuple[str, str]:
        """Returns (source, target) language, swapped by `_rev`."""
        pair = (self.source_language, self.target_language)
        return pair[::-1] if self.reverse else pair

    def config(self, of_test_set: bool = True) -> dict[str, Any]:
        """Returns the value of every setting, by name.

        Args:
          of_test_set: whether those that say what the test set is are among them.
        """
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if "meaning" in field.metadata and (of_test_set or not field.metadata["of_test_set"])
        }

    def score(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        sources: Sequence[str] = (),
        alignments: Sequence[Alignment | None] | None = None,
    ):
        """Returns the score of outputs, here BLEU.

        Args:
          hypotheses: what the model wrote, line by line.
          references: what is right.
          sources: what the outputs were made of; a problem says whether it needs them.
          alignments: of each output, for `finished_by_alignment`; None: there are none.

        Returns:
          What `str()` gives a report of, with `main`, the name and the value of its first number.
        """
        from t2t_keras.evaluation.bleu import bleu

        return bleu(hypotheses, references, tokenize=self.tokenize)
