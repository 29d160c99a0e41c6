"""Text <-> ids: vocabularies of SentencePiece, and what every kind of vocabulary does."""

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
from t2t_keras.io.files import inside, read_bounded, write_atomically
from t2t_keras.registry import Registry
from t2t_keras.special_ids import EOS_ID, PADDING_ID, SPACE, UNKNOWN_ID
from t2t_keras.text.sentences import PRIVATE
from t2t_keras.text.subword_sampling import SubwordSampler

if TYPE_CHECKING:
    from t2t_keras.text.in_graph import GraphTokenizer

# By the end of their files' names.
TOKENIZERS = Registry("tokenizer", "t2t_keras.text.tokenizer")
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

    def __reduce__(self) -> tuple[Any, ...]:
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

    def sampler(self, sampling: float, nbest: int = 0) -> SubwordSampler:
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
    def decode(self, sequences: Iterable[Iterable[int]]) -> list[str]:
        """Returns the text of each sequence of ids, up to its first EOS; padding is ignored."""

    @abc.abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns what each id adds to the text; a space at its start is U+2581."""

    @abc.abstractmethod
    def graph_tokenizer(self) -> "GraphTokenizer":
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


VOCABULARY_KINDS = ("bpe", "unigram", "char")

_PRIVATE = re.compile(f"[{PRIVATE}]")
# Characters beyond this share of the text are spelled in UTF-8 bytes: a stray line in another
# script must not fill the vocabulary with characters seen once.
_CHARACTER_COVERAGE = 0.99995
# Unigram training adds up sums by thread, so the number of threads is part of the result.
_TRAINING_THREADS = 16
# Words that are kept with their ids, some 50 MB; a full cache is emptied.
MAX_WORDS = 1 << 18
_LINES_AT_ONCE = 1000
# SentencePiece aborts the process if byte-pair encoding learns from a longer word.
_LONGEST_WORD = 65_535


def parsed_model(model_bytes: bytes) -> Any:
    """Returns a SentencePiece model as a message of protobuf."""
    # A machine that only trains may lack it; its classes are made at run time.
    sentencepiece_model_pb2: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
    return sentencepiece_model_pb2.ModelProto.FromString(model_bytes)


def load_processor(model_bytes: bytes, origin: object) -> sentencepiece.SentencePieceProcessor:
    """Returns a SentencePiece processor; raises `UserError` if the bytes are not a model."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model_bytes)
        # A piece, and so the message of an error, may not be valid UTF-8.
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

    Text is neither normalised nor stripped, and characters outside the vocabulary are spelled in
    bytes ("char" vocabularies have none: there they become id 2), so `decode(encode(lines)) ==
    lines`. The one exception is U+2581, SentencePiece's sign for a space, which becomes a space.
    Models that come from elsewhere do with text what they were made to do.

    Bytes that are not those of a SentencePiece `.model` file, or of one with other special ids, are
    a `UserError`, which names their `origin`.
    """

    suffix: ClassVar[str] = ".model"

    def _read(self, origin: str) -> None:
        self._processor = load_processor(self.model_bytes, origin)
        found = [self._processor.pad_id(), self._processor.eos_id(), self._processor.unk_id()]
        if found != [PADDING_ID, EOS_ID, UNKNOWN_ID]:
            raise UserError(
                f"{origin}: expected the ids 0 for padding, 1 for the end of sentence, 2 for "
                f"unknown words, got {', '.join(map(str, found))} (-1: none). Train it with "
                f"--pad_id=0 --eos_id=1 --unk_id=2 --bos_id=-1, or let t2t-datagen learn one.",
                code="other_ids",
            )
        self._word_ids: dict[str, bytes] = {}

    @classmethod
    def train(
        cls, lines: Iterable[str], vocab_size: int, kind: str = "bpe", symbols: Sequence[str] = ()
    ) -> "SentencePieceTokenizer":
        """Learns a vocabulary from lines of both languages; the same lines give the same bytes.

        The three special ids and the 256 bytes are among its `vocab_size` pieces; of kind "char" it
        has no bytes, and fewer pieces if the text has fewer characters. "bpe" is byte-pair encoding
        (section 5.1). Each of the symbols, with the space before, is one piece; not for "char".
        One that stands for a placeholder is a piece without the space, too.

        Raises:
          UserError: no text, or a size that this text cannot give; says which sizes it can.
        """
        if kind not in VOCABULARY_KINDS:
            raise UserError(
                f"vocab_kind must be in {', '.join(VOCABULARY_KINDS)}, got '{kind}'.",
                code="bad_value",
            )
        model = io.BytesIO()
        failure = None

        def training_lines() -> Iterator[str]:
            nonlocal failure
            try:
                for line in lines:
                    if len(line) > _LONGEST_WORD:
                        line = re.sub(rf"[^ ]{{{_LONGEST_WORD}}}", r"\g<0> ", line)
                    # SentencePiece leaves out lines with its own sign for an unknown character.
                    yield line.replace("\u2585", " ")
            except BaseException as error:
                failure = error  # SentencePiece would turn it into text.
                raise

        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=training_lines(),
                model_writer=model,
                model_type=kind,
                vocab_size=vocab_size,
                # A character vocabulary has as many pieces as the text has characters.
                hard_vocab_limit=kind != "char",
                pad_id=PADDING_ID,
                eos_id=EOS_ID,
                unk_id=UNKNOWN_ID,
                bos_id=-1,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                # Makes a word the same piece at the start of a line as inside it.
                add_dummy_prefix=kind != "char",
                byte_fallback=kind != "char",
                character_coverage=1.0 if kind == "char" else _CHARACTER_COVERAGE,
                # SentencePiece leaves out longer lines silently.
                max_sentence_length=1 << 30,
                user_defined_symbols=[
                    *(f"{SPACE}{symbol}" for symbol in symbols),
                    *filter(_PRIVATE.fullmatch, symbols),
                ],
                num_threads=_TRAINING_THREADS,
                minloglevel=2,
            )
        except (RuntimeError, ValueError) as error:
            if failure:
                raise failure from None
            raise _training_error(str(error), vocab_size, kind) from error
        model_bytes = model.getvalue()
        return cls(_with_exact_scores(model_bytes) if kind == "unigram" else model_bytes)

    @property
    def vocab_size(self) -> int:
        """Number of ids, special ones included."""
        return self._processor.get_piece_size()

    def encode(self, lines: Sequence[str]) -> list[np.ndarray]:
        """See `Tokenizer`."""
        if self.words_are_independent:
            blocks = (lines[i : i + _LINES_AT_ONCE] for i in range(0, len(lines), _LINES_AT_ONCE))
            return [ids for block in blocks for ids in self._encode_by_word(block)]
        encoded = self._processor.encode(list(lines), add_eos=True, num_threads=1)
        return [np.array(ids, np.int32) for ids in encoded]

    def sampler(self, sampling: float, nbest: int = 0) -> SubwordSampler:
        """See `Tokenizer`."""
        model = parsed_model(self.dividing_model)
        if model.trainer_spec.model_type not in (
            model.trainer_spec.BPE,
            model.trainer_spec.UNIGRAM,
        ):
            super().sampler(sampling, nbest)
        processor = sentencepiece.SentencePieceProcessor(model_proto=self.dividing_model)
        return SubwordSampler(model, processor, self._ids_of_pieces, sampling, nbest)

    @property
    def dividing_model(self) -> bytes:
        """The SentencePiece model that divides text, if the vocabulary's own only has the ids."""
        return self.model_bytes

    @functools.cached_property
    def _ids_of_pieces(self) -> dict[str, int]:
        ids = range(UNKNOWN_ID + 1, self.vocab_size)
        return {self._processor.id_to_piece(i): i for i in ids}

    def _encode_by_word(self, lines: Sequence[str]) -> Iterator[np.ndarray]:
        known = self._word_ids
        if not known or len(known) >= MAX_WORDS:
            # The text " " alone has twice what a space adds in front of a word.
            two = self._processor.encode(" ")
            known.clear()
            known[""] = _packed(two[: len(two) // 2])
        split = [line.split(" ") if line else () for line in lines]
        new = list(set().union(*split).difference(known))
        known.update(zip(new, map(_packed, self._processor.encode(new)), strict=True))
        for words in split:
            ids = b"".join(map(known.__getitem__, words))
            yield np.frombuffer(ids + _packed([EOS_ID]), np.int32)

    def decode(self, sequences: Iterable[Iterable[int]]) -> list[str]:
        """See `Tokenizer`."""
        return [self._processor.decode(self._until_end(ids)) for ids in sequences]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """See `Tokenizer`; a byte is as <0x41>."""
        return [self._processor.id_to_piece(i) for i in self._checked(ids)]

    def spell(self, other: "SentencePieceTokenizer") -> tuple[list[list[int]], int]:
        """Returns the ids here that spell each piece of another vocabulary, and how many both have.

        A piece that both have is one id, and so are padding, end and unknown. Of another one the
        text is encoded, without the space that lines get in front; where it stands for no text, as
        a control symbol or a byte, it is unknown here.
        """
        known = self.vocabulary()
        model = parsed_model(self.dividing_model)
        model.normalizer_spec.add_dummy_prefix = False
        model.normalizer_spec.remove_extra_whitespaces = False
        dividing = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
        theirs, spelled, shared = other._processor, [], 0
        for i, piece in enumerate(other.pieces(range(other.vocab_size))):
            own = i if i <= UNKNOWN_ID else known.get(piece)
            shared += own is not None
            ids = [UNKNOWN_ID] if own is None else [own]
            if own is None and not (theirs.is_byte(i) or theirs.is_control(i)):
                parts = dividing.encode(piece.replace(SPACE, " "), out_type=str)
                ids = [known.get(part, UNKNOWN_ID) for part in parts] or ids
            spelled.append(ids)
        return spelled, shared

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


def _packed(ids: list[int]) -> bytes:
    # The bytes of int32 arrays are put together fastest.
    return array.array("i", ids).tobytes()


def _with_exact_scores(model_bytes: bytes) -> bytes:
    """Rounds the scores of a unigram model to multiples of 2^-10, whose sums are exact.

    "0" + "00" and "00" + "0" are equally likely. With rounded sums, SentencePiece and TensorFlow
    Text would not choose the same one.
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
        r"set it to a value <= (\d+)": "is more than this text gives. Set vocab_size={} or "
        "less, or give more text.",
        r"smaller than required_chars\. \d+ vs (\d+)": "is too small for the characters of this "
        "text, the bytes and the special ids, {} in all. Set a larger one.",
    }
    for pattern, reason in reasons.items():
        if found := re.search(pattern, message):
            return UserError(f"vocab_size={vocab_size} {reason.format(found[1])}", code="bad_value")
    return UserError(
        f"SentencePiece cannot learn a {kind} vocabulary of {vocab_size} from this text: {message}",
        code="vocabulary_not_learned",
    )


TOKENIZERS.add(SentencePieceTokenizer, SENTENCE_PIECE)
