"""`Translator`: lines of text in, translations out."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from t2t_keras import settings
from t2t_keras.data.tokenizer import EOS_ID, PADDING_ID, Tokenizer
from t2t_keras.decoding.beam_search import BeamSearch
from t2t_keras.decoding.constraints import Constraints, Limits
from t2t_keras.decoding.loop import Cache, Hypotheses, decode
from t2t_keras.errors import UserError
from t2t_keras.settings import setting

# Positions after which what is no longer needed is left behind.
_ROOM = 8


@dataclasses.dataclass(frozen=True)
class DecodeConfig:
    """How to translate; the defaults are the paper's (section 6.1)."""

    beam_size: int = setting(4, "hypotheses that each step keeps; 1 = greedy", minimum=1)
    alpha: float = setting(
        0.6, "length penalty ((5 + length) / 6)^alpha; larger gives longer output", minimum=0.0
    )
    extra_length: int = setting(
        50, "an output has at most this many tokens more than its input", minimum=0
    )
    max_length: int = setting(
        0,
        "tokens that an output has at most, its end counted; 0 = no limit but extra_length",
        minimum=0,
    )
    min_length: int = setting(
        1, "tokens that an output has at least, its end counted, if it may have them", minimum=1
    )
    xla: bool = setting(
        False,
        "compiles the search by XLA: some seconds for each shape of a batch, then faster",
    )
    batch_tokens: int = setting(
        4096,
        "most source tokens, padding counted, that are translated at once; a longer sentence is "
        "translated alone",
        minimum=1,
    )


# tensor2tensor's names, for users who come from there.
_LINEAGE_NAMES = {"batch_size": "batch_tokens"}


def decode_config(changes: str | Mapping[str, Any] = "") -> DecodeConfig:
    """Returns the paper's settings with some changed ("name=value,..." or a mapping).

    Raises:
      UserError: an unknown name, a wrong type or a value out of range.
    """
    return settings.override(
        DecodeConfig(), changes, what="decoding setting", renamed=_LINEAGE_NAMES
    )


@dataclasses.dataclass(frozen=True)
class Translation:
    """One translated line.

    Attributes:
      text: the translation.
      score: log-probability / length penalty (0 is certain); 0 for a blank line.
    """

    text: str
    score: float


class Translator:
    """Translates lines of text with a model and its vocabulary.

    The model's weights are read anew at every call, so one translator can follow a training.

    Args:
      model: a `Transformer`, or what has its `encode`, `start_cache` and `decode_step`.
      tokenizer: the vocabulary that it was trained with.
      config: how to translate.

    Example:
      >>> Translator.from_run("runs/base").translate(["A man sleeps."])
      [Translation(text='Ein Mann schläft.', score=-0.31)]
    """

    def __init__(self, model, tokenizer: Tokenizer, config: DecodeConfig | None = None):
        self.model = model
        self.tokenizer = tokenizer
        self.config = config or DecodeConfig()
        # One graph for all shapes.
        self.search = tf.function(
            self._search,
            input_signature=[tf.TensorSpec([None, None], tf.int32)],
            autograph=False,  # Nothing to convert, and looking for it took most of the start.
        )

    @classmethod
    def from_run(
        cls,
        output_dir: str | Path,
        checkpoint_path: str | Path | None = None,
        decode_hparams: str | Mapping[str, Any] = "",
    ) -> "Translator":
        """Returns a translator of a trained run.

        Args:
          output_dir: the run's directory, as `t2t-trainer` or `t2t-avg-all` wrote it.
          checkpoint_path: a checkpoint's path prefix; default: the run's newest.
          decode_hparams: decoding settings that differ from the paper's, "name=value,..." or a
            mapping.

        Raises:
          UserError: there is no run or no checkpoint, it cannot be read, a setting is wrong, or
            Keras runs on another backend than TensorFlow.
        """
        from t2t_keras.training.checkpoints import load_weights, newest_checkpoint
        from t2t_keras.training.run_record import RunRecord

        if keras.backend.backend() != "tensorflow":
            raise UserError(
                f"Translating needs TensorFlow: KERAS_BACKEND is {keras.backend.backend()}. Leave "
                f"it unset."
            )
        config = decode_config(decode_hparams)
        record = RunRecord.load(output_dir)
        model = record.make_model()
        load_weights(model, checkpoint_path or newest_checkpoint(output_dir))
        return cls(model, record.tokenizer, config)

    def translate(self, lines: Sequence[str], show_progress: bool = False) -> list[Translation]:
        """Translates each line; a blank line gives a blank line.

        Args:
          lines: the source text.
          show_progress: whether a progress line is shown where standard error is a terminal.

        Returns:
          One `Translation` a line, in the order of `lines`.

        Raises:
          UserError: the model computes something that is not a number.
        """
        translations = [Translation("", 0.0)] * len(lines)
        numbers = [number for number, line in enumerate(lines) if line.strip()]
        sources = dict(
            zip(numbers, self.tokenizer.encode([lines[i] for i in numbers]), strict=True)
        )
        with tqdm(
            total=len(numbers),
            desc="translating",
            unit=" sentences",
            leave=False,
            disable=None if show_progress else True,
        ) as progress:
            for batch in _batches(sources, self.config.batch_tokens):
                for number, translation in zip(
                    batch, self._translate_batch([sources[i] for i in batch]), strict=True
                ):
                    translations[number] = translation
                progress.update(len(batch))
        return translations

    def _translate_batch(self, sources: Sequence[np.ndarray]) -> list[Translation]:
        padded = np.full([len(sources), max(map(len, sources))], PADDING_ID, np.int32)
        for row, source in zip(padded, sources, strict=True):
            row[: len(source)] = source
        ids, scores = self.search(padded)
        scores = scores.numpy()[:, 0]
        if not np.isfinite(scores).all():
            raise UserError(
                "The model gives no probabilities (NaN or infinite): its weights are damaged, or "
                "its training had diverged. Use another checkpoint."
            )
        texts = self.tokenizer.decode(ids.numpy()[:, 0])
        return [Translation(text, float(score)) for text, score in zip(texts, scores, strict=True)]

    def _search(self, source: tf.Tensor) -> Hypotheses:
        """Translates ids.

        Args:
          source: int32 [B, S], each row with its end of sentence, then padding.

        Returns:
          The best hypothesis of each: ids int32 [B, 1, L], scores float32 [B, 1].
        """
        model, beam_size = self.model, self.config.beam_size
        memory, memory_mask = model.encode(source, training=False)
        sentence = model.start_cache(memory, memory_mask, _ROOM, beam_size)
        past, recent = sentence.pop("past"), sentence.pop("recent")

        def step(previous, index, place, legal, cache: Cache):
            logits, extended = model.decode_step(
                previous,
                index,
                {**cache.sentence, "past": cache.past, "recent": cache.recent},
                place,
                legal,
            )
            return logits, extended["recent"]

        constraints = Constraints(self.config.min_length, eos_id=EOS_ID, padding_id=PADDING_ID)
        return decode(
            step,
            Cache(sentence, past, recent),
            Limits(
                self._max_lengths(source),
                prefixes=tf.zeros_like(source[:, :0]),
                numbers=tf.range(tf.shape(source)[0]),
            ),
            BeamSearch(beam_size, self.config.alpha, constraints=constraints),
            room=_ROOM,
            reach=model.config["self_attention_radius"],
            padding_id=PADDING_ID,
            xla=self.config.xla,
        )

    def _max_lengths(self, source: tf.Tensor) -> tf.Tensor:
        """Returns how many tokens the translation of each row may have, int32 [B]."""
        lengths = tf.math.count_nonzero(source != PADDING_ID, axis=1, dtype=tf.int32)
        lengths += self.config.extra_length
        return tf.minimum(lengths, self.config.max_length) if self.config.max_length else lengths


def _batches(sources: Mapping[int, np.ndarray], batch_tokens: int) -> Iterator[list[int]]:
    """Yields keys of sources of similar length, the longest first: memory is tested at once."""
    longest_first = sorted(sources, key=lambda number: -len(sources[number]))
    start = 0
    while start < len(longest_first):
        rows = max(1, batch_tokens // len(sources[longest_first[start]]))
        yield longest_first[start : start + rows]
        start += rows
