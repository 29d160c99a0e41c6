"""Text <-> ids: the base class of all vocabularies, and SentencePiece vocabularies."""

import abc
import array
import functools
import hashlib
import importlib
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import sentencepiece

from t2t_keras.errors import UserError
from t2t_keras.io.files import path_inside, read_bounded, write_atomically
from t2t_keras.registry import Registry
from t2t_keras.special_ids import EOS_ID, PADDING_ID, SPACE, UNKNOWN_ID
from t2t_keras.text.sentences import PRIVATE_USE
from t2t_keras.text.subword_sampling import SubwordSampler

if TYPE_CHECKING:
    from t2t_keras.text.in_graph import GraphTokenizer

# Classes of vocabularies by the suffix of their files.
TOKENIZERS = Registry("tokenizer", "t2t_keras.text.tokenizer")
VOCABULARY_KINDS = ("bpe", "unigram", "char")
# Maximum words in the cache of ids, some 50 MB; a full cache is emptied.
MAX_WORDS = 1 << 18

_LINES_AT_ONCE = 1000
_PRIVATE = re.compile(f"[{PRIVATE_USE}]")
# Share of the text whose characters become pieces. Rarer ones are spelled in UTF-8 bytes, so that
# a stray line in another script does not fill the vocabulary with characters seen once.
_CHARACTER_COVERAGE = 0.99995
# Unigram training sums by thread, so the result depends on the number of threads.
_TRAINING_THREADS = 16
# SentencePiece aborts the process if byte-pair encoding learns from a longer word.
_MAX_WORD_LENGTH = 65_535


class Tokenizer(abc.ABC):
    """A vocabulary: padding 0, end of sentence 1, and pieces of text.

    Args:
      model_bytes: the content of its file.
      source: the tokenizer of sources with a vocabulary of their own; None = a shared vocabulary.
      origin: name of the vocabulary in errors.

    Raises:
      UserError: the content is not a vocabulary of this kind.

    Attributes:
      model_bytes: the content of its file.
      source: the tokenizer of sources; itself if the vocabulary is shared.
      vocab_size: number of ids, special ones included.
      checksum: SHA-256, in hex, of the file and of the sources' own file, if there is one.
      suffix: suffix of its file names.
    """

    suffix: ClassVar[str]
    vocab_size: int

    def __init__(
        self,
        model_bytes: bytes,
        source: "Tokenizer | None" = None,
        origin: str = "the vocabulary",
    ):
        self.model_bytes = bytes(model_bytes)
        self.source = source or self
        content = self.model_bytes + (source.model_bytes if source else b"")
        self.checksum = hashlib.sha256(content).hexdigest()
        self._read(origin)

    def __reduce__(self) -> tuple[Any, ...]:
        own_source = None if self.source is self else self.source
        return _unpickled, (type(self), self.model_bytes, own_source)

    @abc.abstractmethod
    def _read(self, origin: str) -> None:
        """Parses `model_bytes`, and sets `vocab_size`.

        Raises:
          UserError: they are invalid; the error names `origin`.
        """

    def _lines(self, origin: str) -> list[str]:
        """Returns the lines of `model_bytes`, for vocabularies in text files."""
        try:
            return self.model_bytes.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{origin} is not UTF-8, but a {self.suffix} file must be.", code="not_utf8"
            ) from error

    @staticmethod
    def load(path: str | Path, source_path: str | Path = "") -> "Tokenizer":
        """Reads a vocabulary; the file's suffix tells the kind, by default SentencePiece's.

        Args:
          path: the file.
          source_path: the file of a source vocabulary; "" = a shared vocabulary.

        Raises:
          UserError: the file cannot be read, or is not a vocabulary.
        """
        name = Path(path).suffix.removeprefix(".")
        kind = TOKENIZERS[name if name in TOKENIZERS else "model"]
        source = Tokenizer.load(source_path) if source_path else None
        advice = f"Give a vocabulary whose name ends in .{', .'.join(TOKENIZERS)}."
        return kind(read_bounded(path, advice), source, f"The vocabulary {path}")

    @classmethod
    def load_saved(cls, directory: str | Path, record: Mapping[str, Any]) -> "Tokenizer":
        """Reads the files of `save`; raises `UserError` if they do not match the record."""
        path = path_inside(Path(directory), record["file"])
        source = record.get("source")
        tokenizer = cls.load(path, path_inside(Path(directory), source["file"]) if source else "")
        if tokenizer.record() != record:
            raise UserError(
                f"{path} is not the recorded vocabulary: expected {record['size']:,} ids "
                f"with SHA-256 {record['sha256'][:12]}, got {tokenizer.vocab_size:,} with "
                f"{tokenizer.checksum[:12]}. Restore the file.",
                code="other_vocabulary",
            )
        return tokenizer

    def save(self, directory: str | Path) -> dict[str, dict[str, Any]]:
        """Writes the vocabulary's files; returns the record of `write_atomically` for each."""
        record = self.record()
        files = {record["file"]: self.model_bytes}
        if "source" in record:
            files[record["source"]["file"]] = self.source.model_bytes
        return {
            name: write_atomically(Path(directory) / name, content)
            for name, content in files.items()
        }

    def record(self) -> dict[str, Any]:
        """Returns the record for JSON files: file name, number of ids, SHA-256."""
        name, size = f"vocab{self.suffix}", self.vocab_size
        record: dict[str, Any] = {"file": name, "size": size, "sha256": self.checksum}
        if self.source is not self:
            name = f"vocab.source{self.source.suffix}"
            record["source"] = self.source.record() | {"file": name}
        return record

    def with_source(self, source: "Tokenizer") -> "Tokenizer":
        """Returns a tokenizer with this vocabulary for targets and `source` for sources."""
        return type(self)(self.model_bytes, source=source)

    @functools.cached_property
    def source_vocab_size(self) -> int | None:
        """Number of ids of the vocabulary for sources; None if sources and targets share ids.

        Two models with the same pieces and ids may still divide text differently.
        """
        if self.source is self:
            return None
        size, source_size = self.vocab_size, self.source.vocab_size
        # One id at a time: the text of a long sequence of subwords takes quadratic time.
        is_same = size == source_size and all(
            self.pieces([i]) == self.source.pieces([i]) for i in range(size)
        )
        return None if is_same else source_size

    @abc.abstractmethod
    def encode(self, lines: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of each line, int32 [length], with EOS at the end."""

    def encode_corpus(self, lines: Sequence[str]) -> list[np.ndarray]:
        """Returns the same ids as `encode`, faster for many lines; the arrays may be read-only."""
        return self.encode(lines)

    def sampler(self, sampling: float, nbest: int = 0) -> SubwordSampler:
        """Returns a sampler, which divides text into subwords at random.

        Args:
          sampling: `HParams.subword_sampling`, above 0.
          nbest: `HParams.subword_nbest`.

        Raises:
          UserError: the vocabulary has only one way to divide a text.
        """
        raise UserError(
            "subword_sampling needs a SentencePiece vocabulary of kind bpe or unigram, got one of "
            "another kind. Set subword_sampling=0.",
            code="other_vocabulary_kind",
        )

    @abc.abstractmethod
    def decode(self, sequences: Iterable[Iterable[int]]) -> list[str]:
        """Returns the text of each sequence of ids, up to its first EOS; padding is ignored."""

    @abc.abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the text that each id adds, with U+2581 for a space at its start."""

    @abc.abstractmethod
    def graph_tokenizer(self) -> "GraphTokenizer":
        """Returns the same tokenizer for a TensorFlow graph."""

    def vocabulary(self) -> dict[str, int]:
        """Returns the id of each piece."""
        return {self.pieces([i])[0]: i for i in range(self.vocab_size)}

    def _until_end(self, ids: Iterable[int]) -> list[int]:
        """Returns the ids before the first EOS, without padding."""
        before_eos = itertools.takewhile(EOS_ID.__ne__, self._checked_ids(ids))
        return [i for i in before_eos if i != PADDING_ID]

    def _checked_ids(self, ids: Iterable[int]) -> list[int]:
        ids, size = list(map(int, ids)), self.vocab_size
        for i in ids:
            if not 0 <= i < size:
                raise UserError(
                    f"The id {i} is not in the vocabulary, which has ids 0 to {size - 1}. Give the "
                    f"vocabulary that made these ids.",
                    code="other_vocabulary",
                )
        return ids


def vocabulary_settings(directory: str | Path, tokenizer: Tokenizer) -> str:
    """Returns the problem settings that use a vocabulary saved in a directory, as text."""
    record = tokenizer.record()
    settings = [f"vocab_file={Path(directory) / record['file']}"]
    if source := record.get("source"):
        file = Path(directory) / source["file"]
        settings += [f"source_vocab_file={file}", "shared_vocabulary=false"]
    return ",".join(settings)


@functools.lru_cache(2)
def _unpickled(kind: type[Tokenizer], model_bytes: bytes, source: Tokenizer | None) -> Tokenizer:
    """Returns one object per vocabulary, so that a worker process keeps its cache of words."""
    return kind(model_bytes, source=source)


def parsed_model(model_bytes: bytes) -> Any:
    """Returns the protobuf message of a SentencePiece model."""
    # A machine that only trains may lack the module; protobuf makes its classes at run time.
    sentencepiece_model_pb2: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
    return sentencepiece_model_pb2.ModelProto.FromString(model_bytes)


def load_processor(model_bytes: bytes, origin: object) -> sentencepiece.SentencePieceProcessor:
    """Returns a SentencePiece processor; raises `UserError` if the bytes are not a model."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model_bytes)
        # Invalid UTF-8, in a piece or in SentencePiece's message, is a ValueError.
        "".join(map(processor.id_to_piece, range(processor.get_piece_size()))).encode()
    except (RuntimeError, TypeError, ValueError) as error:
        raise UserError(
            f"{origin} is not a SentencePiece model ({len(model_bytes):,} bytes). Give a .model "
            f"file that SentencePiece or t2t-datagen wrote.",
            code="not_sentencepiece",
        ) from error
    return processor


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece vocabulary: padding 0, end of sentence 1, unknown 2, no begin of sentence.

    Models made by `train` have `decode(encode(lines)) == lines`: text is neither normalised nor
    stripped, and characters outside the vocabulary are spelled in bytes. There are two exceptions:
    U+2581, SentencePiece's sign for a space, becomes a space; "char" vocabularies, which have no
    bytes, encode characters outside the vocabulary as id 2. Other models may change text.

    A model with different special ids raises `UserError`.
    """

    suffix: ClassVar[str] = ".model"

    def _read(self, origin: str) -> None:
        self._processor = load_processor(self.model_bytes, origin)
        ids = [self._processor.pad_id(), self._processor.eos_id(), self._processor.unk_id()]
        if ids != [PADDING_ID, EOS_ID, UNKNOWN_ID]:
            raise UserError(
                f"{origin}: expected the ids 0 for padding, 1 for the end of sentence, 2 for "
                f"unknown words, got {', '.join(map(str, ids))} (-1 = none). Train it with "
                f"--pad_id=0 --eos_id=1 --unk_id=2 --bos_id=-1, or let t2t-datagen learn one.",
                code="other_ids",
            )
        self.vocab_size = self._processor.get_piece_size()
        self._word_ids: dict[str, bytes] = {}

    @classmethod
    def train(
        cls, lines: Iterable[str], vocab_size: int, kind: str = "bpe", symbols: Sequence[str] = ()
    ) -> "SentencePieceTokenizer":
        """Learns a vocabulary from lines of both languages; the same lines give the same bytes.

        Args:
          lines: the text.
          vocab_size: number of pieces, including the three special ids and the 256 bytes; a "char"
            vocabulary has no bytes, and fewer pieces if the text has fewer characters.
          kind: "bpe" (byte-pair encoding, section 5.1), "unigram" or "char".
          symbols: words that become one piece with the space before them, except in a "char"
            vocabulary. Placeholders' symbols become pieces without the space, too.

        Raises:
          UserError: no text, or a size that this text cannot give; names the possible sizes.
        """
        if kind not in VOCABULARY_KINDS:
            raise UserError(
                f"vocab_kind must be one of {', '.join(VOCABULARY_KINDS)}, got '{kind}'.",
                code="bad_value",
            )
        model, training_lines = io.BytesIO(), _TrainingLines(lines)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(training_lines),
                model_writer=model,
                vocab_size=vocab_size,
                user_defined_symbols=[
                    *(f"{SPACE}{symbol}" for symbol in symbols),
                    *filter(_PRIVATE.fullmatch, symbols),
                ],
                **_training_options(kind),
            )
        except UserError:
            raise
        except (RuntimeError, ValueError) as error:
            if training_lines.error:
                raise training_lines.error from None
            raise _training_error(str(error), vocab_size, kind) from error
        model_bytes = model.getvalue()
        return cls(_with_exact_scores(model_bytes) if kind == "unigram" else model_bytes)

    def encode(self, lines: Sequence[str]) -> list[np.ndarray]:
        """See `Tokenizer`."""
        encoded = self._processor.encode(list(lines), add_eos=True, num_threads=1)
        return [np.array(ids, np.int32) for ids in encoded]

    def encode_corpus(self, lines: Sequence[str]) -> list[np.ndarray]:
        """See `Tokenizer`: remembers the ids of words."""
        if not self.words_are_independent:
            return self.encode(lines)
        blocks = (lines[i : i + _LINES_AT_ONCE] for i in range(0, len(lines), _LINES_AT_ONCE))
        return [ids for block in blocks for ids in self._encode_by_word(block)]

    def sampler(self, sampling: float, nbest: int = 0) -> SubwordSampler:
        """See `Tokenizer`."""
        model = parsed_model(self.segmentation_model)
        if model.trainer_spec.model_type not in (
            model.trainer_spec.BPE,
            model.trainer_spec.UNIGRAM,
        ):
            super().sampler(sampling, nbest)
        processor = sentencepiece.SentencePieceProcessor(model_proto=self.segmentation_model)
        return SubwordSampler(model, processor, self._ids_of_pieces, sampling, nbest)

    @property
    def segmentation_model(self) -> bytes:
        """The SentencePiece model that divides text; a subclass may use another one for ids."""
        return self.model_bytes

    @functools.cached_property
    def _ids_of_pieces(self) -> dict[str, int]:
        ids = range(UNKNOWN_ID + 1, self.vocab_size)
        return {self._processor.id_to_piece(i): i for i in ids}

    def _encode_by_word(self, lines: Sequence[str]) -> Iterator[np.ndarray]:
        cache = self._word_ids
        if not cache or len(cache) >= MAX_WORDS:
            # " " encodes as two spaces: SentencePiece puts one in front of each word.
            two_spaces = self._processor.encode(" ")
            cache.clear()
            cache[""] = _ids_to_bytes(two_spaces[: len(two_spaces) // 2])
        words_by_line = [line.split(" ") if line else () for line in lines]
        new_words = list(set().union(*words_by_line).difference(cache))
        new_ids = map(_ids_to_bytes, self._processor.encode(new_words))
        cache.update(zip(new_words, new_ids, strict=True))
        for words in words_by_line:
            ids = b"".join(map(cache.__getitem__, words))
            yield np.frombuffer(ids + _ids_to_bytes([EOS_ID]), np.int32)

    def decode(self, sequences: Iterable[Iterable[int]]) -> list[str]:
        """See `Tokenizer`."""
        return [self._processor.decode(self._until_end(ids)) for ids in sequences]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """See `Tokenizer`; the piece of a byte is <0x41>, for example."""
        return [self._processor.id_to_piece(i) for i in self._checked_ids(ids)]

    def spell(self, other: "SentencePieceTokenizer") -> tuple[list[list[int]], int]:
        """Spells the pieces of another vocabulary in pieces of this one.

        Pieces in both vocabularies, padding, EOS and unknown become one id. The text of any other
        piece is encoded, without the space in front of lines; a piece without text, such as a
        control symbol or a byte, becomes unknown.

        Returns:
          The ids of each piece, and the number of pieces that the vocabularies share.
        """
        own_ids = self.vocabulary()
        model = parsed_model(self.segmentation_model)
        model.normalizer_spec.add_dummy_prefix = False
        model.normalizer_spec.remove_extra_whitespaces = False
        splitter = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
        other_processor, spellings, num_shared = other._processor, [], 0
        for i, piece in enumerate(other.pieces(range(other.vocab_size))):
            piece_id = i if i <= UNKNOWN_ID else own_ids.get(piece)
            num_shared += piece_id is not None
            ids = [UNKNOWN_ID] if piece_id is None else [piece_id]
            if piece_id is None and not (
                other_processor.is_byte(i) or other_processor.is_control(i)
            ):
                parts = splitter.encode(piece.replace(SPACE, " "), out_type=str)
                ids = [own_ids.get(part, UNKNOWN_ID) for part in parts] or ids
            spellings.append(ids)
        return spellings, num_shared

    def graph_tokenizer(self) -> "GraphTokenizer":
        """See `Tokenizer`."""
        from t2t_keras.text.in_graph import GraphSentencePieces

        return GraphSentencePieces(self.model_bytes)

    @functools.cached_property
    def words_are_independent(self) -> bool:
        """Whether the model encodes each word of a line as if it stood alone."""
        model = parsed_model(self.model_bytes)
        rules = model.normalizer_spec
        return (
            not rules.precompiled_charsmap
            and rules.add_dummy_prefix
            and rules.escape_whitespaces
            and not rules.remove_extra_whitespaces
            and not model.trainer_spec.treat_whitespace_as_suffix
            and all(SPACE not in piece.piece[1:] for piece in model.pieces)
        )


class _TrainingLines:
    """Yields lines in a form that SentencePiece can train on.

    Attributes:
      error: the exception while reading lines, or None; SentencePiece raises a RuntimeError then.
    """

    def __init__(self, lines: Iterable[str]):
        self._lines = lines
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self._lines:
                if len(line) > _MAX_WORD_LENGTH:
                    line = re.sub(rf"[^ ]{{{_MAX_WORD_LENGTH}}}", r"\g<0> ", line)
                # SentencePiece skips lines that contain its sign for unknown characters.
                yield line.replace("\u2585", " ")
        except BaseException as error:
            self.error = error
            raise


def _training_options(kind: str) -> dict[str, Any]:
    """Returns the options of SentencePiece's trainer for a kind of vocabulary."""
    is_char = kind == "char"
    return dict(
        model_type=kind,
        # A character vocabulary has as many pieces as the text has characters.
        hard_vocab_limit=not is_char,
        pad_id=PADDING_ID,
        eos_id=EOS_ID,
        unk_id=UNKNOWN_ID,
        bos_id=-1,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        # Gives a word the same piece at the start of a line as inside a line.
        add_dummy_prefix=not is_char,
        byte_fallback=not is_char,
        character_coverage=1.0 if is_char else _CHARACTER_COVERAGE,
        # SentencePiece silently skips longer lines.
        max_sentence_length=1 << 30,
        num_threads=_TRAINING_THREADS,
        minloglevel=2,
    )


def _ids_to_bytes(ids: list[int]) -> bytes:
    # Joining bytes is the fastest way to join int32 arrays.
    return array.array("i", ids).tobytes()


def _with_exact_scores(model_bytes: bytes) -> bytes:
    """Rounds the scores of a unigram model to multiples of 2^-10, whose sums are exact.

    "0" + "00" and "00" + "0" are equally likely: with inexact sums, SentencePiece and TensorFlow
    Text would choose different ones.
    """
    model = parsed_model(model_bytes)
    for piece in model.pieces:
        piece.score = round(piece.score * 1024) / 1024
    return model.SerializeToString(deterministic=True)


def _training_error(message: str, vocab_size: int, kind: str) -> UserError:
    if "sentences_.empty()" in message:
        return UserError(
            "There is no text to learn a vocabulary from: every line is empty.", code="no_text"
        )
    reasons = {
        r"set it to a value <= (\d+)": "is too large for this text. Set vocab_size={} or less, or "
        "give more text.",
        r"smaller than required_chars\. \d+ vs (\d+)": "is too small for the characters of this "
        "text, the bytes and the special ids, {} in all. Set a larger one.",
    }
    for pattern, reason in reasons.items():
        if match := re.search(pattern, message):
            return UserError(f"vocab_size={vocab_size} {reason.format(match[1])}", code="bad_value")
    return UserError(
        f"SentencePiece cannot learn a {kind} vocabulary of {vocab_size} pieces from this text: "
        f"{message}",
        code="vocabulary_not_learned",
    )


TOKENIZERS.add(SentencePieceTokenizer, "model")
