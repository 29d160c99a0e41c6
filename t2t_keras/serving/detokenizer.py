"""Ids to text inside a graph."""

from collections.abc import Callable

import tensorflow as tf

from t2t_keras.data.word_ids import SPACE


def graph_detokenizer(graph_tokenizer) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a graph function: ids int32 [B, L] -> strings [B], as `Tokenizer.decode` gives them.

    TensorFlow Text drops all spaces at the start of a text, `Tokenizer.decode` only the one that
    SentencePiece puts before the first word. So a letter is put in front and taken away again,
    with that one space.

    Args:
      graph_tokenizer: as `Tokenizer.graph_tokenizer` returns it.
    """
    pieces = [
        piece.decode()
        for piece in graph_tokenizer.id_to_string(tf.range(graph_tokenizer.vocab_size())).numpy()
    ]
    letter = next(i for i, piece in enumerate(pieces) if len(piece) == 1 and piece.isalnum())
    letter_bytes = len(pieces[letter].encode())
    puts_space_first = pieces[graph_tokenizer.tokenize(pieces[letter])[0]].startswith(SPACE)
    # The bytes to take away, by the first id.
    taken = [letter_bytes + (puts_space_first and piece.startswith(SPACE)) for piece in pieces]

    def detokenize(ids: tf.Tensor) -> tf.Tensor:
        text = graph_tokenizer.detokenize(tf.pad(ids, [[0, 0], [1, 0]], constant_values=letter))
        # Not ids[:, 0], which an empty batch does not have.
        first = tf.reduce_max(ids[:, :1], axis=1)
        start = tf.gather(tf.constant(taken, tf.int32), first)
        return tf.strings.substr(text, start, tf.strings.length(text) - start)

    return detokenize
