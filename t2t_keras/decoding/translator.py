"""`Translator`: lines of text in, translations out."""

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from t2t_keras.data.problem import Problem, Score
from t2t_keras.decoding.config import DecodeConfig, decode_config
from t2t_keras.decoding.engine import Engine, batches_by_length, parallel_batches
from t2t_keras.decoding.lines import (
    Line,
    LineStage,
    Part,
    StageContext,
    check_equal_counts,
    check_lengths,
    check_lines,
    check_not_string,
    check_stages,
    encode_lines,
    encode_pairs,
    encode_text,
    line_stages,
    merge_notes,
    prepare_line,
)
from t2t_keras.decoding.stored_model import StoredModel
from t2t_keras.decoding.translation import (
    AttentionWeights,
    Hypothesis,
    PairScore,
    Translation,
    one_line,
)
from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError
from t2t_keras.registry import ENGINES
from t2t_keras.text.alignment import Alignment, count_words, word_alignment
from t2t_keras.text.files import normalized
from t2t_keras.text.tokenizer import Tokenizer
from t2t_keras.training.run_config import RunConfig

if TYPE_CHECKING:
    from t2t_keras.decoding.keras_engine import Search


class Translator:
    """Translates lines of text with a model or an ensemble, and their vocabulary.

    The models' weights are read at every call, so one translator can follow a training run.

    Args:
      models: a `Transformer`, or an object with its methods for encoding, decoding step by step
        and scoring; a list of models is an ensemble, whose probability is the mean over models. Or
        an `Engine` with its own models and settings.
      tokenizer: the vocabulary that the models were trained with.
      config: decoding settings.
      forbidden: words or phrases that no translation may contain, see `forbidden_sequences`.
      problem: the task that the models were trained for; it preprocesses lines and postprocesses
        outputs. Default: a problem that changes nothing.
      stages: stages that change a line before and after the model; default: those registered for
        these settings and this problem.

    Attributes:
      engine: searches and scores ids, without any text.
      run_config: config of the run that trained the models; None = unknown.
      checkpoint_identity: the `identity` of the first model's checkpoint; None = unknown.

    Tokenizer, config, forbidden, problem and stages are attributes too.

    Raises:
      UserError: the models do not fit together.

    Example:
      >>> Translator.from_run("runs/base").translate(["A man sleeps."])
      [Translation('Ein Mann schläft.', score=-0.31, hypotheses=4)]
    """

    def __init__(
        self,
        models: Any,
        tokenizer: Tokenizer,
        config: DecodeConfig | None = None,
        forbidden: Sequence[str] = (),
        problem: Problem | None = None,
        stages: Sequence[LineStage] | None = None,
    ):
        self.tokenizer = tokenizer
        self.config = config or DecodeConfig()
        self.forbidden = tuple(forbidden)
        self.problem = problem or Problem()
        stages = line_stages(self.config, self.problem) if stages is None else stages
        self.stages = check_stages(stages)
        self.run_config: RunConfig | None = None
        self.checkpoint_identity: dict[str, Any] | None = None
        if not isinstance(models, Engine):
            # Imported here: other engines need neither Keras nor TensorFlow.
            from t2t_keras.decoding.keras_engine import KerasEngine

            models = KerasEngine(models, tokenizer, self.config, forbidden)
        self.engine: Engine = models

    @property
    def models(self) -> tuple:
        """The Keras models; none with another engine."""
        return self.engine.models

    @property
    def search(self) -> "Search":
        """The `Search` of Keras's engine; raises `UserError` for other engines."""
        search = getattr(self.engine, "search", None)
        if search is None:
            raise UserError(
                f"The engine {self.engine.name} has no search. Choose keras.", code="not_supported"
            )
        return search

    @classmethod
    def from_run(
        cls,
        output_dir: str | Path,
        checkpoint_path: str | Path | None = None,
        decode_hparams: str | Mapping[str, Any] | DecodeConfig = "",
        ensemble: Sequence[str | Path] = (),
        forbidden: Sequence[str] = (),
        engine: str = "keras",
    ) -> "Translator":
        """Returns a translator of a trained run, or of an ensemble of runs.

        Args:
          output_dir: the run's folder, as `t2t-trainer` or `t2t-avg-all` wrote it.
          checkpoint_path: a checkpoint; default: the run's newest.
          decode_hparams: changes to the decoding settings of the run's problem, as
            "name=value,..." or a mapping; or a complete `DecodeConfig`.
          ensemble: additional ensemble members: folders of runs, or checkpoints in them; they may
            have other hyperparameters.
          forbidden: words or phrases that no translation may contain.
          engine: the name of a registered engine. "ctranslate2" needs no TensorFlow: `output_dir`
            is then a folder that `t2t-exporter --format=ctranslate2` wrote, or a run that has such
            an export in `ctranslate2/`. The export also holds the default settings.

        Raises:
          UserError: there is no run or no checkpoint, it cannot be read, a setting is wrong, the
            runs have different vocabularies, or Keras's backend or the engine does not support the
            request.
        """
        checkpoint_path = expand_path(checkpoint_path) if checkpoint_path else None
        stored = ENGINES[engine](expand_path(output_dir), checkpoint_path)
        config = decode_config(decode_hparams, stored.defaults)
        return cls.from_stored(stored, config, [*map(expand_path, ensemble)], forbidden)

    @classmethod
    def from_stored(
        cls,
        stored: StoredModel,
        config: DecodeConfig,
        ensemble: Sequence[str | Path] = (),
        forbidden: Sequence[str] = (),
    ) -> "Translator":
        """Returns a translator of a stored model, see `from_run`."""
        run_config, engine = stored.run_config, stored.load(config, ensemble, forbidden)
        translator = cls(engine, run_config.vocabulary, config, forbidden, run_config.problem)
        translator.run_config = run_config
        translator.checkpoint_identity = stored.checkpoint_identity
        return translator

    def with_stages(self, *stages: LineStage) -> "Translator":
        """Returns a translator with the same engine and these stages instead of its own."""
        translator = copy.copy(self)
        translator.stages = check_stages(stages)
        return translator

    def translate(
        self, lines: Sequence[str], prefixes: Sequence[str] | None = None
    ) -> list[Translation]:
        """Translates each line; a blank line gives a blank line.

        Args:
          lines: the source text.
          prefixes: required beginning of each translation; "" = none. Ignored for blank lines.

        Raises:
          UserError: a line is not valid text, the numbers of prefixes and lines differ, no
            translation is possible under the constraints, or the model computes NaN.
        """
        if prefixes is not None:
            check_equal_counts(lines, prefixes, "prefix (which may be blank)")
        return list(self.translate_stream(lines, prefixes))

    def translate_stream(
        self,
        lines: Iterable[str],
        prefixes: Iterable[str] | None = None,
        first_number: int = 0,
        progress: Callable[[int], object] = lambda count: None,
    ) -> Iterator[Translation]:
        """Yields the translation of each line, reading `lines_at_once` lines at a time.

        Args:
          lines: the source text.
          prefixes: see `translate`.
          first_number: number of the first line, which the draws of sampling depend on.
          progress: takes the number of lines (for split lines, sentences) done since the last call.

        Raises:
          UserError: as `translate`.
        """
        check_not_string(lines)
        lines, later_prefixes = iter(lines), iter(() if prefixes is None else prefixes)
        while chunk := list(itertools.islice(lines, self.config.lines_at_once)):
            chunk_prefixes = list(itertools.islice(later_prefixes, len(chunk)))
            if prefixes is not None and len(chunk_prefixes) < len(chunk):
                raise UserError(
                    f"Got {first_number + len(chunk_prefixes)} prefixes for at least "
                    f"{first_number + len(chunk)} lines. Give one per line; it may be blank.",
                    code="unequal_counts",
                )
            prepared = self.prepare(chunk, chunk_prefixes, first_number)
            self.search_parts([part for line in prepared for part in line.parts], None, progress)
            alignments: Sequence[Alignment | None] = [None] * len(prepared)
            if self.problem.postprocess_by_alignment:
                outputs = [[part.hypotheses[0].text for part in line.parts] for line in prepared]
                alignments = list(map(tuple, self._align(prepared, outputs)))
            yield from map(self._to_translation, prepared, alignments)
            first_number += len(chunk)

    def prepare(
        self, lines: Sequence[str], prefixes: Sequence[str] = (), first_number: int = 0
    ) -> list[Line]:
        """Returns lines ready for the model: in NFC, prepared, encoded, and cut or split."""
        check_lines(lines)
        prepared = [prepare_line(normalized(line), self.stages) for line in lines]
        encode_lines(prepared, self, prefixes, first_number)
        return prepared

    def search_parts(
        self,
        parts: Sequence[Part],
        num_stages: int | None = None,
        progress: Callable[[int], object] = lambda count: None,
    ) -> None:
        """Finds hypotheses of parts; all stages rank them, and the first `num_stages` mend them.

        Args:
          parts: parts of prepared lines.
          num_stages: number of stages that mend; None = all.
          progress: takes the number of parts done since the last call.
        """
        self._search_in_batches(self.engine, parts, progress)
        if self.stages:
            self._rank_and_mend(parts, num_stages)

    def _rank_and_mend(self, parts: Sequence[Part], num_stages: int | None) -> None:
        """Moves the hypotheses without faults to the front, and lets stages mend the others."""
        faulty_parts = [part for part in parts if any(part.costs(1)[0])]
        if faulty_parts and (engine := self.engine.with_all_hypotheses()) is not self.engine:
            # Search again only if needed, as the engine may have to compile another search.
            self._search_in_batches(engine, faulty_parts)
        for part in faulty_parts:
            part.rerank(only_first=bool(self.config.samples))
            del part.hypotheses[self.config.num_hypotheses :]
        for number, stage in enumerate(self.stages[:num_stages]):
            context = StageContext(self, number)
            stage.mend(context.drafts(parts), context)

    def _search_in_batches(
        self,
        engine: Engine,
        parts: Sequence[Part],
        progress: Callable[[int], object] = lambda count: None,
    ) -> None:
        """Searches for hypotheses of parts, in batches of similar length."""

        def search(batch: list[int]) -> list[list[Hypothesis]]:
            batch_parts = [parts[number] for number in batch]
            outputs_by_part = engine.outputs(
                [part.ids for part in batch_parts],
                [part.prefix for part in batch_parts],
                [part.number for part in batch_parts],
            )
            hypotheses = []
            for outputs in outputs_by_part:
                texts = self.tokenizer.decode([output.ids for output in outputs])
                scores = (float(output.score) for output in outputs)
                hypotheses.append(list(map(Hypothesis, texts, scores)))
            return hypotheses

        lengths = {number: len(part.ids) for number, part in enumerate(parts)}
        batches = batches_by_length(lengths, self.config, engine.batches_at_once)
        for batch, results in parallel_batches(search, batches, engine.batches_at_once):
            for number, hypotheses in zip(batch, results, strict=True):
                parts[number].hypotheses = hypotheses
            progress(len(batch))

    def _to_translation(self, line: Line, alignment: Alignment | None) -> Translation:
        """Returns a line's translation, whose hypothesis i joins hypothesis i of all its parts."""
        hypotheses = tuple(
            Hypothesis(
                line.restore(" ".join(hypothesis.text for hypothesis in part_hypotheses)),
                sum(hypothesis.score for hypothesis in part_hypotheses),
            )
            for part_hypotheses in zip(*(part.hypotheses for part in line.parts), strict=False)
        )
        # A blank line has no parts.
        best = hypotheses[0] if hypotheses else Hypothesis(line.restore(""), 0.0)
        source = self.problem.preprocess(line.source)
        return Translation(
            best.text,
            best.score,
            hypotheses,
            parts=tuple(part.hypotheses[0].text for part in line.parts),
            cut=line.cut,
            prefix_cut=line.prefix_cut,
            postprocessed=self.problem.postprocess(source, best.text, alignment),
            alignment=alignment,
            rank=max((part.rank for part in line.parts), default=0),
            notes=merge_notes(self.stages, [part.notes for part in line.parts]),
        )

    def score(
        self, sources: Sequence[str], targets: Sequence[str], names: Sequence[str] = ()
    ) -> list[PairScore]:
        """Returns the model's probability of each target as the translation of its source.

        Args:
          sources: the source lines.
          targets: their translations.
          names: names of the pairs, for error messages; default: their numbers from 1.

        Raises:
          UserError: a line is not valid text, a side has more than `max_input_length` tokens, the
            numbers of sources and targets differ, or the model computes NaN.
        """
        log_probs = dict(self.engine.log_probs(*self._encode_pairs(sources, targets, names)))
        return [
            PairScore(float(log_probs[number].sum(dtype=np.float64)), log_probs[number])
            for number in sorted(log_probs)
        ]

    def fits(self, sources: Sequence[str], targets: Sequence[str]) -> list[bool]:
        """Returns for each pair whether its sides are short enough to be scored."""
        encoded = encode_pairs(sources, targets, self.tokenizer, self.problem)
        max_length = self.config.max_input_length
        return [max(map(len, sides)) <= max_length for sides in zip(*encoded, strict=True)]

    def attention(self, sources: Sequence[str], targets: Sequence[str]) -> list[AttentionWeights]:
        """Returns the attention for each pair of a source and its translation.

        Raises:
          UserError: as `score`; or this is an ensemble, whose models differ in attention.
        """
        return self.attention_of_ids(*self._encode_pairs(sources, targets))

    def attention_of_ids(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[AttentionWeights]:
        """Returns the `attention` for ids: int32 arrays of any length, each with its EOS."""
        weights = dict(self.engine.attention(sources, targets))
        source_pieces, target_pieces = self.tokenizer.source.pieces, self.tokenizer.pieces
        return [
            AttentionWeights(
                tuple(source_pieces(source)), tuple(target_pieces(target)), **weights[number]
            )
            for number, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]

    def align(
        self, lines: Sequence[str], translations: Sequence[Translation]
    ) -> list[list[tuple[int, int]]]:
        """Aligns the words of translations with source words, by attention.

        A word is aligned with the source word that the model attends to most, unless the problem
        chooses otherwise (see `Problem.align`). The attention is the mean over the models and over
        the heads of the layer before the last, or of the last layer if there are only two. Words
        that were cut off are never aligned.

        Args:
          lines: the source text.
          translations: the results of `translate` for the lines.

        Returns:
          For each line, pairs (source word, target word) of `word_numbers`, sorted by target word.

        Raises:
          UserError: the numbers of translations and lines differ, or the model computes NaN.
        """
        check_equal_counts(lines, translations, "translation")
        prepared = self.prepare(lines)
        for line, translation in zip(prepared, translations, strict=True):
            if len(line.parts) != len(translation.parts):
                raise UserError(
                    f"Expected {len(line.parts)} translated parts of {line.source[:50]!r}, got "
                    f"{len(translation.parts)}. Align with the settings and stages that made the "
                    f"translation.",
                    code="other_translation",
                )
        return self._align(prepared, [translation.parts for translation in translations])

    def _align(
        self, lines: Sequence[Line], outputs: Sequence[Sequence[str]]
    ) -> list[list[tuple[int, int]]]:
        """Aligns lines with the outputs for their parts, see `align`."""
        parts = [part for line in lines for part in line.parts]
        part_alignments = iter(self.align_parts(parts, list(itertools.chain(*outputs))))
        alignments = []
        for line, line_outputs in zip(lines, outputs, strict=True):
            pairs: list[tuple[int, int]] = []
            words_before = 0
            for part, output in zip(line.parts, line_outputs, strict=True):
                part_pairs = part.words_of_line(next(part_alignments))
                pairs += [(source, words_before + target) for source, target in part_pairs]
                words_before += count_words(output)
            line_pairs = line.align(line.text, " ".join(line_outputs), pairs)
            alignments.append(sorted(line_pairs, key=lambda pair: pair[1]))
        return alignments

    def align_parts(self, parts: Sequence[Part], outputs: Sequence[str]) -> list[Alignment]:
        """Returns, for each part, pairs (number of a source word, number of an output word)."""
        sources, targets = [part.ids for part in parts], encode_text(outputs, self.tokenizer)
        alignments: list[Alignment] = [()] * len(parts)
        if parts:
            for number, weights in self.engine.cross_attention(sources, targets):
                pieces = (
                    self.tokenizer.source.pieces(sources[number]),
                    self.tokenizer.pieces(targets[number][: len(weights) + 1]),
                )
                alignments[number] = word_alignment(*pieces, weights, self.problem.align)
        return alignments

    def _encode_pairs(
        self, sources: Sequence[str], targets: Sequence[str], names: Sequence[str] = ()
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        encoded = encode_pairs(sources, targets, self.tokenizer, self.problem)
        check_lengths(encoded, self.config.max_input_length, names)
        return encoded


def translate_and_score(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> tuple[Score, list[str]]:
    """Translates sources, scores the translations by `Problem.score`, and returns both."""
    translations = translator.translate(sources)
    lines = [one_line(translation.text) for translation in translations]
    alignments = [translation.alignment for translation in translations]
    return translator.problem.score(lines, references, sources, alignments), lines
