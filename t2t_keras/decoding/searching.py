"""Translations of lines that are read, by the search of an engine."""

from collections.abc import Callable, Sequence

import numpy as np

from t2t_keras.decoding.batching import parallel_batches, shared_batches
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engines.base import Engine, Output
from t2t_keras.decoding.source_text import Source
from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.text.tokenizer import Tokenizer


def search_lines(
    engine: Engine,
    tokenizer: Tokenizer,
    config: DecodeConfig,
    sources: Sequence[Source],
    prefixes: Sequence[np.ndarray],
    first_number: int,
    progress: Callable[[int], object],
) -> list[Translation]:
    """Translates lines, each with all of its parts, in batches of similar length.

    Args:
      engine: searches.
      tokenizer: of its outputs.
      config: how large batches are, and how long outputs.
      sources: lines.
      prefixes: of each, ids that its translation begins with, without an end.
      first_number: of the lines, which the draws of samples depend on.
      progress: takes the number of further parts that are done.
    """
    # The parts of a line by (line, part); its prefix belongs to the first.
    parts = {
        (number, part): ids
        for number, source in enumerate(sources)
        for part, ids in enumerate(source.parts)
    }

    def decoded(outputs: Sequence[Output]) -> list[Hypothesis]:
        texts = tokenizer.decode([each.ids for each in outputs])
        scores = [float(each.score) for each in outputs]
        return list(map(Hypothesis, texts, scores))

    def search(batch: list[tuple[int, int]]) -> list[list[Hypothesis]]:
        begins = [prefixes[number][: None if part == 0 else 0] for number, part in batch]
        # No two of the first 2^24 lines' parts, up to 128 of a line, share a number.
        numbers = [(first_number + number + (part << 24)) & 0x7FFFFFFF for number, part in batch]
        return list(map(decoded, engine.outputs([parts[key] for key in batch], begins, numbers)))

    found, at_once = {}, engine.batches_at_once
    lengths = {key: len(ids) for key, ids in parts.items()}
    batches = shared_batches(lengths, config, at_once)
    for batch, hypotheses in parallel_batches(search, batches, at_once):
        found.update(zip(batch, hypotheses, strict=True))
        progress(len(batch))
    return [
        joined(source, prefix, [found[number, part] for part in range(len(source.parts))], config)
        for number, (source, prefix) in enumerate(zip(sources, prefixes, strict=True))
    ]


def joined(
    source: Source,
    prefix: Sequence[int],
    parts: Sequence[Sequence[Hypothesis]],
    config: DecodeConfig,
) -> Translation:
    """Returns a line's translation from the hypotheses of its parts, best joined with best."""
    if not parts:
        return Translation("", 0.0)
    hypotheses = tuple(
        Hypothesis(" ".join(each.text for each in ranked), sum(each.score for each in ranked))
        for ranked in zip(*parts, strict=False)
    )
    # Its end is not a prefix's.
    most = config.longest_output(len(source.parts[0])) - 1
    return Translation(
        hypotheses[0].text,
        hypotheses[0].score,
        hypotheses,
        parts=tuple(found[0].text for found in parts),
        cut=source.cut,
        prefix_cut=max(len(prefix) - most, 0),
    )
