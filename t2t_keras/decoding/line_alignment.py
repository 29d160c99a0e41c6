"""Word alignments of lines with their translations, as they were translated: cut, or in parts."""

from collections.abc import Sequence

from t2t_keras.decoding.attention_weights import word_alignment
from t2t_keras.decoding.source_text import encode_text, read_sources
from t2t_keras.decoding.translation import Translation
from t2t_keras.decoding.translator import Translator


def line_alignments(
    translator: Translator, lines: Sequence[str], translations: Sequence[Translation]
) -> list[list[tuple[int, int]]]:
    """Aligns each word of the translations with the source word that it attends to most.

    A word that a line was cut before is aligned with none. The sentences of a line that was split
    are aligned one by one.

    Args:
      translator: what has translated, with one model.
      lines: the source text.
      translations: of the lines.

    Returns:
      For each line, pairs (source word, target word), counted from 0 as spaces divide them.

    Raises:
      UserError: the translator is an ensemble, or the model computes something that is not a
        number.
    """
    config = translator.config
    sources = read_sources(lines, translator.tokenizer, config.max_input_length, config.split_long)
    # A line of the table for each part: the line's number, its ids, its translation, and the words
    # of the line and of its translation that stand before it.
    parts = []
    for number, (source, translation) in enumerate(zip(sources, translations, strict=True)):
        words = 0
        for ids, first, text in zip(
            source.parts, source.first_words, translation.parts, strict=True
        ):
            parts.append((number, ids, text, first, words))
            words += len(text.split())
    targets = encode_text([text for _, _, text, _, _ in parts], translator.tokenizer)
    found = translator.attention_of_ids([ids for _, ids, _, _, _ in parts], targets)
    alignments: list[list[tuple[int, int]]] = [[] for _ in lines]
    for (number, _, _, first, words), weights in zip(parts, found, strict=True):
        alignments[number] += [
            (first + source, words + target) for source, target in word_alignment(weights)
        ]
    return alignments
