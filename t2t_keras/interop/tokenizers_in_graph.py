"""Tokenizers of other toolkits as TensorFlow graphs, with the same results as in Python."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text

from t2t_keras.special_ids import EOS_ID, PADDING_ID, UNKNOWN_ID
from t2t_keras.text.in_graph import GraphSentencePieces, GraphTokenizer, graph_processor

# In the table, prefix of subwords that continue a token; text does not contain it.
_CONTINUATION = "\x00"
# Stands for a token that cannot be divided; text does not contain it.
_UNDIVIDED_TOKEN = "\x00\x00"
# Replaces NUL temporarily; Unicode reserves it as a noncharacter.
_NUL_SUBSTITUTE = "\ufdd0"
_MAX_TOKEN_BYTES = 1 << 20
_WORD = r"[\p{L}\p{N}]"
_ESCAPE = r"\\u|\\\\|\\[0-9]+;"


class GraphLookedUpPieces(GraphSentencePieces):
    """`LookedUpPieces` in a graph.

    Args:
      model_bytes: model with the ids.
      segmentation_model: model that divides text.
      ids: ids of the pieces of text.
    """

    def __init__(self, model_bytes: bytes, segmentation_model: bytes, ids: Mapping[str, int]):
        super().__init__(model_bytes)
        self._splitter = graph_processor(segmentation_model, out_type=tf.string)
        self._ids = _table(list(ids), list(ids.values()), UNKNOWN_ID)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """See `GraphTokenizer`."""
        pieces = self._splitter.tokenize(text)
        return _with_end(pieces.with_values(self._ids.lookup(pieces.values)))


class GraphSubwords(GraphTokenizer):
    """`SubwordTokenizer` in a graph; a piece is a subword, with "_" at the end of a token.

    Args:
      subwords: the subwords by id.
      alphabet: characters that are not escaped.
      characters: characters that are not escaped in tokens that cannot be divided otherwise.
    """

    def __init__(self, subwords: Sequence[str], alphabet: Sequence[str], characters: Sequence[str]):
        super().__init__()
        self._subwords = list(subwords)
        # The last of equal subwords counts, as in Python.
        ids = {subword: i for i, subword in enumerate(subwords) if i > EOS_ID and subword}
        # WordPiece takes the longest subword at each place. It distinguishes the start of a token,
        # so the table has every subword twice.
        entries = [
            (prefix + subword, i) for prefix in ("", _CONTINUATION) for subword, i in ids.items()
        ]
        keys, values = zip(*entries, (_UNDIVIDED_TOKEN, len(self._subwords)), strict=True)
        self._ids = tensorflow_text.WordpieceTokenizer(
            _table(keys, values),
            suffix_indicator=_CONTINUATION,
            max_bytes_per_word=_MAX_TOKEN_BYTES,
            max_chars_per_token=max(map(len, subwords)),
            token_out_type=tf.int64,
            unknown_token=_UNDIVIDED_TOKEN,
        )
        self._alphabet = _character_table(alphabet)
        self._characters = None if alphabet == characters else _character_table(characters)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """See `GraphTokenizer`."""
        # regex_split ends a text at its first NUL.
        text = tf.strings.regex_replace(text, r"\x00", _NUL_SUBSTITUTE)
        runs = tensorflow_text.regex_split(text, rf"{_WORD}+", keep_delim_regex_pattern=".*")
        number, last = runs.with_values(_positions(runs)), runs.row_lengths() - 1
        is_outermost = (number == 0) | (number == last[:, tf.newaxis])
        tokens = tf.ragged.boolean_mask(runs, (runs != " ") | is_outermost)
        escaped = self._escape(tokens.values, self._alphabet)
        if self._characters is not None:
            is_divided = self._ids.tokenize(escaped) != len(self._subwords)
            spelled = self._escape(tokens.values, self._characters)
            escaped = tf.where(tf.reduce_all(is_divided, axis=1), escaped, spelled)
        ids = self._ids.tokenize(tokens.with_values(escaped)).merge_dims(1, 2)
        return _with_end(ids)

    def _escape(self, tokens: tf.Tensor, alphabet: tf.lookup.StaticHashTable) -> tf.Tensor:
        escaped = tf.strings.regex_replace(tokens, r"\\", r"\\\\")
        escaped = tf.strings.regex_replace(escaped, "_", r"\\u")
        codes = tf.strings.unicode_decode(escaped, "UTF-8")
        codes = codes.with_values(tf.where(codes.values == ord(_NUL_SUBSTITUTE), 0, codes.values))
        is_known = alphabet.lookup(tf.cast(codes.values, tf.int64)) > 0
        characters = tf.strings.unicode_encode(codes.values[:, tf.newaxis], "UTF-8")
        numbers = tf.strings.join(["\\", tf.strings.as_string(codes.values), ";"])
        characters = codes.with_values(tf.where(is_known, characters, numbers))
        return tf.strings.join([tf.strings.reduce_join(characters, axis=1), "_"])

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """See `GraphTokenizer`."""
        subwords = tf.where(_is_text(ids), tf.gather(tf.constant(self._subwords), ids), "")
        tokens = tf.strings.split(tf.strings.reduce_join(subwords, axis=1), "_")
        tokens = tf.ragged.boolean_mask(tokens, tokens != "")
        tokens = tokens.with_values(self._unescape(tokens.values))
        is_word = tf.strings.regex_full_match(tokens.values, rf"(?s){_WORD}.*")
        is_after_word = tf.concat([[False], is_word[:-1]], axis=0)[: tf.size(is_word)]
        is_first = _positions(tokens) == 0
        spaces = tf.where(is_word & is_after_word & ~is_first, " ", "")
        return tf.strings.reduce_join(
            tokens.with_values(tf.strings.join([spaces, tokens.values])), axis=1
        )

    def _unescape(self, tokens: tf.Tensor) -> tf.Tensor:
        parts = tensorflow_text.regex_split(tokens, _ESCAPE, keep_delim_regex_pattern=_ESCAPE)
        flat = parts.values
        is_number = tf.strings.regex_full_match(flat, r"\\[0-9]+;")
        digits = tf.strings.regex_replace(flat, r"[\\;]", "")
        # Longer numbers are no characters, and do not fit into int32.
        digits = tf.where(is_number & (tf.strings.length(digits) < 8), digits, "12307")
        codes = tf.strings.to_number(digits, tf.int32)
        is_surrogate = (codes >= 0xD800) & (codes <= 0xDFFF)
        codes = tf.where(is_surrogate | (codes > 0x10FFFF), 0x3013, codes)
        character = tf.strings.unicode_encode(codes[:, tf.newaxis], "UTF-8")
        text = tf.where(is_number, character, flat)
        text = tf.where(flat == "\\u", "_", tf.where(flat == "\\\\", "\\", text))
        return tf.strings.reduce_join(parts.with_values(text), axis=1)

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """See `GraphTokenizer`."""
        return tf.where(ids == PADDING_ID, "", tf.gather(tf.constant(self._subwords), ids))


class GraphWords(GraphTokenizer):
    """`WordTokenizer` in a graph.

    Args:
      words: the words by id.
      pieces: the pieces by id.
      ids: ids of the words of text.
    """

    def __init__(self, words: Sequence[str], pieces: Sequence[str], ids: Mapping[str, int]):
        super().__init__()
        self._words, self._pieces = list(words), list(pieces)
        self._ids = _table(list(ids), list(ids.values()), UNKNOWN_ID)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """See `GraphTokenizer`."""
        words = tf.strings.split(text)
        return _with_end(words.with_values(self._ids.lookup(words.values)))

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """See `GraphTokenizer`."""
        words = tf.gather(tf.constant(self._words), ids)
        words = tf.ragged.boolean_mask(words, _is_text(ids))
        return tf.strings.reduce_join(words, axis=1, separator=" ")

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """See `GraphTokenizer`."""
        return tf.where(ids == PADDING_ID, "", tf.gather(tf.constant(self._pieces), ids))


def _character_table(characters: Sequence[str]) -> tf.lookup.StaticHashTable:
    return _table(
        np.array([ord(character) for character in characters], np.int64), [1] * len(characters)
    )


def _table(
    keys: Sequence[str] | np.ndarray, values: Sequence[int], default_value: int = -1
) -> tf.lookup.StaticHashTable:
    pairs = tf.lookup.KeyValueTensorInitializer(keys, tf.constant(values, tf.int64))
    return tf.lookup.StaticHashTable(pairs, default_value)


def _with_end(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns int32 ids with EOS at the end of each row."""
    ends = tf.RaggedTensor.from_tensor(tf.fill([ids.nrows(), 1], EOS_ID))
    return tf.concat([tf.cast(ids, tf.int32), ends], axis=1)


def _is_text(ids: tf.Tensor) -> tf.Tensor:
    """Returns whether ids [B, L] are text: before the first EOS of the row, and not padding."""
    after_end = tf.cumsum(tf.cast(ids == EOS_ID, tf.int32), axis=1) > 0
    return ~after_end & (ids != PADDING_ID)


def _positions(rows: tf.RaggedTensor) -> tf.Tensor:
    """Returns the position of each value in its row."""
    return tf.ragged.range(rows.row_lengths()).values
