"""`Translator`: lines of text in, translations out."""

import copy
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from t2t_keras.data.problem import Problem, Score
from t2t_keras.decoding.config import DecodeConfig, decode_config
from t2t_keras.decoding.engine import Engine, parallel_batches, shared_batches
from t2t_keras.decoding.lines import (
    Line,
    LineStage,
    Part,
    check_lengths,
    check_lines,
    check_one_each,
    check_several,
    check_stages,
    encode_pairs,
    encode_text,
    line_stages,
    merged_notes,
    prepare,
    read_lines,
)
from t2t_keras.decoding.stored_model import StoredModel
from t2t_keras.decoding.translation import (
    AttentionWeights,
    Hypothesis,
    PairScore,
    Translation,
    one_line,
)
from t2t_keras.environment import expanded
from t2t_keras.errors import UserError
from t2t_keras.registry import ENGINES
from t2t_keras.text.alignment import Alignment, count_words, word_alignment
from t2t_keras.text.files import normalized
from t2t_keras.text.tokenizer import Tokenizer
from t2t_keras.training.run_config import RunConfig

if TYPE_CHECKING:
    from t2t_keras.decoding.keras_engine import Search


class Translator:
    """Translates lines of text with a model, or several, and their vocabulary.

    The models' weights are read at every call, so one translator can follow a training.

    Args:
      models: a `Transformer`, or an object with all that it has for encoding, decoding step by
        step and scoring; several in a list translate together, by the mean of their
        probabilities. Or an `Engine`, which has its own and the settings.
      tokenizer: the vocabulary that they were trained with.
      config: how to translate.
      forbidden: words or phrases that no translation may contain, see `forbidden_sequences`.
      problem: what they were trained for; it preprocesses lines and postprocesses outputs. Default:
        lines and outputs stay as they are.
      stages: what happens to a line before and after the model; default: what is registered for
        these settings and this problem.

    Attributes:
      engine: what searches, and knows nothing of text.
      record: the run that the models are of, None = of none; checkpoint: the `identity` of the
        checkpoint that the first has its weights from, None = unknown.

    Tokenizer, config, forbidden, problem and stages are attributes as well.

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
        chosen = line_stages(self.config, self.problem) if stages is None else stages
        self.stages = check_stages(chosen)
        self.record: RunConfig | None = None
        self.checkpoint: dict[str, Any] | None = None
        if not isinstance(models, Engine):
            # Not before: another engine needs neither Keras nor TensorFlow.
            from t2t_keras.decoding.keras_engine import KerasEngine

            models = KerasEngine(models, tokenizer, self.config, forbidden)
        self.engine: Engine = models

    @property
    def models(self) -> tuple:
        """Keras's models; none with another engine."""
        return self.engine.models

    @property
    def search(self) -> "Search":
        """The `Search` of outputs for ids, of Keras's engine; with another, a `UserError`."""
        found = getattr(self.engine, "search", None)
        if found is None:
            raise UserError(
                f"The engine {self.engine.name} has no search: choose keras.", code="not_supported"
            )
        return found

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
        """Returns a translator of a trained run, or of several together.

        Args:
          output_dir: the run's folder, as `t2t-trainer` or `t2t-avg-all` wrote it.
          checkpoint_path: a checkpoint; default: the run's newest.
          decode_hparams: decoding settings that differ from those of the run's problem,
            "name=value,..." or a mapping; or all of them.
          ensemble: more models to translate with, each the folder of a run or a checkpoint in
            one; they may be of other hyperparameter sets.
          forbidden: words or phrases that no translation may contain.
          engine: the name of a registered engine, which may load other things than runs.
            "ctranslate2" = by CTranslate2, without TensorFlow: `output_dir` is then what
            `t2t-exporter --format=ctranslate2` wrote, or a run that has it in `ctranslate2/`, and
            the settings are by default those of the export.

        Raises:
          UserError: there is no run or no checkpoint, it cannot be read, a setting is wrong, the
            runs have different vocabularies, or Keras runs on another backend than TensorFlow; or
            the engine lacks what is requested.
        """
        checkpoint_path = expanded(checkpoint_path) if checkpoint_path else None
        stored = ENGINES[engine](expanded(output_dir), checkpoint_path)
        config = decode_config(decode_hparams, stored.defaults)
        return cls.from_stored(stored, config, [*map(expanded, ensemble)], forbidden)

    @classmethod
    def from_stored(
        cls,
        stored: StoredModel,
        config: DecodeConfig,
        ensemble: Sequence[str | Path] = (),
        forbidden: Sequence[str] = (),
    ) -> "Translator":
        """Returns what `from_run` returns, of a model that was found before."""
        record, engine = stored.record, stored.load(config, ensemble, forbidden)
        translator = cls(engine, record.vocabulary, config, forbidden, record.problem)
        translator.record, translator.checkpoint = record, stored.checkpoint
        return translator

    def with_stages(self, *stages: LineStage) -> "Translator":
        """Returns a translator with the same engine and these stages instead of its own."""
        other = copy.copy(self)
        other.stages = check_stages(stages)
        return other

    def translate(
        self, lines: Sequence[str], prefixes: Sequence[str] | None = None
    ) -> list[Translation]:
        """Translates each line; a blank line gives a blank line.

        Args:
          lines: the source text.
          prefixes: how each translation must begin; "" = no prefix. A blank line's is not used.

        Raises:
          UserError: a line is not valid text, the numbers of prefixes and lines differ, no
            translation is possible under the constraints, or the model computes NaN.
        """
        if prefixes is not None:
            check_one_each(lines, prefixes, "prefix, which may be blank,")
        return list(self.translate_stream(lines, prefixes))

    def translate_stream(
        self,
        lines: Iterable[str],
        prefixes: Iterable[str] | None = None,
        first_number: int = 0,
        progress: Callable[[int], object] = lambda count: None,
    ) -> Iterator[Translation]:
        """Yields a translation of each line as they come, `lines_at_once` of them at a time.

        Args:
          lines: the source text.
          prefixes: as of `translate`.
          first_number: number of the first line, which the draws of samples depend on.
          progress: takes the number of further lines, or sentences of split lines, that are done.

        Raises:
          UserError: as `translate`.
        """
        check_several(lines)
        lines = iter(lines)
        prefixes = iter(prefixes) if prefixes is not None else itertools.repeat("")
        while chunk := list(itertools.islice(lines, self.config.lines_at_once)):
            begins = list(itertools.islice(prefixes, len(chunk)))
            if len(begins) < len(chunk):
                raise UserError(
                    f"Expected a prefix, which may be blank, for each of at least "
                    f"{first_number + len(chunk)} lines, got {first_number + len(begins)}.",
                    code="unequal_counts",
                )
            read = self.read(chunk, begins, first_number)
            self.search_lines(read, progress)
            yield from self._finished(read)
            first_number += len(chunk)

    def read(
        self, lines: Sequence[str], prefixes: Sequence[str] = (), first_number: int = 0
    ) -> list[Line]:
        """Returns lines as the model reads them: in NFC, prepared, encoded, and cut or split."""
        check_lines(lines)
        prepared = [prepare(normalized(line), self.stages) for line in lines]
        self.encode(prepared, prefixes, first_number)
        return prepared

    def encode(
        self, lines: Sequence[Line], prefixes: Sequence[str] = (), first_number: int = 0
    ) -> None:
        """`read` of lines that are prepared: gives them their parts."""
        read_lines(lines, self.tokenizer, self.config, self.problem, prefixes, first_number)

    def search_lines(
        self, lines: Sequence[Line], progress: Callable[[int], object] = lambda count: None
    ) -> None:
        """Finds the hypotheses of the parts of lines, ranked and mended by the stages."""
        parts = [part for line in lines for part in line.parts]
        self.search_parts(parts, len(self.stages), progress)

    def search_parts(
        self,
        parts: Sequence[Part],
        stages: int,
        progress: Callable[[int], object] = lambda count: None,
    ) -> None:
        """`search_lines` of parts, mended only by the first stages."""
        self._find(self.engine, parts, progress)
        costly = [part for part in parts if any(part.cost())]
        if costly and (everything := self.engine.with_all_hypotheses()) is not self.engine:
            # Some engines prepare much for that.
            self._find(everything, costly)
        for part in costly:
            part.rerank(only_first=bool(self.config.samples))
            del part.hypotheses[self.config.num_hypotheses :]
        for stage in self.stages[:stages]:
            stage.mend(parts, self)

    def _find(
        self,
        engine: Engine,
        parts: Sequence[Part],
        progress: Callable[[int], object] = lambda count: None,
    ) -> None:
        """Finds hypotheses in batches of similar length."""

        def search(batch: list[int]) -> list[list[Hypothesis]]:
            some = [parts[number] for number in batch]
            arguments = zip(*((part.ids, part.prefix, part.number) for part in some), strict=True)
            return [self._decoded(outputs) for outputs in engine.outputs(*map(list, arguments))]

        lengths = {number: len(part.ids) for number, part in enumerate(parts)}
        batches = shared_batches(lengths, self.config, engine.batches_at_once)
        for batch, found in parallel_batches(search, batches, engine.batches_at_once):
            for number, hypotheses in zip(batch, found, strict=True):
                parts[number].hypotheses = hypotheses
            progress(len(batch))

    def _decoded(self, outputs: Sequence) -> list[Hypothesis]:
        texts = self.tokenizer.decode([output.ids for output in outputs])
        return [
            Hypothesis(text, float(output.score))
            for text, output in zip(texts, outputs, strict=True)
        ]

    def _finished(self, lines: Sequence[Line]) -> Iterator[Translation]:
        """Yields translations of lines that were searched."""
        alignments: Sequence = [None] * len(lines)
        if self.problem.postprocess_by_alignment:
            texts = [[part.hypotheses[0].text for part in line.parts] for line in lines]
            alignments = list(map(tuple, self._align(lines, texts)))
        for line, alignment in zip(lines, alignments, strict=True):
            translation = self._joined(line)
            source = self.problem.preprocess(line.source)
            text = self.problem.postprocess(source, translation.text, alignment)
            yield dataclasses.replace(translation, postprocessed=text, alignment=alignment)

    def _joined(self, line: Line) -> Translation:
        """Returns a line's translation: the best of its parts joined, the second best, ..."""
        if not line.parts:
            return Translation(line.restore(""), 0.0)
        hypotheses = tuple(
            Hypothesis(
                line.restore(" ".join(each.text for each in ranked)),
                sum(each.score for each in ranked),
            )
            for ranked in zip(*(part.hypotheses for part in line.parts), strict=False)
        )
        return Translation(
            hypotheses[0].text,
            hypotheses[0].score,
            hypotheses,
            parts=tuple(part.hypotheses[0].text for part in line.parts),
            cut=line.cut,
            prefix_cut=line.prefix_cut,
            rank=max(part.rank for part in line.parts),
            notes=merged_notes(self.stages, [part.notes for part in line.parts]),
        )

    def score(
        self, sources: Sequence[str], targets: Sequence[str], names: Sequence[str] = ()
    ) -> list[PairScore]:
        """Returns how likely the model finds each target as the translation of its source.

        Args:
          sources: text.
          targets: their translations.
          names: of the pairs, for errors; default: their numbers from 1.

        Raises:
          UserError: a line is not valid text, a side has more than `max_input_length` tokens, the
            numbers of sources and targets differ, or the model computes NaN.
        """
        found = sorted(self.engine.log_probs(*self._read_pairs(sources, targets, names)))
        return [PairScore(float(each.sum(dtype=np.float64)), each) for _, each in found]

    def fits(self, sources: Sequence[str], targets: Sequence[str]) -> list[bool]:
        """Returns for each pair whether its sides are short enough to be scored."""
        encoded = encode_pairs(sources, targets, self.tokenizer, self.problem)
        most = self.config.max_input_length
        return [max(map(len, sides)) <= most for sides in zip(*encoded, strict=True)]

    def attention(self, sources: Sequence[str], targets: Sequence[str]) -> list[AttentionWeights]:
        """Returns the attention for each pair of a source and its translation.

        Raises:
          UserError: as `score`; or this is an ensemble, whose models have different attention.
        """
        return self.attention_of_ids(*self._read_pairs(sources, targets))

    def attention_of_ids(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> list[AttentionWeights]:
        """`attention` of int32 arrays of any length, each with its end of sentence."""
        found = dict(self.engine.attention(sources, targets))
        read, written = self.tokenizer.source.pieces, self.tokenizer.pieces
        return [
            AttentionWeights(tuple(read(source)), tuple(written(target)), **found[number])
            for number, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]

    def align(
        self, lines: Sequence[str], translations: Sequence[Translation]
    ) -> list[list[tuple[int, int]]]:
        """Aligns the words of translations with those of their sources, by attention.

        A word is aligned with the source word that the model attends to most, unless the problem
        chooses otherwise (see `Problem.align`). The attention is the mean over the heads of the
        last layer but one, or the last of two, and over the models. No word is aligned with what
        was cut off.

        Args:
          lines: the source text.
          translations: what `translate` returned for it.

        Returns:
          For each line, pairs (source word, target word) of `word_numbers`, by target word.

        Raises:
          UserError: the numbers of translations and lines differ, or the model computes NaN.
        """
        check_one_each(lines, translations, "translation")
        read = self.read(lines)
        for line, translation in zip(read, translations, strict=True):
            if len(line.parts) != len(translation.parts):
                raise UserError(
                    f"Expected what this translator makes of {line.source[:50]!r}, "
                    f"{len(line.parts)} parts, got {len(translation.parts)}: was it translated "
                    f"with other settings or stages?",
                    code="other_translation",
                )
        return self._align(read, [each.parts for each in translations])

    def _align(
        self, lines: Sequence[Line], outputs: Sequence[Sequence[str]]
    ) -> list[list[tuple[int, int]]]:
        """`align` of lines and the outputs for their parts."""
        parts = [part for line in lines for part in line.parts]
        found = iter(self.align_parts(parts, [text for texts in outputs for text in texts]))
        alignments = []
        for line, of_line in zip(lines, outputs, strict=True):
            pairs: list[tuple[int, int]] = []
            words = 0
            for part, output in zip(line.parts, of_line, strict=True):
                of_part = part.words_of_line(next(found))
                pairs += [(source, words + target) for source, target in of_part]
                words += count_words(output)
            restored = line.align(line.text, " ".join(of_line), pairs)
            alignments.append(sorted(restored, key=lambda pair: pair[1]))
        return alignments

    def align_parts(self, parts: Sequence[Part], outputs: Sequence[str]) -> list[Alignment]:
        """Returns pairs of words for an output of each part, those of `Part.ids` first."""
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

    def _read_pairs(
        self, sources: Sequence[str], targets: Sequence[str], names: Sequence[str] = ()
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        encoded = encode_pairs(sources, targets, self.tokenizer, self.problem)
        check_lengths(encoded, self.config.max_input_length, names)
        return encoded


def translated_score(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> tuple[Score, list[str]]:
    """Translates sources; returns what the translator's problem scores, and the translations."""
    found = translator.translate(sources)
    lines, alignments = [one_line(each.text) for each in found], [each.alignment for each in found]
    return translator.problem.score(lines, references, sources, alignments), lines
