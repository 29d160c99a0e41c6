"""The models of a server, each for a pair of languages, replaced by newer versions."""

import copy
import dataclasses
import gc
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from t2t_keras.decoding.config import decode_config
from t2t_keras.decoding.stored_model import StoredModel, StoredRun, stored_model
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.io.files import check_regular, not_a_run
from t2t_keras.registry import ENGINES
from t2t_keras.training.checkpoint_files import SUFFIX
from t2t_keras.training.run_config import RunConfig
from t2t_keras.workbench.server.batching import Batch, EngineInTurns
from t2t_keras.workbench.server.languages import base_language, parse_pair

Result = TypeVar("Result")

_LOG = logging.getLogger("t2t_keras.server")

# Batches of a model: the text of one is read and written while another is searched for.
AT_ONCE = 2
# Alternatives are the hypotheses of a beam.
_DEFAULTS = {"return_beams": True, "check_placeholders": True}
_ATTEMPTS = 3
_OF_A_MODEL = ("model", "hparams", "problem")
_WARM_UP = ("A.", "One, two, three, four, five, six.", "One. " * 8)


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """Where a model comes from.

    Attributes:
      source: code of the language that it reads.
      target: code of the language that it writes.
      path: a run, an export for CTranslate2, or a folder of numbered exports, the highest counts.
      engine: one of `ENGINES`; "" = the one that the path is for.
      decode_hparams: decoding settings that differ from its own.
    """

    source: str
    target: str
    path: Path
    engine: str = ""
    decode_hparams: str | Mapping[str, Any] = ""

    @classmethod
    def parse(
        cls, text: str, engine: str = "", decode_hparams: str | Mapping[str, Any] = ""
    ) -> "ModelSource":
        """Returns what PAIR=PATH says, as en-de=runs/averaged.

        Raises:
          UserError: it has another form, or there is neither a run nor an export.
        """
        pair, _, path = text.partition("=")
        if not path:
            raise UserError(
                f"--model: expected PAIR=PATH, as en-de=runs/averaged, got {text!r}.",
                code="bad_value",
            )
        source = cls(*parse_pair(pair), Path(path), engine, decode_hparams)
        source.newest()
        return source

    @property
    def pair(self) -> tuple[str, str]:
        """The codes of both languages."""
        return self.source, self.target

    def newest(self) -> tuple[Path, tuple]:
        """Returns the folder or checkpoint to load, and what changes when it is replaced.

        Raises:
          UserError: there is nothing to load.
        """
        stored = self.stored()
        return stored.version, _state(stored.files()[-1])

    def stored(self) -> StoredModel:
        """Returns what to load, which is there; else raises `UserError`."""
        if self.engine:
            kind = ENGINES[self.engine]
            folder = self._folder([kind])
            # An export in a run that is trained further is served until it is replaced.
            return _checked(kind(kind.find(folder) or folder))
        if stored := stored_model(self._folder([*ENGINES.values()])):
            return _checked(stored)
        raise UserError(
            f"There is no model in {self.path}: expected a run or an export for another engine. "
            f"{not_a_run(self.path)}",
            code="no_model",
        )

    def _folder(self, kinds: Sequence[type[StoredModel]]) -> Path:
        """Returns the folder of a model: the path, or the one with the highest number in it."""

        def has_model(folder: Path) -> bool:
            return any(kind.find(folder) for kind in kinds)

        if has_model(self.path) or not self.path.is_dir():
            return self.path
        folders = [folder for folder in self.path.iterdir() if folder.name.isdecimal()]
        versions = sorted(filter(has_model, folders), key=lambda folder: int(folder.name))
        return versions[-1] if versions else self.path

    def load(self) -> Translator:
        """Returns a translator that has translated once; `UserError` if it cannot be loaded."""
        stored = self.stored()
        usual = {**stored.defaults, **stored.serving, **_DEFAULTS}
        config = decode_config(self.decode_hparams, usual)
        translator = Translator.from_stored(stored, config)
        _check_languages(translator, self)
        translator.translate(_WARM_UP)
        return translator

    def newer_weights(self, translator: Translator) -> list[np.ndarray] | None:
        """Returns the newest weights for a translator that `load` returned; None = load it anew.

        A run that is trained on keeps its model. TensorFlow keeps a part of each graph for good, so
        new graphs for each checkpoint would fill the memory in the end.

        Raises:
          UserError: they cannot be read, or are not finite.
        """
        stored = self.stored()
        if not (isinstance(stored, StoredRun) and translator.models):
            return None
        from t2t_keras.training.checkpoints import load_weights

        record, before = stored.record, translator.record
        if before is None or any(
            getattr(record, name) != getattr(before, name) for name in _OF_A_MODEL
        ):
            return None
        if _vocabularies(record) != _vocabularies(before):
            return None
        model = record.make_model(translator.config.weights_dtype, loaded=True)
        load_weights(model, str(stored.version))
        weights = model.get_weights()
        if not all(np.isfinite(array).all() for array in weights):
            raise UserError(
                f"{stored.version} has weights that are not finite: its training diverged.",
                code="not_finite",
            )
        return weights


def _vocabularies(record: RunConfig) -> tuple[bytes, bytes]:
    return record.vocabulary.model_bytes, record.vocabulary.source.model_bytes


def _checked(stored: StoredModel) -> StoredModel:
    """Returns a model whose files are all regular: opening a FIFO waits for a writer."""
    check_regular(stored.files())
    return stored


def _state(file: Path) -> tuple:
    try:
        stat = file.stat()
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.", code="not_read") from error
    return str(file), stat.st_mtime_ns, stat.st_ino, stat.st_size


def _check_languages(translator: Translator, origin: ModelSource) -> None:
    """Has a model of several languages translate to the right one; `UserError` for others."""
    problem = translator.problem
    if not problem.source_language and problem.target_language:
        translator.problem = dataclasses.replace(problem, target_language=origin.target)
        return
    own = problem.languages()
    if all(own) and tuple(map(base_language, own)) != tuple(map(base_language, origin.pair)):
        raise UserError(
            f"{origin.path} translates from {own[0]} to {own[1]}: it cannot be the model of "
            f"{origin.source}-{origin.target}.",
            code="other_language",
        )


class ServedModel:
    """A model that answers all the time, also while a newer version of it is loaded.

    Args:
      origin: where it comes from; an attribute as well.

    Attributes:
      observe_reload: takes "ok" or "failed" after each attempt; may be replaced.
      translator: of the newest version that could be loaded; `use` keeps that from changing.
      version: names it: the checkpoint's or export's path.
    """

    def __init__(self, origin: ModelSource):
        self.origin = origin
        self.observe_reload: Callable[[str], object] = lambda outcome: None
        self.version, self._identity = self._newest()
        self._failures = 0
        # Replacing weights in place closes the entrance and waits until all users have left.
        self._entrance, self._in_use, self._is_closed = threading.Condition(), 0, False
        self.translator = origin.load()

    def _newest(self) -> tuple[str, Any]:
        path, state = self.origin.newest()
        return str(path), state

    @property
    def name(self) -> str:
        """The last part of the version's path, which reveals no folders."""
        path = Path(self.version)
        return path.parent.name if path.name == "ctranslate2" else path.name.removesuffix(SUFFIX)

    def use(
        self, work: Callable[[Translator, list[str]], Result], lines: list[str], batch: Batch
    ) -> Result:
        """Returns the result of work on lines, by one version of the model, in turns of a batch.

        The result must not search lazily.
        """
        with self._entrance:
            while self._is_closed:
                self._entrance.wait()
            self._in_use += 1
            translator = copy.copy(self.translator)
        translator.engine = EngineInTurns(translator.engine, batch)
        try:
            return work(translator, lines)
        finally:
            with self._entrance:
                self._in_use -= 1
                self._entrance.notify_all()

    def reload_if_newer(self) -> bool:
        """Loads a newer version if there is one; returns whether it did.

        One that cannot be loaded, as one that is still being written, is tried again some times,
        and when it has changed; the old one stays.
        """
        try:
            return self._reload()
        except Exception as error:  # Another would end the thread that reloads all models.
            self._failures += 1
            if self._failures % _ATTEMPTS:
                self._identity = None
            stack = None if isinstance(error, UserError) else error
            _LOG.warning("%s-%s is not reloaded: %s", *self.origin.pair, error, exc_info=stack)
            self.observe_reload("failed")
            return False

    def _reload(self) -> bool:
        version, identity = self._newest()
        if identity == self._identity:
            return False
        # Not after loading: what changes meanwhile is newer.
        self._identity = identity
        translator = self.translator
        weights = self.origin.newer_weights(translator)
        if weights is None:
            translator = self.origin.load()
        with self._entrance:
            if weights is not None:
                self._set_weights(translator, weights)
            self.translator, self.version, self._failures = translator, version, 0
        gc.collect()  # The old model is in cycles, and large.
        _LOG.info("%s-%s is now %s", *self.origin.pair, version)
        self.observe_reload("ok")
        return True

    def _set_weights(self, translator: Translator, weights: Sequence[np.ndarray]) -> None:
        """Replaces weights while nobody uses them."""
        self._is_closed = True
        try:
            while self._in_use:
                self._entrance.wait()
            translator.models[0].set_weights(weights)
        finally:
            self._is_closed = False
            self._entrance.notify_all()


class Watcher:
    """Looks for newer versions of models, in a thread of its own."""

    def __init__(self, models: Sequence[ServedModel], seconds: float):
        self._models, self._seconds = models, seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        if seconds:
            self._thread.start()

    def _watch(self) -> None:
        while not self._stopped.wait(self._seconds):
            for model in self._models:
                model.reload_if_newer()

    def stop(self, seconds: float | None = None) -> None:
        """Ends the thread after its current load; waits at most this number of seconds."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)
