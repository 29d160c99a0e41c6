"""Texts of requests, translated by the models of a server."""

import asyncio
import dataclasses
import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from t2t_keras.decoding.translation import Translation
from t2t_keras.decoding.translator import Translator
from t2t_keras.server.batching import Batcher
from t2t_keras.server.config import ServerConfig
from t2t_keras.server.languages import base_language, nearest_pair
from t2t_keras.server.metrics import Metrics
from t2t_keras.server.models import ModelSource, ServedModel, Watcher
from t2t_keras.server.passages import joined_texts, read_passages, sentence_splitter

Pair = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Options:
    """How a text is translated; texts with the same options share batches.

    Attributes:
      format: "text", "html" or "xml".
      glossary: pairs of terms.
      ignore_tags: names of elements whose text stays.
    """

    format: str = "text"
    glossary: tuple[tuple[str, str], ...] = ()
    ignore_tags: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Lines:
    """How the lines and sentences of a plain text are told apart.

    Attributes:
      split_lines: whether an end of line ends a sentence.
      split_sentences: whether sentences are translated one by one.
    """

    split_lines: bool = True
    split_sentences: bool = True


class TranslationService:
    """Some models behind one door.

    Args:
      sources: where the models come from; each is loaded here.
      config: the server's settings.
      metrics: what it counts.

    Attributes:
      models: by pair of languages.

    Raises:
      UserError: a model cannot be loaded, or two are for the same languages.
    """

    def __init__(self, sources: Sequence[ModelSource], config: ServerConfig, metrics: Metrics):
        self._config, self._metrics = config, metrics
        self.models: dict[Pair, ServedModel] = {}
        self._batchers: dict[Pair, Batcher] = {}
        for source in sources:
            self._add(source)
        self._watcher = Watcher(list(self.models.values()), config.reload_seconds)

    def _add(self, source: ModelSource) -> None:
        name, metrics = "-".join(source.pair), self._metrics
        model = ServedModel(source)

        def observe_reload(outcome: str) -> None:
            metrics.reloads.labels(name, outcome).inc()
            metrics.model_info.clear()
            for pair, each in self.models.items():
                metrics.model_info.labels("-".join(pair), each.version).set(1)

        def observe_batch(lines: int, seconds: float) -> None:
            metrics.lines.labels(name).inc(lines)
            metrics.batch_lines.labels(name).observe(lines)
            metrics.batch_seconds.labels(name).observe(seconds)

        def translate(lines: list[str], options: Hashable) -> Sequence[Translation]:
            metrics.characters.labels(name).inc(sum(map(len, lines)))
            return _translate(model.translator, lines, options)

        model.observe_reload = observe_reload
        self.models[source.pair] = model
        self._batchers[source.pair] = Batcher(
            translate,
            self._config.max_wait_ms,
            self._config.max_batch_lines,
            self._config.max_queue_lines,
            observe_batch,
        )
        metrics.queued.labels(name).set_function(lambda: self._batchers[source.pair].queued_lines)
        metrics.model_info.labels(name, model.version).set(1)
