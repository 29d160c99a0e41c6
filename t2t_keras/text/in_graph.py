"""Tokenizers in a TensorFlow graph, for exports: the same ids and texts as in Python."""

import hashlib
from typing import Any

import tensorflow as tf
import tensorflow_text

from t2t_keras.environment import hold_back_stderr
from t2t_keras.special_ids import PADDING_ID, SPACE


class GraphTokenizer(tf.Module):
    """Base of all tokenizers in a graph; `tf.saved_model.save` saves them with their module."""

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
    """Wraps TensorFlow Text's `SentencepieceTokenizer`, and keeps spaces at the start of a text.

    TensorFlow Text drops all of them; SentencePiece drops only the one it puts before the first
    word. So `detokenize` puts a letter in front, and removes it together with that one space.
    """

    def __init__(self, model_bytes: bytes):
        super().__init__()
        self._tokenizer = graph_processor(model_bytes, out_type=tf.int32, add_eos=True)
        ids = tf.range(self._tokenizer.vocab_size())
        pieces = [piece.decode() for piece in self._tokenizer.id_to_string(ids).numpy()]
        self._letter_id = next(
            i for i, piece in enumerate(pieces) if len(piece) == 1 and piece.isalnum()
        )
        letter_bytes = len(pieces[self._letter_id].encode())
        first = self._tokenizer.tokenize(pieces[self._letter_id])[0]
        puts_space_first = pieces[first].startswith(SPACE)
        # Bytes to remove, by the first id.
        self._prefix_bytes = [
            letter_bytes + (puts_space_first and piece.startswith(SPACE)) for piece in pieces
        ]

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """See `GraphTokenizer`."""
        return self._tokenizer.tokenize(text)

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """See `GraphTokenizer`."""
        with_letter = tf.pad(ids, [[0, 0], [1, 0]], constant_values=self._letter_id)
        text = self._tokenizer.detokenize(with_letter)
        # ids[:, 0] would fail for an empty batch.
        first = tf.reduce_max(ids[:, :1], axis=1)
        start = tf.gather(tf.constant(self._prefix_bytes, tf.int32), first)
        return tf.strings.substr(text, start, tf.strings.length(text) - start)

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """See `GraphTokenizer`."""
        return tf.where(ids == PADDING_ID, "", self._tokenizer.id_to_string(ids))


def graph_processor(model_bytes: bytes, **options: Any) -> tensorflow_text.SentencepieceTokenizer:
    """Returns TensorFlow Text's tokenizer of a SentencePiece model."""
    # In a SavedModel, tokenizers with one name are shared, so each model needs its own name.
    name = f"model_{hashlib.sha256(model_bytes).hexdigest()}"
    with hold_back_stderr():  # SentencePiece warns that it does not normalise, which is intended.
        return tensorflow_text.SentencepieceTokenizer(model_bytes, name=name, **options)
