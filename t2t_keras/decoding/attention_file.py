"""The file of attention weights: for each line five NumPy arrays, one after the other.

They are the pieces of the source, the pieces of its translation, and the weights `encoder`,
`decoder` and `cross`, as `AttentionWeights` has them:

    with open(path, "rb") as file:
        source, target, encoder, decoder, cross = (np.load(file) for _ in range(5))

The next five are those of the next line; behind the last line, `np.load` raises `EOFError`.
"""

import io
from collections.abc import Iterator, Sequence

import numpy as np

from t2t_keras.data.tokenizer import EOS_ID
from t2t_keras.decoding.attention_weights import AttentionWeights
from t2t_keras.decoding.source_text import encode_text, read_sources
from t2t_keras.decoding.translation import Translation
from t2t_keras.decoding.translator import Translator

# Weights grow with the square of the length: of the base model, a line of 512 pieces and as long a
# translation have 150 MB.
_LINES_AT_ONCE = 8

_BLANK = np.array([EOS_ID], np.int32)


def attention_records(
    translator: Translator, lines: Sequence[str], translations: Sequence[Translation]
) -> Iterator[bytes]:
    """Yields what the file has for each line: the attention for its best translation.

    A line is taken as it was translated: prepared, and cut where it was too long. Of a blank line
    there are the ends of sentence alone.

    Args:
      translator: of one model, which does not split lines.
      lines: the source text.
      translations: what the translator made of it.

    Raises:
      UserError: the model computes something that is not a number.
    """
    for start in range(0, len(lines), _LINES_AT_ONCE):
        some = slice(start, start + _LINES_AT_ONCE)
        sources = read_sources(
            [translator.problem.prepared(line) for line in lines[some]],
            translator.tokenizer,
            translator.config.max_input_length,
            split_long=False,
        )
        ids = [source.parts[0] if source.parts else _BLANK for source in sources]
        texts = [translation.text for translation in translations[some]]
        for found in translator.attention_of_ids(ids, encode_text(texts, translator.tokenizer)):
            yield _record(found)


def _record(found: AttentionWeights) -> bytes:
    record = io.BytesIO()
    pieces = np.array(found.source), np.array(found.target)
    for array in (*pieces, found.encoder, found.decoder, found.cross):
        np.save(record, array, allow_pickle=False)
    return record.getvalue()
