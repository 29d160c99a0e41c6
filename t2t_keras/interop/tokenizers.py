"""Tokenizers with the vocabularies of other toolkits."""

import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import sentencepiece

from t2t_keras.errors import UserError
from t2t_keras.special_ids import EOS_ID, SPACE, UNKNOWN_ID
from t2t_keras.text.tokenizer import SentencePieceTokenizer, Tokenizer, parsed_model

if TYPE_CHECKING:
    from t2t_keras.text.in_graph import GraphTokenizer


# Separates pieces with ids, even of characters unknown to the model, from pieces without ids.
BOUNDARY = "<beyond>"


def segmentation_model(model_bytes: bytes) -> bytes:
    """Returns a model that divides text, without the pieces that only hold an id."""
    model = parsed_model(model_bytes)
    used_pieces = [piece for piece in model.pieces if piece.type != piece.UNUSED]
    del model.pieces[:]
    model.pieces.extend(used_pieces)
    return model.SerializeToString()


class LookedUpPieces(SentencePieceTokenizer):
    """A `.pieces` file: a SentencePiece model that divides text, and a list of pieces with ids.

    The pieces before `BOUNDARY` are the list, in the order of their ids; all others are unknown.

    Invalid content raises `UserError`, which names its `origin`.
    """

    suffix: ClassVar[str] = ".pieces"

    def _read(self, origin: str) -> None:
        super()._read(origin)
        self.vocab_size = self._processor.piece_to_id(BOUNDARY)
        if self.vocab_size == UNKNOWN_ID:
            raise UserError(
                f"{origin}: expected a model with the piece {BOUNDARY}. Without it, the file's "
                f"name must end in .model.",
                code="not_a_vocabulary",
            )

    def encode(self, lines: Sequence[str]) -> list[np.ndarray]:
        """See `Tokenizer`."""
        ids = self._ids_of_pieces
        return [
            np.array([*(ids.get(piece, UNKNOWN_ID) for piece in pieces), EOS_ID], np.int32)
            for pieces in self._splitter.encode(list(lines), out_type=str, num_threads=1)
        ]

    encode_corpus = Tokenizer.encode_corpus

    @functools.cached_property
    def segmentation_model(self) -> bytes:
        """See `SentencePieceTokenizer`."""
        return segmentation_model(self.model_bytes)

    @functools.cached_property
    def _splitter(self) -> sentencepiece.SentencePieceProcessor:
        return sentencepiece.SentencePieceProcessor(model_proto=self.segmentation_model)

    def graph_tokenizer(self) -> "GraphTokenizer":
        """See `Tokenizer`."""
        from t2t_keras.interop.tokenizers_in_graph import GraphLookedUpPieces

        return GraphLookedUpPieces(self.model_bytes, self.segmentation_model, self._ids_of_pieces)


# The end of a token, and the escapes in tokens, see `SubwordTokenizer`.
_END = "_"
_ESCAPE = re.compile(r"\\u|\\\\|\\([0-9]+);")
_ESCAPE_CHARACTERS = frozenset("\\_u;0123456789")
# tensor2tensor's replacement for escapes of invalid characters.
_INVALID_CHARACTER = "\u3013"
_SPECIAL = ("<pad>", "<EOS>")


class SubwordTokenizer(Tokenizer):
    r"""A `.subwords` file of tensor2tensor: padding 0, end of sentence 1, then subwords.

    Tokens are runs of letters and digits, and the runs between them; decoding restores single
    spaces between words. A token, with "_" added at its end, is divided from the left into the
    longest subwords. In a token, "_" becomes \u, a backslash becomes \\, and a character in no
    subword becomes \<its number>; . Text never matches the subwords of padding and EOS; in
    tensor2tensor, the text "<pad>" would end a sentence.

    Invalid content raises `UserError`, which names its `origin`.
    """

    suffix: ClassVar[str] = ".subwords"

    def _read(self, origin: str) -> None:
        self._subwords = [_unquoted(line.rstrip()) for line in self._lines(origin)]
        special = tuple(subword.removesuffix(_END) for subword in self._subwords[:2])
        if special != _SPECIAL:
            raise UserError(
                f"{origin}: expected {_SPECIAL[0]} and {_SPECIAL[1]} as the first lines of a "
                f".subwords file of tensor2tensor, got {', '.join(self._subwords[:2])!r}.",
                code="not_a_vocabulary",
            )
        self.vocab_size = len(self._subwords)
        self._ids = {subword: i for i, subword in enumerate(self._subwords) if i > 1 and subword}
        self._max_length = max(map(len, self._ids), default=0)
        # Characters outside the alphabet are escaped.
        self._alphabet = set("".join(self._ids))
        # A token that cannot be divided is spelled with these characters; tensor2tensor would fail.
        self._characters = {subword for subword in self._ids if len(subword) == 1}
        if missing := "".join(sorted(_ESCAPE_CHARACTERS - self._characters)):
            raise UserError(
                f"{origin} lacks the subwords {missing}, which escapes need.",
                code="not_a_vocabulary",
            )
        self._cached_ids = functools.lru_cache(1 << 16)(self._token_ids)

    def encode(self, lines: Sequence[str]) -> list[np.ndarray]:
        """See `Tokenizer`."""
        return [
            np.array([*itertools.chain(*map(self._cached_ids, tokenize(line))), EOS_ID], np.int32)
            for line in lines
        ]

    def _token_ids(self, token: str) -> tuple[int, ...]:
        ids = self._divide(escape(token, self._alphabet))
        return ids or self._divide(escape(token, self._characters))

    def _divide(self, escaped: str) -> tuple[int, ...]:
        """Returns the ids of an escaped token's subwords; () = it cannot be divided."""
        start, ids = 0, []
        while start < len(escaped):
            ends = range(min(len(escaped), start + self._max_length), start, -1)
            end = next((end for end in ends if escaped[start:end] in self._ids), None)
            if end is None:
                return ()
            ids.append(self._ids[escaped[start:end]])
            start = end
        return tuple(ids)

    def decode(self, sequences: Iterable[Iterable[int]]) -> list[str]:
        """See `Tokenizer`."""
        return [self._text(self._until_end(ids)) for ids in sequences]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """See `Tokenizer`; the last piece of an escape shows its character."""
        ids, pieces, num_shown = self._checked_ids(ids), [], 0
        text = self._text([i for i in ids if i > EOS_ID])
        for number, i in enumerate(ids, 1):
            prefix = self._text([i for i in ids[:number] if i > EOS_ID])
            differences = (i for i, c in enumerate(prefix) if text[i : i + 1] != c)
            end = max(num_shown, next(differences, len(prefix)))
            pieces.append(text[num_shown:end].replace(" ", SPACE) if i > EOS_ID else _SPECIAL[i])
            num_shown = end
        return pieces

    def _text(self, ids: Sequence[int]) -> str:
        escaped = "".join(self._subwords[i] for i in ids).split(_END)
        return join_tokens([token for token in map(unescape, escaped) if token])

    def graph_tokenizer(self) -> "GraphTokenizer":
        """See `Tokenizer`."""
        from t2t_keras.interop.tokenizers_in_graph import GraphSubwords

        return GraphSubwords(self._subwords, sorted(self._alphabet), sorted(self._characters))


def tokenize(text: str) -> list[str]:
    """Divides a text where letters and digits meet other characters.

    Drops single spaces, except at the start and the end.
    """
    runs = ["".join(run) for _, run in itertools.groupby(text, is_word)]
    last = len(runs) - 1
    return [run for number, run in enumerate(runs) if run != " " or number in (0, last)]


def join_tokens(tokens: Sequence[str]) -> str:
    """Returns the text of tokens, with spaces between words."""
    spaces = (
        " " if is_word(previous[0]) and is_word(token[0]) else ""
        for previous, token in itertools.pairwise(tokens)
    )
    return "".join(itertools.chain(*zip(["", *spaces], tokens, strict=False)))


def escape(token: str, alphabet: Collection[str]) -> str:
    """Returns a token with escapes, and with "_" at its end."""
    escaped = token.replace("\\", "\\\\").replace(_END, "\\u")
    return "".join(c if c in alphabet else f"\\{ord(c)};" for c in escaped) + _END


def unescape(escaped: str) -> str:
    """Undoes `escape`, for a token without the "_" at its end."""

    def character(match: re.Match) -> str:
        if match[1] is None:
            return _END if match[0] == "\\u" else "\\"
        number = int(match[1])
        # UTF-8 does not encode surrogates.
        is_valid = number <= sys.maxunicode and not 0xD800 <= number <= 0xDFFF
        return chr(number) if is_valid else _INVALID_CHARACTER

    return _ESCAPE.sub(character, escaped)


@functools.lru_cache(None)
def is_word(character: str) -> bool:
    """Returns whether a character is a letter or digit, as tensor2tensor defines them."""
    return unicodedata.category(character)[0] in "LN"


def _unquoted(line: str) -> str:
    # A lone quotation mark counts as opening and closing mark, as in tensor2tensor.
    is_quoted = line and line[0] == line[-1] and line[0] in "'\""
    return line[1:-1] if is_quoted else line


class WordTokenizer(Tokenizer):
    """A `.words` file, one word per line: padding, EOS and unknown, then words of text.

    ASCII white space divides words; decoding puts single spaces between them.

    Invalid content raises `UserError`, which names its `origin`.
    """

    suffix: ClassVar[str] = ".words"

    def _read(self, origin: str) -> None:
        self._words = self._lines(origin)
        if len(self._words) <= UNKNOWN_ID:
            raise UserError(
                f"{origin}: expected lines for padding, end and unknown first, got "
                f"{len(self._words)} lines.",
                code="not_a_vocabulary",
            )
        self.vocab_size = len(self._words)
        self._ids = {word: i for i, word in enumerate(self._words) if i > UNKNOWN_ID}

    @classmethod
    def of(cls, words: Sequence[str]) -> "WordTokenizer":
        """Returns the vocabulary of a list of words by id, beginning with padding."""
        return cls("".join(f"{word}\n" for word in words).encode())

    def encode(self, lines: Sequence[str]) -> list[np.ndarray]:
        """See `Tokenizer`."""
        # Splits bytes, like TensorFlow.
        lines_of_words = ([word.decode() for word in line.encode().split()] for line in lines)
        return [
            np.array([*(self._ids.get(word, UNKNOWN_ID) for word in words), EOS_ID], np.int32)
            for words in lines_of_words
        ]

    def decode(self, sequences: Iterable[Iterable[int]]) -> list[str]:
        """See `Tokenizer`."""
        return [" ".join(self._words[i] for i in self._until_end(ids)) for ids in sequences]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """See `Tokenizer`."""
        return [SPACE * (i > EOS_ID) + self._words[i] for i in self._checked_ids(ids)]

    def graph_tokenizer(self) -> "GraphTokenizer":
        """See `Tokenizer`."""
        from t2t_keras.interop.tokenizers_in_graph import GraphWords

        return GraphWords(self._words, self.pieces(range(self.vocab_size)), self._ids)
