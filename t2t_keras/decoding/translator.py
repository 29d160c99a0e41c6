"""`Translator`: lines of text in, translations out."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.data.tokenizer import EOS_ID, PADDING_ID, Tokenizer
from t2t_keras.decoding.attention_weights import AttentionWeights
from t2t_keras.decoding.batching import batches, padded, padded_to_few_shapes
from t2t_keras.decoding.beam_search import BeamSearch
from t2t_keras.decoding.config import DecodeConfig, decode_config
from t2t_keras.decoding.constraints import Constraints, Limits
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.forbidden import forbidden_sequences
from t2t_keras.decoding.loop import Hypotheses, decode
from t2t_keras.decoding.probability_checks import check_found, check_numbers
from t2t_keras.decoding.sampling import Sampling
from t2t_keras.decoding.source_text import encode_text, read_pairs, read_sources
from t2t_keras.decoding.translation import Hypothesis, PairScore, Translation, joined
from t2t_keras.errors import UserError

# Positions after which what is no longer needed is left behind.
_ROOM = 8
_IDS = tf.TensorSpec([None, None], tf.int32)


class Translator:
    """Translates lines of text with a model, or several, and their vocabulary.

    The models' weights are read anew at every call, so one translator can follow a training.

    Args:
      models: a `Transformer`, or what has its `encode`, `start_cache` and `decode_step`; several in
        a list translate together, by the mean of their probabilities.
      tokenizer: the vocabulary that they were trained with.
      config: how to translate.
      forbidden: words or phrases that no translation may hold.

    Attributes:
      tokenizer, config, forbidden: as given.

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
    ):
        self.tokenizer = tokenizer
        self.config = config or DecodeConfig()
        self.forbidden = tuple(forbidden)
        self._ensemble = Ensemble(
            models if isinstance(models, Sequence) else [models],
            with_coverage=self.config.coverage_penalty > 0,
        )
        self._constraints = Constraints(
            self.config.min_length,
            forbidden_sequences(forbidden, tokenizer),
            eos_id=EOS_ID,
            padding_id=PADDING_ID,
        )
        # One graph each for all shapes. There is nothing to convert for autograph, and looking for
        # it took most of the start.
        scalar, numbers = tf.TensorSpec([], tf.float32), tf.TensorSpec([None], tf.int32)
        self._search = tf.function(
            self._search_graph, input_signature=[_IDS, _IDS, numbers, scalar], autograph=False
        )
        self._log_probs = tf.function(
            self._ensemble.log_probs, input_signature=[_IDS, _IDS], autograph=False
        )
        self._attention = tf.function(
            lambda source, target: self.models[0].attention_weights(
                {"source": source, "target": target}
            ),
            input_signature=[_IDS, _IDS],
            autograph=False,
        )

    @property
    def models(self) -> tuple:
        """The models, in the order that they were given in."""
        return self._ensemble.models

    @classmethod
    def from_run(
        cls,
        output_dir: str | Path,
        checkpoint_path: str | Path | None = None,
        decode_hparams: str | Mapping[str, Any] = "",
        ensemble: Sequence[str | Path] = (),
        forbidden: Sequence[str] = (),
    ) -> "Translator":
        """Returns a translator of a trained run, or of several together.

        Args:
          output_dir: the run's directory, as `t2t-trainer` or `t2t-avg-all` wrote it.
          checkpoint_path: a checkpoint's path prefix; default: the run's newest.
          decode_hparams: decoding settings that differ from the paper's for the run's problem,
            "name=value,..." or a mapping.
          ensemble: more models to translate with, each the directory of a run or the path prefix of
            a checkpoint in one; they may be of other hyperparameter sets.
          forbidden: words or phrases that no translation may hold.

        Raises:
          UserError: there is no run or no checkpoint, it cannot be read, a setting is wrong, the
            runs have different vocabularies, or Keras runs on another backend than TensorFlow.
        """
        from t2t_keras.training.checkpoints import load_weights, newest_checkpoint
        from t2t_keras.training.run_record import RunRecord

        record = RunRecord.load(output_dir)
        translator = cls.from_record(record, decode_hparams, ensemble, forbidden)
        load_weights(translator.models[0], checkpoint_path or newest_checkpoint(output_dir))
        return translator

    @classmethod
    def from_record(
        cls,
        record,
        decode_hparams: str | Mapping[str, Any] = "",
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
        tokenizer, config = record.tokenizer, decode_config(decode_hparams, record.problem.decoding)
        models = [record.make_model(), *load_models(ensemble, tokenizer)]
        return cls(models, tokenizer, config, forbidden)

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

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[PairScore]:
        """Returns how likely the model finds each target as the translation of its source.

        Raises:
          UserError: a line is no text, there are not as many sources as targets, or the model
            computes something that is not a number.
        """
        scores: list[PairScore | None] = [None] * len(sources)
        encoded = read_pairs(sources, targets, self.tokenizer, self.config.max_input_length)
        for batch, source, target in self._pairs(*encoded):
            found = self._log_probs(source, target).numpy()
            check_numbers(found)
            for number, row, ids in zip(batch, found, target, strict=True):
                of_tokens = row[ids != PADDING_ID]
                scores[number] = PairScore(float(of_tokens.sum(dtype=np.float64)), of_tokens)
        return scores

    def attention(self, sources: Sequence[str], targets: Sequence[str]) -> list[AttentionWeights]:
        """Returns where the model looks for each pair of a source and its translation.

        Raises:
          UserError: as `score`; or this is an ensemble, whose models look in different places.
        """
        most = self.config.max_input_length
        return self.attention_of_ids(*read_pairs(sources, targets, self.tokenizer, most))

    def attention_of_ids(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[AttentionWeights]:
        """`attention` of int32 arrays, however long, each with its end of sentence."""
        if len(self.models) > 1:
            raise UserError(
                f"Attention is that of one model; this is an ensemble of {len(self.models)}. Give "
                f"one checkpoint."
            )
        weights: list[AttentionWeights | None] = [None] * len(sources)
        for batch, source, target in self._pairs(sources, targets):
            found = {name: each.numpy() for name, each in self._attention(source, target).items()}
            check_numbers(found["cross"])
            for row, number in enumerate(batch):
                m, n = len(sources[number]), len(targets[number])
                weights[number] = AttentionWeights(
                    tuple(self.tokenizer.pieces(source[row, :m])),
                    tuple(self.tokenizer.pieces(target[row, :n])),
                    encoder=found["encoder"][row, :, :, :m, :m],
                    decoder=found["decoder"][row, :, :, :n, :n],
                    cross=found["cross"][row, :, :, :n, :m],
                )
        return weights

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
        """
        source = tf.convert_to_tensor(source)
        return self._search(
            source,
            tf.zeros_like(source[:, :0]) if prefixes is None else prefixes,
            tf.range(tf.shape(source)[0]) if numbers is None else numbers,
            self.config.alpha if alpha is None else alpha,
        )

    def _translate_chunk(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str],
        first_number: int,
        progress: Callable[[int], object],
    ) -> list[Translation]:
        config = self.config
        sources = read_sources(lines, self.tokenizer, config.max_input_length, config.split_long)
        begun = [ids[:-1] for ids in encode_text(prefixes, self.tokenizer)]
        # The parts of a line by (line, part); its prefix belongs to the first.
        parts = {
            (number, part): ids
            for number, source in enumerate(sources)
            for part, ids in enumerate(source.parts)
        }
        found = {}
        lengths = {key: len(ids) for key, ids in parts.items()}
        for batch in batches(lengths, config.batch_tokens, few_shapes=config.xla):
            begins = [begun[number] if part == 0 else begun[number][:0] for number, part in batch]
            # A line's parts are told apart from other lines.
            numbers = [first_number + number + (part << 24) for number, part in batch]
            translated = self._translate_batch([parts[key] for key in batch], begins, numbers)
            found.update(zip(batch, translated, strict=True))
            progress(len(batch))
        return [
            joined([found[number, part] for part in range(len(source.parts))], source.cut)
            for number, source in enumerate(sources)
        ]

    def _translate_batch(
        self,
        sources: Sequence[np.ndarray],
        prefixes: Sequence[np.ndarray],
        numbers: Sequence[int],
    ) -> list[list[Hypothesis]]:
        numbers = np.array(numbers) & 0x7FFFFFFF
        if self.config.xla:
            source = padded_to_few_shapes(sources, self.config.batch_tokens)
            added = len(source) - len(sources)
            prefixes = padded_to_few_shapes([*prefixes, *[prefixes[0][:0]] * added], len(source))
            numbers = np.pad(numbers, [0, added])
        else:
            source, prefixes = padded(sources), padded(prefixes)
        ids, scores = self.search(source, prefixes, numbers.astype(np.int32))
        ids, scores = ids.numpy()[: len(sources)], scores.numpy()[: len(sources)]
        check_found(scores)
        return [
            [
                Hypothesis(text, float(score))
                for text, score in zip(self.tokenizer.decode(row), row_scores, strict=True)
                if np.isfinite(score)
            ]
            for row, row_scores in zip(ids, scores, strict=True)
        ]

    def _pairs(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
        """Yields batches of pairs: their numbers, and padded ids of the sources and the targets."""
        sizes = dict(enumerate(map(max, map(len, sources), map(len, targets))))
        for batch in batches(sizes, self.config.batch_tokens):
            arrays = (padded([side[number] for number in batch]) for side in (sources, targets))
            yield (batch, *arrays)

    def _search_graph(
        self, source: tf.Tensor, prefixes: tf.Tensor, numbers: tf.Tensor, alpha: tf.Tensor
    ) -> Hypotheses:
        config = self.config
        rule = self._rule(alpha)
        if config.coverage_penalty:
            covered = tf.cast(source == PADDING_ID, tf.float32)
        else:
            covered = tf.zeros([tf.shape(source)[0], 0])
        return decode(
            self._ensemble.step,
            self._ensemble.start(source, _ROOM, rule.places),
            Limits(self._max_lengths(source), prefixes, numbers, covered),
            rule,
            room=_ROOM,
            reach=self._ensemble.reach,
            padding_id=PADDING_ID,
            xla=config.xla,
        )

    def _rule(self, alpha: tf.Tensor) -> BeamSearch | Sampling:
        config = self.config
        if not config.samples:
            return BeamSearch(
                config.beam_size,
                alpha,
                config.num_hypotheses,
                config.coverage_penalty,
                self._constraints,
            )
        return Sampling(
            config.num_hypotheses,
            alpha,
            config.temperature,
            config.top_k,
            config.top_p,
            config.seed,
            self._constraints,
        )

    def _max_lengths(self, source: tf.Tensor) -> tf.Tensor:
        """Returns how many tokens the translation of each row may have, int32 [B].

        A row of nothing but padding is there for its shape only, and ends at once.
        """
        lengths = tf.math.count_nonzero(source != PADDING_ID, axis=1, dtype=tf.int32)
        most = self.config.max_length or tf.int32.max
        return tf.where(lengths == 0, 1, tf.minimum(lengths + self.config.extra_length, most))
