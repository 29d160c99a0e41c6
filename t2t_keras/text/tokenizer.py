"""Text <-> ids: what every kind of vocabulary does."""

import abc
import functools
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.io.atomic import write_atomically
from t2t_keras.io.foreign import inside, read_bounded
from t2t_keras.settings import Registry
from t2t_keras.special_ids import EOS_ID, PADDING_ID

# SentencePiece's sign for a space.
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
# By the end of their files' names.
TOKENIZERS = Registry("tokenizer", "t2t_keras.text.sentence_pieces")
SENTENCE_PIECE = "model"  # as SentencePiece calls its files


class Tokenizer(abc.ABC):
    """A vocabulary: padding 0, end of sentence 1, and pieces of text.

    Args:
      model_bytes: the content of its file.
      source: the tokenizer of sources that have a vocabulary of their own; None = they share this.
      origin: what errors call it.

    Raises:
      UserError: the content is that of no vocabulary of this kind.

    Attributes:
      model_bytes: as given.
      source: the tokenizer of sources: this one, or another; this one is then that of targets.
    """

    # Of the names of its files.
    suffix: ClassVar[str]

    def __init__(
        self,
        model_bytes: bytes,
        source: "Tokenizer | None" = None,
        origin: str = "the vocabulary",
    ):
        self.model_bytes = bytes(model_bytes)
        self.source = source or self
        self._read(origin)

    def __reduce__(self):
        own_source = None if self.source is self else self.source
        return _unpickled, (type(self), self.model_bytes, own_source)

    @abc.abstractmethod
    def _read(self, origin: str) -> None:
        """Takes `model_bytes` apart; a `UserError`, which names their origin, if it cannot."""

    def _lines(self, origin: str) -> list[str]:
        """Returns the lines of a file of text."""
        try:
            return self.model_bytes.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{origin} is not UTF-8, as a {self.suffix} file is.", code="not_utf8"
            ) from error

    @staticmethod
    def load(path: str | Path, source_path: str | Path = "") -> "Tokenizer":
        """Reads a vocabulary of the kind that the file's name ends in; `.model` is SentencePiece's.

        Args:
          path: of the file.
          source_path: of that of sources which have their own; "" = they share it.

        Raises:
          UserError: the file cannot be read, or is none.
        """
        name = Path(path).suffix.removeprefix(".")
        kind = TOKENIZERS[name if name in TOKENIZERS else SENTENCE_PIECE]
        origin = f"The vocabulary {path}"
        source = Tokenizer.load(source_path) if source_path else None
        try:
            return kind(read_bounded(path), source, origin)
        except OSError as error:
            raise UserError(
                f"{origin} cannot be read: {error.strerror}. Give a file whose name ends in "
                f".{', .'.join(TOKENIZERS)}.",
                code="not_read",
            ) from error

    @classmethod
    def load_saved(cls, directory: str | Path, record: Mapping[str, Any]) -> "Tokenizer":
        """Reads what `save` wrote beside a record; raises `UserError` if it is another one."""
        path = inside(Path(directory), record["file"])
        source = record.get("source")
        tokenizer = cls.load(path, inside(Path(directory), source["file"]) if source else "")
        if tokenizer.record() != record:
            raise UserError(
                f"{path} is not the vocabulary that was used here: expected {record['size']:,} ids "
                f"with SHA-256 {record['sha256'][:12]}, got {tokenizer.vocab_size:,} with "
                f"{tokenizer.checksum[:12]}. Restore that.",
                code="other_vocabulary",
            )
        return tokenizer

    def save(self, directory: str | Path) -> dict[str, dict[str, Any]]:
        """Writes the vocabulary's files; returns what `write_atomically` does for each, by name."""
        record, parts = self.record(), {}
        parts[record["file"]] = self
        if "source" in record:
            parts[record["source"]["file"]] = self.source
        return {
            name: write_atomically(Path(directory) / name, part.model_bytes)
            for name, part in parts.items()
        }

    def record(self) -> dict[str, Any]:
        """Returns what JSON files say of a vocabulary: its file, number of ids, and SHA-256."""
        name = f"vocab{self.suffix}"
        record = {"file": name, "size": self.vocab_size, "sha256": self.checksum}
        if self.source is not self:
            own = f"vocab.source{self.source.suffix}"
            record["source"] = self.source.record() | {"file": own}
        return record

    def with_source(self, source: "Tokenizer") -> "Tokenizer":
        """Returns a tokenizer of these targets and other sources."""
        return type(self)(self.model_bytes, source=source)

    @property
    @abc.abstractmethod
    def vocab_size(self) -> int:
        """Number of ids, special ones included."""

    @functools.cached_property
    def source_vocab_size(self) -> int | None:
        """Number of ids of sources that have their own, or None.

        Two models may divide texts, each in its way, into the same pieces of the same ids.
        """
        size, own = self.vocab_size, self.source.vocab_size
        # One at a time: what a subword adds to all those before takes time for each of them.
        shared = self.source is self or (
            size == own and all(self.pieces([i]) == self.source.pieces([i]) for i in range(size))
        )
        return None if shared else own

    @property
    def checksum(self) -> str:
        """SHA-256 of the file, in hex; of both, where sources have their own."""
        files = [self.model_bytes] + [self.source.model_bytes] * (self.source is not self)
        return hashlib.sha256(b"".join(files)).hexdigest()

    @abc.abstractmethod
    def encode(self, lines: Sequence[str]) -> list[np.ndarray]:
        """Returns one int32 [length] array of ids a line, read-only, each with EOS at its end."""

    def sampler(self, sampling: float, nbest: int = 0):
        """Returns what draws divisions, with a method `sample(lines, seeds)` as of `encode`.

        Args:
          sampling: `HParams.subword_sampling`, above 0.
          nbest: `HParams.subword_nbest`.

        Raises:
          UserError: the vocabulary has but one way to divide a text.
        """
        raise UserError(
            "subword_sampling needs a SentencePiece vocabulary of kind bpe or unigram, got one of "
            "another kind. Set subword_sampling=0.",
            code="other_vocabulary_kind",
        )

    @abc.abstractmethod
    def decode(self, sequences: Iterable[Sequence[int]]) -> list[str]:
        """Returns the text of each sequence of ids, up to its first EOS; padding is ignored."""

    @abc.abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns what each id adds to the text; a space at its start is U+2581."""

    @abc.abstractmethod
    def graph_tokenizer(self):
        """Returns a `t2t_keras.text.in_graph.GraphTokenizer`, which does the same in a graph."""

    def vocabulary(self) -> dict[str, int]:
        """Returns all pieces, each with its id."""
        return {self.pieces([i])[0]: i for i in range(self.vocab_size)}

    def _until_end(self, ids: Iterable[int]) -> list[int]:
        """Returns ids up to the first EOS, without padding."""
        before_eos = itertools.takewhile(EOS_ID.__ne__, self._checked(ids))
        return [i for i in before_eos if i != PADDING_ID]

    def _checked(self, ids: Iterable[int]) -> list[int]:
        ids, size = list(map(int, ids)), self.vocab_size
        for i in ids:
            if not 0 <= i < size:
                raise UserError(
                    f"The id {i} is not in the vocabulary, which has ids 0 to {size - 1}. Was this "
                    f"made with another vocabulary?",
                    code="other_vocabulary",
                )
        return ids


def same_vocabulary(directory: str | Path, tokenizer: Tokenizer) -> str:
    """Returns the problem's settings with which data gets a vocabulary saved in a directory."""
    record = tokenizer.record()
    settings = [f"vocab_file={Path(directory) / record['file']}"]
    if source := record.get("source"):
        file = Path(directory) / source["file"]
        settings += [f"source_vocab_file={file}", "shared_vocabulary=false"]
    return ",".join(settings)


@functools.lru_cache(2)
def _unpickled(kind: type[Tokenizer], model_bytes: bytes, source: Tokenizer | None) -> Tokenizer:
    """Returns the same object for the same vocabulary, so that a worker keeps the words' ids."""
    return kind(model_bytes, source=source)
