"""`Translator`: lines of text in, translations out."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.aligning import align_as_seen, align_lines
from t2t_keras.decoding.candidates import Candidates, CandidateSearch
from t2t_keras.decoding.config import DecodeConfig, decode_config
from t2t_keras.decoding.engines import ENGINES
from t2t_keras.decoding.engines.base import Engine
from t2t_keras.decoding.source_text import (
    Source,
    check_lengths,
    check_lines,
    check_one_each,
    check_several,
    encode_pairs,
    encode_text,
    read_sources,
)
from t2t_keras.decoding.terms import hinted, keep_terms, number_missing, takes_hints
from t2t_keras.decoding.translation import AttentionWeights, PairScore, Translation
from t2t_keras.environment import expanded
from t2t_keras.errors import UserError
from t2t_keras.text.files import normalized
from t2t_keras.text.glossary import Glossary
from t2t_keras.text.placeholders.symbols import Shield, shield
from t2t_keras.text.terms.hints import without_hints
from t2t_keras.text.tokenizer import Tokenizer
from t2t_keras.training.checkpoints.names import checkpoint_at, identity
from t2t_keras.training.run_config import RunConfig

if TYPE_CHECKING:
    from t2t_keras.decoding.search.search import Search


class Translator:
    """Translates lines of text with a model, or several, and their vocabulary.

    The models' weights are read at every call, so one translator can follow a training.

    Args:
      models: a `Transformer`, or an object with its `encode`, `start_cache` and `decode_step`;
        several in a list translate together, by the mean of their probabilities. Or an `Engine`,
        which has its own and the settings.
      tokenizer: the vocabulary that they were trained with.
      config: how to translate.
      forbidden: words or phrases that no translation may contain, see `forbidden_sequences`.
      problem: what they were trained for; it preprocesses lines and postprocesses outputs. Default:
        lines and outputs stay as they are.

    Attributes:
      engine: what searches, and knows nothing of text.
      record: the run that the models are of, None = of none; checkpoint: the `identity` of the
        checkpoint that the first has its weights from, None = unknown.

    Tokenizer, config, forbidden and problem are attributes as well.

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
    ):
        self.tokenizer = tokenizer
        self.config = config or DecodeConfig()
        self.forbidden = tuple(forbidden)
        self.problem = problem or Problem()
        self.record: RunConfig | None = None
        self.checkpoint: dict[str, Any] | None = None
        if not isinstance(models, Engine):
            # Not before: another engine needs neither Keras nor TensorFlow.
            from t2t_keras.decoding.engines.keras import KerasEngine

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
          checkpoint_path: a checkpoint's path prefix; default: the run's newest.
          decode_hparams: decoding settings that differ from those of the run's problem,
            "name=value,..." or a mapping; or all of them.
          ensemble: more models to translate with, each the folder of a run or the path prefix of a
            checkpoint in one; they may be of other hyperparameter sets.
          forbidden: words or phrases that no translation may contain.
          engine: "ctranslate2" = by CTranslate2, without TensorFlow: `output_dir` is then what
            `t2t-exporter --format=ctranslate2` wrote, or a run that has it in `ctranslate2/`, and
            the settings are by default those of the export.

        Raises:
          UserError: there is no run or no checkpoint, it cannot be read, a setting is wrong, the
            runs have different vocabularies, or Keras runs on another backend than TensorFlow; or
            the engine lacks what is requested.
        """
        output_dir, ensemble = expanded(output_dir), list(map(expanded, ensemble))
        checkpoint_path = expanded(checkpoint_path) if checkpoint_path else None
        if engine != ENGINES[0]:
            from t2t_keras.decoding.engines.ctranslate2 import load_engine

            others = dict(checkpoint_path=checkpoint_path, ensemble=ensemble, forbidden=forbidden)
            found, export = load_engine(engine, output_dir, decode_hparams, others)
            record = export.record
            translator = cls(found, record.vocabulary, found.config, problem=record.problem)
            translator.record, translator.checkpoint = record, export.checkpoint
            return translator
        record = RunConfig.load(output_dir)
        checkpoint = checkpoint_at(checkpoint_path or output_dir)
        translator = cls.from_record(record, decode_hparams, ensemble, forbidden)
        from t2t_keras.training.checkpoints.tensorflow import load_weights

        load_weights(translator.models[0], checkpoint)
        translator.checkpoint = identity(checkpoint)
        return translator

    @classmethod
    def from_record(
        cls,
        record: RunConfig,
        decode_hparams: str | Mapping[str, Any] | DecodeConfig = "",
        ensemble: Sequence[str | Path] = (),
        forbidden: Sequence[str] = (),
    ) -> "Translator":
        """Returns what `from_run` returns, but that its first model is yet to be loaded."""
        # What is wrong with it is known before TensorFlow is imported.
        config = decode_config(decode_hparams, record.problem.decoding)
        import keras

        from t2t_keras.training.trained_model import load_ensemble_model

        if keras.backend.backend() != "tensorflow":
            raise UserError(
                f"Translating needs TensorFlow, got KERAS_BACKEND={keras.backend.backend()}. Leave "
                f"it unset.",
                code="other_backend",
            )
        dtype = config.weights_dtype
        models = [record.make_model(dtype, loaded=True)]
        models += [load_ensemble_model(path, record.vocabulary, dtype) for path in ensemble]
        translator = cls(models, record.vocabulary, config, forbidden, record.problem)
        translator.record = record
        return translator

    def translate(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] | None = None,
        format: str = "text",  # noqa: A002
        glossary: Glossary | None = None,
    ) -> list[Translation]:
        """Translates each line; a blank line gives a blank line.

        Args:
          lines: the source text.
          prefixes: how each translation must begin; "" = no prefix. A blank line's is not used.
          format: "html" or "xml" = each is a fragment or a document, of any number of lines, whose
            tags stay; without prefixes. See `t2t_keras.decoding.markup.translate_markup`.
          glossary: what words of the source are to become, as `DecodeConfig.terms` says.

        Raises:
          UserError: a line is not valid text, the numbers of prefixes and lines differ, no
            translation is possible under the constraints, or the model computes NaN.
        """
        if format != "text":
            if prefixes is not None:
                raise UserError(
                    f"Translations of {format} take no prefixes: leave them out.",
                    code="not_supported",
                )
            from t2t_keras.decoding.markup import translate_markup

            return translate_markup(self, lines, format, glossary=glossary)
        if prefixes is not None:
            check_one_each(lines, prefixes, "prefix, which may be blank,")
        return list(self.translate_stream(lines, prefixes, glossary=glossary))

    def translate_stream(
        self,
        lines: Iterable[str],
        prefixes: Iterable[str] | None = None,
        first_number: int = 0,
        progress: Callable[[int], object] = lambda count: None,
        glossary: Glossary | None = None,
    ) -> Iterator[Translation]:
        """Yields a translation of each line as they come, `lines_at_once` of them at a time.

        Args:
          lines: the source text.
          prefixes: as of `translate`.
          first_number: number of the first line, which the draws of samples depend on.
          progress: takes the number of further lines, or sentences of split lines, that are done.
          glossary: as of `translate`.

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
            sources = self.read(chunk, glossary=glossary)
            hidden = [each.shield.hide(begin) for each, begin in zip(sources, begins, strict=True)]
            prefix_ids = [ids[:-1] for ids in encode_text(hidden, self.tokenizer)]
            found = self.search_sources(sources, prefix_ids, first_number, progress, glossary)
            if glossary:
                found = keep_terms(self, sources, prefix_ids, found, glossary)
            yield from self._postprocessed(sources, found)
            first_number += len(chunk)

    def search_sources(
        self,
        sources: Sequence[Source],
        prefixes: Sequence[np.ndarray],
        first_number: int = 0,
        progress: Callable[[int], object] = lambda count: None,
        glossary: Glossary | None = None,
    ) -> list[Translation]:
        """Returns the best of the `candidates`, checked as the settings say, not postprocessed."""
        check = self.config.check_placeholders
        found = self.candidates(sources, prefixes, first_number, progress, check, glossary)
        return [
            each.joined(source, ids, self.config)
            for source, ids, each in zip(sources, prefixes, found, strict=True)
        ]

    def candidates(
        self,
        sources: Sequence[Source],
        prefixes: Sequence[np.ndarray],
        first_number: int = 0,
        progress: Callable[[int], object] = lambda count: None,
        check: bool = False,
        glossary: Glossary | None = None,
    ) -> list[Candidates]:
        """Returns the hypotheses of lines that `read` returned, see `CandidateSearch.find`."""
        search = CandidateSearch(self.engine, self.tokenizer, self.config, self.problem.align)
        missing = functools.partial(number_missing, glossary) if glossary else None
        return search.find(sources, prefixes, first_number, progress, check, missing)

    def _postprocessed(
        self, sources: Sequence[Source], translations: Sequence[Translation]
    ) -> Iterator[Translation]:
        alignments: Sequence = [None] * len(sources)
        if self.problem.postprocess_by_alignment:
            pairs = sources, translations
            found = align_lines(self.engine, self.tokenizer, *pairs, self.problem.align)
            alignments = list(map(tuple, found))
        for source, translation, alignment in zip(sources, translations, alignments, strict=True):
            line = without_hints(source.line) if translation.hinted else source.line
            text = self.problem.postprocess(line, translation.text, alignment)
            yield dataclasses.replace(translation, postprocessed=text, alignment=alignment)

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
        found = self.sources_of(lines, translations), translations
        return align_lines(self.engine, self.tokenizer, *found, self.problem.align)

    def align_as_seen(self, sources: Sequence[Source], found: Sequence[Translation]) -> list:
        """Aligns what the models see and write; see `t2t_keras.decoding.aligning`."""
        return align_as_seen(self.engine, self.tokenizer, sources, found, self.problem.align)

    def read(
        self,
        lines: Sequence[str],
        verbatim: Sequence[Sequence[str]] | None = None,
        glossary: Glossary | None = None,
    ) -> list[Source]:
        """Returns lines as the model reads them: in NFC, preprocessed, encoded, and cut or split.

        Args:
          lines: the source text.
          verbatim: more placeholders of each line.
          glossary: lines get hints from it if the models support hints.
        """
        check_lines(lines)
        lines = list(map(normalized, lines))
        symbols = itertools.repeat(self.problem.protects)
        shields = list(map(shield, lines, verbatim or [()] * len(lines), symbols))
        seen = [self.problem.preprocess(each.text) for each in shields]
        if glossary and takes_hints(self):
            seen = [hinted(text, glossary) for text in seen]
        return self._encoded(seen, shields)

    def sources_of(self, lines: Sequence[str], translations: Sequence[Translation]) -> list[Source]:
        """Returns lines as they were translated: as `read`, with the hints that they had."""
        sources = self.read(lines)
        pairs = zip(sources, translations, strict=True)
        seen = [translation.hinted or source.line for source, translation in pairs]
        return self._encoded(seen, [source.shield for source in sources])

    def _encoded(self, seen: Sequence[str], shields: Sequence[Shield]) -> list[Source]:
        most, split_long = self.config.max_input_length, self.config.split_long
        language = self.problem.languages()[0]
        in_front = self.problem.words_in_front
        found = read_sources(seen, self.tokenizer, most, split_long, language, in_front)
        return [each._replace(shield=own) for each, own in zip(found, shields, strict=True)]

    def _read_pairs(
        self, sources: Sequence[str], targets: Sequence[str], names: Sequence[str] = ()
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        encoded = encode_pairs(sources, targets, self.tokenizer, self.problem)
        check_lengths(encoded, self.config.max_input_length, names)
        return encoded
