"""Vocabularies of SentencePiece: byte-pair encoding (section 5.1), unigram, characters."""

import array
import functools
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import sentencepiece

from t2t_keras.errors import UserError
from t2t_keras.special_ids import EOS_ID, PADDING_ID, UNKNOWN_ID
from t2t_keras.text.scripts import PRIVATE
from t2t_keras.text.subword_sampling import SubwordSampler
from t2t_keras.text.tokenizer import SENTENCE_PIECE, SPACE, TOKENIZERS, Tokenizer

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


def parsed_model(model_bytes: bytes):
    """Returns a SentencePiece model as a message of protobuf."""
    from sentencepiece import sentencepiece_model_pb2  # A machine that only trains may lack it.

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

    def decode(self, sequences: Iterable[Sequence[int]]) -> list[str]:
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

    def graph_tokenizer(self):
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
