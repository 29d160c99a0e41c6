"""Translates the texts of requests with the server's models, and counts them for Prometheus."""

import abc
import asyncio
import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from t2t_keras.decoding.translation import Translation, one_line
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.text.files import has_letters
from t2t_keras.text.formats import main_language
from t2t_keras.text.sentences import join_sentences, sentence_splitter
from t2t_keras.workbench.markup.reading import read_fragment
from t2t_keras.workbench.markup.translator import MarkupTranslator, translate_markup
from t2t_keras.workbench.server.batching import Batch, Batcher
from t2t_keras.workbench.server.config import ServerConfig
from t2t_keras.workbench.server.models import BATCHES_AT_ONCE, ModelSource, ServedModel, Watcher
from t2t_keras.workbench.server.requests import Budget, in_own_thread
from t2t_keras.workbench.terms.glossary import Glossary
from t2t_keras.workbench.terms.stage import with_terms

Metric = TypeVar("Metric", Counter, Gauge, Histogram)

_SECONDS_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_LINES_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """Metrics of a server; none reveals translated text.

    Attributes:
      requests: requests by method, route and status.
      seconds: durations of requests, by route.
      in_flight: current requests.
      lines, characters: translated lines and characters, by model.
      batch_lines, batch_seconds: sizes and durations of batches, by model.
      repairs: repaired placeholders, by model.
      queued: waiting lines, by model.
      reloads: attempts to load a newer version, by model and outcome.
      model_info: 1 for the loaded version of a model.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def make(
            kind: type[Metric], name: str, meaning: str, *labels: str, **options: Any
        ) -> Metric:
            return kind(f"t2t_serve_{name}", meaning, labels, registry=self._registry, **options)

        self.requests = make(Counter, "requests", "Requests", "method", "route", "status")
        self.seconds = make(Histogram, "request_seconds", "Time", "route", buckets=_SECONDS_BUCKETS)
        self.in_flight = make(Gauge, "requests_in_flight", "Requests that are being answered")
        self.lines = make(Counter, "lines", "Translated lines", "model")
        self.characters = make(Counter, "characters", "Translated characters", "model")
        self.batch_lines = make(
            Histogram, "batch_lines", "Lines of a batch", "model", buckets=_LINES_BUCKETS
        )
        self.batch_seconds = make(
            Histogram, "batch_seconds", "Time of a batch", "model", buckets=_SECONDS_BUCKETS
        )
        self.repairs = make(Counter, "broken_placeholders", "Repaired placeholders", "model")
        self.queued = make(Gauge, "queued_lines", "Lines that wait", "model")
        self.reloads = make(Counter, "reloads", "Attempts to load newer models", "model", "outcome")
        self.model_info = make(Gauge, "model_info", "Loaded version", "model", "version")

    def text(self) -> bytes:
        """Returns all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


# A line with its line end, of any operating system.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|[\r\n])?")
_SPACES = re.compile(r"[ \t\r\n]+")


class Passage(NamedTuple):
    """A text, split into sentences and the gaps around them.

    Attributes:
      sentences: sentences to translate.
      gaps: the text before, between and after them: white space, and sentences without letters,
        such as "42", which are not translated.
    """

    sentences: list[str]
    gaps: list[str]

    def join(self, sentences: Sequence[str]) -> str:
        """Returns the text with these sentences in place of its own."""
        if not sentences:
            return self.gaps[0]
        start, *inner_gaps, end = self.gaps
        return start + join_sentences(sentences, inner_gaps) + end


def read_passage(
    text: str, split_lines: bool = True, splitter: Callable[[str], list[str]] | None = None
) -> Passage:
    """Splits a text; joining the unchanged sentences restores it exactly.

    Args:
      text: any number of lines.
      split_lines: whether to split at line ends; otherwise they count as spaces.
      splitter: splits a line into sentences with the white space after them; None = no splitting.
    """
    sentences, gaps, gap = [], [], ""
    for line in _LINE.findall(text) if split_lines else [text]:
        for part in splitter(line) if splitter and line.strip() else [line]:
            # A regular expression would take quadratic time for long white space.
            sentence = part.strip()
            if not has_letters(sentence):
                gap += part
                continue
            left_stripped = part.lstrip()
            sentences.append(sentence if split_lines else _SPACES.sub(" ", sentence))
            gaps.append(gap + part[: len(part) - len(left_stripped)])
            gap = left_stripped[len(sentence) :]
    return Passage(sentences, [*gaps, gap])


def hypothesis_texts(translation: Translation) -> list[str]:
    """Returns the distinct hypotheses of a translation, best first."""
    best = one_line(translation.postprocessed or translation.text)
    alternatives = [one_line(hypothesis.text) for hypothesis in translation.hypotheses[1:]]
    return list(dict.fromkeys([best, *alternatives]))


def ranked_texts(passage: Passage, translations: Sequence[Translation]) -> list[str]:
    """Returns translations of a text: the best of each sentence, the second best, and so on."""
    ranked = [hypothesis_texts(translation) for translation in translations]
    count = max(map(len, ranked), default=1)
    texts = (
        passage.join([texts[min(rank, len(texts) - 1)] for texts in ranked])
        for rank in range(count)
    )
    return list(dict.fromkeys(texts))


Pair = tuple[str, str]

_SHORT_TEXT = 4_000  # characters


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work(abc.ABC):
    """A function of a model and lines; lines with equal work share batches.

    Attributes:
      glossary: terms; requests share batches only if they have the same glossary object.
    """

    glossary: Glossary | None = None

    @abc.abstractmethod
    def __call__(self, translator: Translator, lines: Sequence[str]) -> Sequence[Any]:
        """Returns a result for each line."""


@dataclasses.dataclass(frozen=True)
class Options(Work):
    """Translates texts; see `translate_markup` for the settings of markup.

    Attributes:
      format: "text", "html" or "xml".
      keep: additional elements whose content is not translated.
      blocks: additional elements that divide the text.
      outline: whether, in XML, the outermost elements with their own text divide the text.
      inline: elements that `outline` does not apply to.
    """

    format: str = "text"
    keep: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    outline: bool = False
    inline: tuple[str, ...] = ()

    def __call__(self, translator: Translator, lines: Sequence[str]) -> list[Translation]:
        """Translates lines."""
        translator = with_terms(translator, self.glossary)
        if self.format == "text":
            return translator.translate(lines)
        elements = self.blocks, self.keep, self.outline, self.inline
        return translate_markup(translator, lines, self.format, *elements)


@dataclasses.dataclass(frozen=True)
class Splitting:
    """Settings for splitting a plain text.

    Attributes:
      lines: whether to split at line ends; otherwise they count as spaces.
      sentences: whether to split lines into sentences.
    """

    lines: bool = True
    sentences: bool = True


class TranslatedText(NamedTuple):
    """A translated text.

    Attributes:
      text: the translation.
      alternatives: the other distinct hypotheses, best first.
    """

    text: str
    alternatives: list[str]


def _num_repaired(result: object) -> int:
    """Returns the number of repaired placeholders in a result; 0 = none or unknown."""
    return result.notes.get("placeholders", 0) if isinstance(result, Translation) else 0


class TranslationService:
    """Routes requests to the model for a language pair.

    Args:
      sources: locations of the models to load.
      config: the server's settings.
      metrics: metrics to update.

    Attributes:
      models: models by pair of languages.

    Raises:
      UserError: a model cannot be loaded, a pair has several models, or the pair of a glossary has
        no model.
    """

    def __init__(self, sources: Sequence[ModelSource], config: ServerConfig, metrics: Metrics):
        self._config, self._metrics = config, metrics
        self.models: dict[Pair, ServedModel] = {}
        self._batchers: dict[Pair, Batcher] = {}
        pairs = [source.pair for source in sources]
        for pair in pairs:
            if pairs.count(pair) > 1:
                raise UserError(
                    f"--model={'-'.join(pair)}=...: expected one model, got {pairs.count(pair)}. "
                    f"Keep only one of them.",
                    code="given_twice",
                )
        for pair in filter(None, config.glossaries):
            if pair not in pairs:
                served = ", ".join(sorted(map("-".join, pairs)))
                raise UserError(
                    f"--glossary={'-'.join(pair)}=...: expected the languages of a model, one of "
                    f"{served}.",
                    code="unknown_name",
                )
        for source in sources:
            self._add_model(source)
        self._watcher = Watcher(list(self.models.values()), config.reload_seconds)

    def _add_model(self, source: ModelSource) -> None:
        name, metrics = "-".join(source.pair), self._metrics
        model = ServedModel(source)

        def observe_reload(outcome: str) -> None:
            metrics.reloads.labels(name, outcome).inc()
            metrics.model_info.clear()
            for pair, served in self.models.items():
                metrics.model_info.labels("-".join(pair), served.name).set(1)

        def observe_batch(num_lines: int, seconds: float) -> None:
            metrics.lines.labels(name).inc(num_lines)
            metrics.batch_lines.labels(name).observe(num_lines)
            metrics.batch_seconds.labels(name).observe(seconds)

        def translate(lines: list[str], work: Work, batch: Batch) -> Sequence[Any]:
            metrics.characters.labels(name).inc(sum(map(len, lines)))
            results = model.use(work, lines, batch)
            metrics.repairs.labels(name).inc(sum(_num_repaired(result) for result in results))
            return results

        model.observe_reload = observe_reload
        self.models[source.pair] = model
        self._batchers[source.pair] = Batcher(
            translate,
            self._config.max_wait_ms,
            self._config.max_batch_lines,
            self._config.max_queue_lines,
            BATCHES_AT_ONCE,
            observe_batch,
            searches=max(BATCHES_AT_ONCE, model.translator.engine.batches_at_once),
        )
        metrics.queued.labels(name).set_function(lambda: self._batchers[source.pair].queued_lines)
        metrics.model_info.labels(name, model.name).set(1)

    def splitter(self, language: str) -> Callable[[str], list[str]] | None:
        """Returns the sentence splitter of a language; None = lines stay whole."""
        if not self._config.split_sentences:
            return None
        return sentence_splitter(main_language(language))

    @property
    def max_alternatives(self) -> int:
        """Number of alternatives that every model can return."""
        return min(model.translator.config.num_hypotheses for model in self.models.values()) - 1

    async def translate(
        self,
        pair: Pair,
        texts: Sequence[str],
        options: Options = Options(),
        splitting: Splitting = Splitting(),
        budget: Budget | None = None,
    ) -> list[TranslatedText]:
        """Translates texts of any number of lines; white space between sentences is preserved.

        Args:
          pair: a pair of `models`.
          texts: texts in the format of the options; blank ones are returned unchanged.
          options: settings of the translation.
          splitting: settings for plain text; the translator splits markup itself.
          budget: limits of the request.

        Raises:
          JobEndedError: the budget is used up, or the server is stopping.
          QueueFullError: too many lines wait for the model.
          UserError: markup is malformed, or the model computes NaN.
        """
        if options.format != "text":
            if options.format == "xml":
                # Check XML first: malformed XML makes the other requests of its batch run again.
                await asyncio.to_thread(lambda: [read_fragment(text, "xml") for text in texts])
            translations = await self.run(pair, texts, options, budget)
            return [TranslatedText(translation.text, []) for translation in translations]
        splitter = self.splitter(pair[0]) if splitting.sentences else None

        def read_passages() -> list[Passage]:
            return [read_passage(text, splitting.lines, splitter) for text in texts]

        # For a short text, a thread would take longer.
        is_short = sum(map(len, texts)) < _SHORT_TEXT
        passages = read_passages() if is_short else await asyncio.to_thread(read_passages)
        sentences = [sentence for passage in passages for sentence in passage.sentences]
        translations = await self.run(pair, sentences, options, budget)

        def join_passages() -> list[TranslatedText]:
            remaining = iter(translations)
            ranked = (
                ranked_texts(passage, [next(remaining) for _ in passage.sentences])
                for passage in passages
            )
            return [TranslatedText(best, alternatives) for best, *alternatives in ranked]

        return join_passages() if is_short else await asyncio.to_thread(join_passages)

    async def run(
        self, pair: Pair, lines: Sequence[str], work: Work, budget: Budget | None = None
    ) -> list[Any]:
        """Returns the result of work for each line; raises the errors of `translate`."""
        work, batcher = self._with_default_glossary(pair, work), self._batchers[pair]
        budget = budget or self.budget()
        results: list[Any] = []
        for part in self._parts(lines):
            # Only the first part may be refused: a request that has begun is finished.
            results += await batcher.translate(part, work, bool(results), budget)
        return results

    def _parts(self, lines: Sequence[str]) -> Iterator[Sequence[str]]:
        """Splits lines into parts, so that short texts do not wait for all parts of a long one."""
        size = self._config.max_batch_lines
        return (lines[start : start + size] for start in range(0, len(lines), size))

    def budget(self, client: str = "", characters: int = 0) -> Budget:
        """Returns a budget in proportion to the number of characters."""
        seconds, unit = self._config.max_job_seconds, self._config.max_characters
        return Budget(client, seconds * max(1, -(-characters // unit)), characters or unit)

    def _with_default_glossary(self, pair: Pair, work: Work) -> Work:
        """Returns work with the server's default glossary, unless it has its own."""
        glossaries = self._config.glossaries
        default = glossaries.get(pair, glossaries.get(None))
        if work.glossary or not default:
            return work
        return dataclasses.replace(work, glossary=default)

    def translate_now(
        self, pair: Pair, lines: Sequence[str], options: Options, budget: Budget | None = None
    ) -> list[Translation]:
        """Translates lines in a thread that may block; raises the errors of `translate`."""
        work, batcher = self._with_default_glossary(pair, options), self._batchers[pair]
        budget = budget or self.budget()
        results: list[Translation] = []
        for part in self._parts(lines):
            results += batcher.submit(part, work, True, budget).result()
        return results

    def end_jobs(self) -> None:
        """Ends all jobs, so that the server can stop."""
        for batcher in self._batchers.values():
            batcher.end_all("server_stops", "The server is stopping. Try again.")

    async def close(self, seconds: float | None = None) -> None:
        """Stops the threads after accepted texts are translated, or after a number of seconds."""
        stops = [self._watcher.stop, *(batcher.close for batcher in self._batchers.values())]
        await asyncio.gather(*(in_own_thread(stop, seconds) for stop in stops))


class BatchedTranslator(MarkupTranslator):
    """Translates documents; their lines share batches with other requests."""

    def __init__(
        self,
        service: TranslationService,
        pair: Pair,
        budget: Budget,
        glossary: Glossary | None = None,
    ):
        self._service, self._pair, self._budget = service, pair, budget
        self._glossary = glossary
        self.characters = 0

    @property
    def translator(self) -> Translator:  # type: ignore[override]
        """The model that is currently loaded."""
        return self._service.models[self._pair].translator

    def translate(
        self,
        texts: Sequence[str],
        format: str = "text",  # noqa: A002
    ) -> list[Translation]:
        """See `MarkupTranslator.translate`."""
        self.characters += sum(map(len, texts))
        with self._budget.waiting():
            options = Options(format, glossary=self._glossary)
            return self._service.translate_now(self._pair, texts, options, self._budget)
