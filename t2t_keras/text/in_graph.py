"""Tokenizers in a TensorFlow graph, for exports: the same ids and texts as in Python."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text

from t2t_keras.environment import held_stderr
from t2t_keras.special_ids import EOS_ID, PADDING_ID, UNKNOWN_ID
from t2t_keras.text.sentence_pieces import dividing_model
from t2t_keras.text.tokenizer import SPACE

# Before a subword that continues a token, in the table of subwords; text does not contain it.
_CONTINUES = "\x00"
# Instead of the subwords of a token that cannot be divided; text does not contain it either.
_UNDIVIDED = "\x00\x00"
# Stands for NUL meanwhile; Unicode has no such character.
_NUL = "\ufdd0"
_MOST_TOKEN_BYTES = 1 << 20
_WORD = r"[\p{L}\p{N}]"
_ESCAPE = r"\\u|\\\\|\\[0-9]+;"


class GraphTokenizer(tf.Module):
    """What both kinds of vocabulary have; `tf.saved_model.save` saves it with a module."""

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns int32 [B, length] for strings [B], each row with EOS at its end."""
        raise NotImplementedError

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns strings [B] for int32 [B, L]: up to the first EOS, and without padding."""
        raise NotImplementedError

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the piece of each id, strings [B, L]; "" for padding."""
        raise NotImplementedError


class GraphSentencePieces(GraphTokenizer):
    """TensorFlow Text's `SentencepieceTokenizer`, with all spaces at the start of a text.

    That drops them all, SentencePiece only the one that it puts before the first word. So a letter
    is put in front and taken away again with that one space.

    A model of more than `vocab_size` pieces only divides a text; its pieces are then looked up.
    """

    def __init__(self, model_bytes: bytes, vocab_size: int):
        super().__init__()
        self._tokenizer = _tokenizer(model_bytes, out_type=tf.int32, add_eos=True)
        ids = tf.range(self._tokenizer.vocab_size())
        pieces = [piece.decode() for piece in self._tokenizer.id_to_string(ids).numpy()]
        self._dividing = None
        if vocab_size < len(pieces):
            self._dividing = _tokenizer(dividing_model(model_bytes), out_type=tf.string)
            known = range(UNKNOWN_ID + 1, vocab_size)
            self._ids = _table([pieces[i] for i in known], known, UNKNOWN_ID)
        self._letter = next(
            i for i, piece in enumerate(pieces) if len(piece) == 1 and piece.isalnum()
        )
        size = len(pieces[self._letter].encode())
        first = self._tokenizer.tokenize(pieces[self._letter])[0]
        puts_space_first = pieces[first].startswith(SPACE)
        # Bytes to take away, by the first id.
        self._taken = [size + (puts_space_first and piece.startswith(SPACE)) for piece in pieces]

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """See `GraphTokenizer`."""
        if not self._dividing:
            return self._tokenizer.tokenize(text)
        pieces = self._dividing.tokenize(text)
        ids = pieces.with_values(tf.cast(self._ids.lookup(pieces.values), tf.int32))
        return _with_end(ids)

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """See `GraphTokenizer`."""
        begun = tf.pad(ids, [[0, 0], [1, 0]], constant_values=self._letter)
        text = self._tokenizer.detokenize(begun)
        # Not ids[:, 0], which an empty batch does not have.
        first = tf.reduce_max(ids[:, :1], axis=1)
        start = tf.gather(tf.constant(self._taken, tf.int32), first)
        return tf.strings.substr(text, start, tf.strings.length(text) - start)

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """See `GraphTokenizer`."""
        return tf.where(ids == PADDING_ID, "", self._tokenizer.id_to_string(ids))


class GraphSubwords(GraphTokenizer):
    """`SubwordTokenizer` in a graph; a piece is a subword, with "_" at the end of a token.

    Args:
      subwords: by id.
      alphabet: the characters that are not escaped.
      spelled: those among them that are not escaped in a token which cannot be divided otherwise.
    """

    def __init__(self, subwords: Sequence[str], alphabet: Sequence[str], spelled: Sequence[str]):
        super().__init__()
        self._subwords = list(subwords)
        # Of a subword that is there twice, as in Python, the last.
        usable = {subword: i for i, subword in enumerate(subwords) if i > EOS_ID and subword}
        # The longest subword at the start of what is left, as WordPiece has it, but the same ones
        # at the start of a token and inside.
        both = [
            (before + subword, i) for before in ("", _CONTINUES) for subword, i in usable.items()
        ]
        keys, values = zip(*both, (_UNDIVIDED, len(self._subwords)), strict=True)
        self._ids = tensorflow_text.WordpieceTokenizer(
            _table(keys, values),
            suffix_indicator=_CONTINUES,
            max_bytes_per_word=_MOST_TOKEN_BYTES,
            max_chars_per_token=max(map(len, subwords)),
            token_out_type=tf.int64,
            unknown_token=_UNDIVIDED,
        )
        self._alphabet = _characters(alphabet)
        self._spelled = None if alphabet == spelled else _characters(spelled)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """See `GraphTokenizer`."""
        # regex_split ends a text at its first NUL.
        text = tf.strings.regex_replace(text, r"\x00", _NUL)
        runs = tensorflow_text.regex_split(text, rf"{_WORD}+", keep_delim_regex_pattern=".*")
        number, last = runs.with_values(_positions(runs)), runs.row_lengths() - 1
        at_end = (number == 0) | (number == last[:, tf.newaxis])
        tokens = tf.ragged.boolean_mask(runs, (runs != " ") | at_end)
        escaped = self._escaped(tokens.values, self._alphabet)
        if self._spelled is not None:
            divided = self._ids.tokenize(escaped) != len(self._subwords)
            spelled = self._escaped(tokens.values, self._spelled)
            escaped = tf.where(tf.reduce_all(divided, axis=1), escaped, spelled)
        ids = self._ids.tokenize(tokens.with_values(escaped)).merge_dims(1, 2)
        return _with_end(tf.cast(ids, tf.int32))

    def _escaped(self, tokens: tf.Tensor, alphabet: tf.lookup.StaticHashTable) -> tf.Tensor:
        escaped = tf.strings.regex_replace(tokens, r"\\", r"\\\\")
        escaped = tf.strings.regex_replace(escaped, "_", r"\\u")
        codes = tf.strings.unicode_decode(escaped, "UTF-8")
        codes = codes.with_values(tf.where(codes.values == ord(_NUL), 0, codes.values))
        known = alphabet.lookup(tf.cast(codes.values, tf.int64)) > 0
        characters = tf.strings.unicode_encode(codes.values[:, tf.newaxis], "UTF-8")
        numbers = tf.strings.join(["\\", tf.strings.as_string(codes.values), ";"])
        spelled = codes.with_values(tf.where(known, characters, numbers))
        return tf.strings.join([tf.strings.reduce_join(spelled, axis=1), "_"])

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """See `GraphTokenizer`."""
        ended = tf.cumsum(tf.cast(ids == EOS_ID, tf.int32), axis=1) > 0
        subwords = tf.gather(tf.constant(self._subwords), ids)
        subwords = tf.where(ended | (ids == PADDING_ID), "", subwords)
        tokens = tf.strings.split(tf.strings.reduce_join(subwords, axis=1), "_")
        tokens = tf.ragged.boolean_mask(tokens, tokens != "")
        tokens = tokens.with_values(self._unescaped(tokens.values))
        words = tf.strings.regex_full_match(tokens.values, rf"(?s){_WORD}.*")
        after_word = tf.concat([[False], words[:-1]], axis=0)[: tf.size(words)]
        first = _positions(tokens) == 0
        spaces = tf.where(words & after_word & ~first, " ", "")
        return tf.strings.reduce_join(
            tokens.with_values(tf.strings.join([spaces, tokens.values])), axis=1
        )

    def _unescaped(self, tokens: tf.Tensor) -> tf.Tensor:
        parts = tensorflow_text.regex_split(tokens, _ESCAPE, keep_delim_regex_pattern=_ESCAPE)
        flat = parts.values
        is_number = tf.strings.regex_full_match(flat, r"\\[0-9]+;")
        digits = tf.strings.regex_replace(flat, r"[\\;]", "")
        # Longer numbers stand for no character, and could not be read.
        digits = tf.where(is_number & (tf.strings.length(digits) < 8), digits, "12307")
        codes = tf.strings.to_number(digits, tf.int32)
        halves = (codes >= 0xD800) & (codes <= 0xDFFF)
        codes = tf.where(halves | (codes > 0x10FFFF), 0x3013, codes)
        character = tf.strings.unicode_encode(codes[:, tf.newaxis], "UTF-8")
        spelled = tf.where(is_number, character, flat)
        spelled = tf.where(flat == "\\u", "_", tf.where(flat == "\\\\", "\\", spelled))
        return tf.strings.reduce_join(parts.with_values(spelled), axis=1)

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """See `GraphTokenizer`."""
        return tf.where(ids == PADDING_ID, "", tf.gather(tf.constant(self._subwords), ids))


class GraphWords(GraphTokenizer):
    """`WordTokenizer` in a graph.

    Args:
      words: by id.
      pieces: by id.
      ids: of the words that a text can have.
    """

    def __init__(self, words: Sequence[str], pieces: Sequence[str], ids: Mapping[str, int]):
        super().__init__()
        self._words, self._pieces = list(words), list(pieces)
        self._ids = _table(list(ids), list(ids.values()), UNKNOWN_ID)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """See `GraphTokenizer`."""
        words = tf.strings.split(text)
        return _with_end(words.with_values(tf.cast(self._ids.lookup(words.values), tf.int32)))

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """See `GraphTokenizer`."""
        ended = tf.cumsum(tf.cast(ids == EOS_ID, tf.int32), axis=1) > 0
        words = tf.gather(tf.constant(self._words), ids)
        words = tf.ragged.boolean_mask(words, ~ended & (ids != PADDING_ID))
        return tf.strings.reduce_join(words, axis=1, separator=" ")

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """See `GraphTokenizer`."""
        return tf.where(ids == PADDING_ID, "", tf.gather(tf.constant(self._pieces), ids))


def _tokenizer(model_bytes: bytes, **options) -> tensorflow_text.SentencepieceTokenizer:
    # Once saved and loaded, those of one name would be one: each model has a name of its own.
    name = f"model_{hashlib.sha256(model_bytes).hexdigest()}"
    with held_stderr():  # SentencePiece says that it normalises nothing, as it should.
        return tensorflow_text.SentencepieceTokenizer(model_bytes, name=name, **options)


def _characters(characters: Sequence[str]) -> tf.lookup.StaticHashTable:
    return _table(np.array([ord(each) for each in characters], np.int64), [1] * len(characters))


def _table(
    keys: Sequence, values: Sequence[int], default_value: int = -1
) -> tf.lookup.StaticHashTable:
    pairs = tf.lookup.KeyValueTensorInitializer(keys, tf.constant(values, tf.int64))
    return tf.lookup.StaticHashTable(pairs, default_value)


def _with_end(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    ends = tf.fill([ids.nrows(), 1], EOS_ID)
    return tf.concat([ids, tf.RaggedTensor.from_tensor(ends)], axis=1)


def _positions(rows: tf.RaggedTensor) -> tf.Tensor:
    """Returns the position of each value in its row."""
    return tf.ragged.range(rows.row_lengths()).values
