"""`Translator`: lines of text in, translations out."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.data.problem import Problem
from t2t_keras.data.tokenizer import EOS_ID, PADDING_ID, Tokenizer
from t2t_keras.decoding.attention_weights import AttentionWeights
from t2t_keras.decoding.config import DecodeConfig, decode_config
from t2t_keras.decoding.constraints import Constraints
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.forbidden import forbidden_sequences, word_boundaries
from t2t_keras.decoding.given_pairs import GivenPairs
from t2t_keras.decoding.line_alignment import line_alignments
from t2t_keras.decoding.line_search import LineSearch
from t2t_keras.decoding.loop import Hypotheses
from t2t_keras.decoding.search import Search
from t2t_keras.decoding.source_text import (
    Source,
    check_lines,
    check_one_each,
    check_several,
    encode_text,
    read_pairs,
    read_sources,
)
from t2t_keras.decoding.translation import Hypothesis, PairScore, Translation, joined
from t2t_keras.errors import UserError


class Translator:
    """Translates lines of text with a model, or several, and their vocabulary.

    The models' weights are read anew at every call, so one translator can follow a training.

    Args:
      models: a `Transformer`, or what has its `encode`, `start_cache` and `decode_step`; several in
        a list translate together, by the mean of their probabilities.
      tokenizer: the vocabulary that they were trained with.
      config: how to translate.
      forbidden: words or phrases that no translation may hold, see `forbidden_sequences`.
      problem: what they were trained for; it prepares lines and finishes outputs. Default: lines
        and outputs stay as they are.

    Attributes:
      tokenizer, config, forbidden, problem: as given.

    Raises:
      UserError: the models do not fit together.

    Example:
      >>> Translator.from_run("runs/base").translate(["A man sleeps."])
      [Translation(text='Ein Mann schläft.', score=-0.31, ...)]
    """

    def __init__(
        self,
        models,
        tokenizer: Tokenizer,
        config: DecodeConfig | None = None,
        forbidden: Sequence[str] = (),
        problem: Problem | None = None,
    ):
        self.tokenizer = tokenizer
        self.config = config or DecodeConfig()
        self.forbidden = tuple(forbidden)
        self.problem = problem or Problem()
        self._ensemble = Ensemble(
            models if isinstance(models, Sequence) else [models],
            with_coverage=self.config.coverage_penalty > 0,
        )
        self._search = Search(
            self._ensemble,
            self.config,
            Constraints(
                self.config.min_length,
                forbidden_sequences(forbidden, tokenizer),
                word_boundaries(tokenizer) if forbidden else (),
                eos_id=EOS_ID,
                padding_id=PADDING_ID,
            ),
        )
        self._line_search = LineSearch(self._search, tokenizer, self.config)
        self._pairs = GivenPairs(self._ensemble, self.config)

    @property
    def models(self) -> tuple:
        """The models, in the order that they were given in."""
        return self._ensemble.models

    @classmethod
    def from_run(
        cls,
        output_dir: str | Path,
        checkpoint_path: str | Path | None = None,
        decode_hparams: str | Mapping[str, Any] | DecodeConfig = "",
        ensemble: Sequence[str | Path] = (),
        forbidden: Sequence[str] = (),
    ) -> "Translator":
        """Returns a translator of a trained run, or of several together.

        Args:
          output_dir: the run's directory, as `t2t-trainer` or `t2t-avg-all` wrote it.
          checkpoint_path: a checkpoint's path prefix; default: the run's newest.
          decode_hparams: decoding settings that differ from the paper's for the run's problem,
            "name=value,..." or a mapping; or all of them.
          ensemble: more models to translate with, each the directory of a run or the path prefix of
            a checkpoint in one; they may be of other hyperparameter sets.
          forbidden: words or phrases that no translation may hold.

        Raises:
          UserError: there is no run or no checkpoint, it cannot be read, a setting is wrong, the
            runs have different vocabularies, or Keras runs on another backend than TensorFlow.
        """
        from t2t_keras.decoding.trained_model import checkpoint_at
        from t2t_keras.training.checkpoints import load_weights
        from t2t_keras.training.run_record import RunRecord

        record = RunRecord.load(output_dir)
        translator = cls.from_record(record, decode_hparams, ensemble, forbidden)
        load_weights(translator.models[0], checkpoint_at(checkpoint_path or output_dir))
        return translator

    @classmethod
    def from_record(
        cls,
        record,
        decode_hparams: str | Mapping[str, Any] | DecodeConfig = "",
        ensemble: Sequence[str | Path] = (),
        forbidden: Sequence[str] = (),
    ) -> "Translator":
        """Returns a translator of a run's model, whose weights `load_weights` has yet to give it.

        Args:
          record: the run's `RunRecord`.
          decode_hparams: as for `from_run`.
          ensemble: as for `from_run`; these models are loaded.
          forbidden: as for `from_run`.

        Raises:
          UserError: as `from_run`.
        """
        from t2t_keras.decoding.trained_model import load_models

        if keras.backend.backend() != "tensorflow":
            raise UserError(
                f"Translating needs TensorFlow: KERAS_BACKEND is {keras.backend.backend()}. Leave "
                f"it unset."
            )
        tokenizer, config = record.tokenizer, decode_hparams
        if not isinstance(config, DecodeConfig):
            config = decode_config(decode_hparams, record.problem.decoding)
        dtype = config.weights_dtype
        models = [record.make_model(dtype), *load_models(ensemble, tokenizer, dtype)]
        return cls(models, tokenizer, config, forbidden, record.problem)

    def translate(
        self, lines: Sequence[str], prefixes: Sequence[str] | None = None
    ) -> list[Translation]:
        """Translates each line; a blank line gives a blank line.

        Args:
          lines: the source text.
          prefixes: how each translation must begin; "" = anyhow.

        Returns:
          One `Translation` a line, in the order of `lines`.

        Raises:
          UserError: a line is no text, there is another number of prefixes than of lines, no
            translation is possible under the constraints, or the model computes something that is
            not a number.
        """
        check_several(lines)
        if prefixes is not None:
            check_one_each(lines, prefixes, "prefix, which may be blank")
        return list(self.translate_stream(lines, prefixes))

    def translate_stream(
        self,
        lines: Iterable[str],
        prefixes: Iterable[str] | None = None,
        first_number: int = 0,
        progress: Callable[[int], object] = lambda count: None,
    ) -> Iterator[Translation]:
        """Translates lines as they come, `lines_at_once` of them at a time.

        Args:
          lines: the source text.
          prefixes: how each translation must begin.
          first_number: the number of the first line, which the draws of samples depend on.
          progress: is told how many more lines, or sentences of split lines, are translated.

        Yields:
          One `Translation` a line, in the order of `lines`.

        Raises:
          UserError: as `translate`.
        """
        check_several(lines)
        lines = iter(lines)
        prefixes = iter(prefixes) if prefixes is not None else itertools.repeat("")
        while chunk := list(itertools.islice(lines, self.config.lines_at_once)):
            begun = list(itertools.islice(prefixes, len(chunk)))
            if len(begun) < len(chunk):
                raise UserError(
                    f"There are {first_number + len(begun)} prefixes for at least "
                    f"{first_number + len(chunk)} lines: give one for each line; it may be blank."
                )
            yield from self._translate_chunk(chunk, begun, first_number, progress)
            first_number += len(chunk)

    def score(
        self, sources: Sequence[str], targets: Sequence[str], names: Sequence[str] = ()
    ) -> list[PairScore]:
        """Returns how likely the model finds each target as the translation of its source.

        Args:
          sources: text.
          targets: their translations.
          names: what pairs are called in errors; default: by their number from 1.

        Raises:
          UserError: a line is no text, a side has more than `max_input_length` tokens, there are
            not as many sources as targets, or the model computes something that is not a number.
        """
        found = dict(self._pairs.log_probs(*self._encoded_pairs(sources, targets, names)))
        return [
            PairScore(float(found[number].sum(dtype=np.float64)), found[number])
            for number in range(len(sources))
        ]

    def attention(self, sources: Sequence[str], targets: Sequence[str]) -> list[AttentionWeights]:
        """Returns where the model looks for each pair of a source and its translation.

        Raises:
          UserError: as `score`; or this is an ensemble, whose models look in different places.
        """
        return self.attention_of_ids(*self._encoded_pairs(sources, targets))

    def attention_of_ids(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[AttentionWeights]:
        """`attention` of int32 arrays, however long, each with its end of sentence."""
        pieces, found = self.tokenizer.pieces, dict(self._pairs.attention(sources, targets))
        return [
            AttentionWeights(tuple(pieces(source)), tuple(pieces(target)), **found[number])
            for number, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]

    def align(
        self, lines: Sequence[str], translations: Sequence[Translation]
    ) -> list[list[tuple[int, int]]]:
        """Aligns the words of translations with those of their sources, by attention.

        A word is aligned with the source word that the model attends to most, unless the problem
        has another way (see `Problem.aligned`). The attention is the mean over the heads of the
        last layer but one, and over the models. A word that a line was cut before is aligned with
        none.

        Args:
          lines: the source text.
          translations: what `translate` made of it.

        Returns:
          For each line, pairs (source word, target word) of `word_numbers`, by target word.

        Raises:
          UserError: there are not as many translations as lines, or the model computes something
            that is not a number.
        """
        check_one_each(lines, translations, "translation, as `translate` returned it")
        return self._aligned(self._read(self._prepared(lines)), translations)

    def check_one_model(self) -> None:
        """Raises `UserError` where this is an ensemble, which has no `attention`."""
        self._pairs.check_one_model()

    def search(
        self,
        source: tf.Tensor,
        prefixes: tf.Tensor | None = None,
        numbers: tf.Tensor | None = None,
        alpha: float | tf.Tensor | None = None,
    ) -> Hypotheses:
        """Translates ids; in a graph as well.

        Args:
          source: int32 [B, S], each row with its end of sentence, then padding.
          prefixes: int32 [B, P], how each output begins, then padding; default: anyhow.
          numbers: int32 [B], which tell lines apart in sampling; default: 0 to B - 1.
          alpha: exponent of the length penalty, >= 0; default: the setting.

        Returns:
          The hypotheses asked for: ids int32 [B, N, L], scores float32 [B, N].

        Raises:
          UserError: an id is not in the vocabulary. In a graph, nothing looks.
        """
        return self._search(source, prefixes, numbers, alpha)

    def _translate_chunk(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str],
        first_number: int,
        progress: Callable[[int], object],
    ) -> list[Translation]:
        lines = self._prepared(lines)
        sources = self._read(lines)
        begun = [ids[:-1] for ids in encode_text(prefixes, self.tokenizer)]
        found = self._line_search(sources, begun, first_number, progress)
        translations = list(map(self._translation, sources, begun, found))
        return self._finished(lines, sources, translations)

    def _translation(
        self, source: Source, prefix: np.ndarray, parts: Sequence[Sequence[Hypothesis]]
    ) -> Translation:
        first_length = len(source.parts[0]) if parts else 0
        return dataclasses.replace(
            joined(parts),
            cut=source.cut,
            prefix_cut=self._search.prefix_cut(len(prefix), first_length),
        )

    def _finished(
        self, lines: Sequence[str], sources: Sequence[Source], translations: Sequence[Translation]
    ) -> list[Translation]:
        alignments: Sequence = [None] * len(lines)
        if self.problem.finished_by_alignment:
            alignments = list(map(tuple, self._aligned(sources, translations)))
        return [
            dataclasses.replace(
                translation,
                finished=self.problem.finished(line, translation.text, alignment),
                alignment=alignment,
            )
            for line, translation, alignment in zip(lines, translations, alignments, strict=True)
        ]

    def _aligned(
        self, sources: Sequence[Source], translations: Sequence[Translation]
    ) -> list[list[tuple[int, int]]]:
        return line_alignments(
            sources,
            translations,
            self.tokenizer,
            self._pairs.cross_attention,
            self.problem.aligned,
        )

    def _prepared(self, lines: Sequence[str]) -> list[str]:
        check_lines(lines)
        return [self.problem.prepared(line) for line in lines]

    def _read(self, lines: Sequence[str]) -> list[Source]:
        config = self.config
        return read_sources(lines, self.tokenizer, config.max_input_length, config.split_long)

    def _encoded_pairs(
        self, sources: Sequence[str], targets: Sequence[str], names: Sequence[str] = ()
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        most = self.config.max_input_length
        return read_pairs(self._prepared(sources), targets, self.tokenizer, most, names)
