"""The models of a server, one for each language pair, and their reloading."""

import copy
import dataclasses
import gc
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from t2t_keras.decoding.config import decode_config
from t2t_keras.decoding.engine import Engine
from t2t_keras.decoding.stored_model import StoredModel, StoredRun, stored_model
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError, translated_errors
from t2t_keras.io.files import SAFETENSORS, check_regular, not_a_run
from t2t_keras.registry import ENGINES
from t2t_keras.text.formats import main_language
from t2t_keras.training.run_config import RunConfig
from t2t_keras.workbench.server.batching import Batch, EngineInTurns
from t2t_keras.workbench.server.languages import parse_pair

Result = TypeVar("Result")

_LOG = logging.getLogger("t2t_keras.server")

# Concurrent batches of a model: one is tokenised or detokenised while the engine runs another.
BATCHES_AT_ONCE = 2
# The beam's hypotheses are the alternatives in answers.
_DEFAULTS = {"return_beams": True, "check_placeholders": True}
_LOAD_ATTEMPTS = 3
_MODEL_FIELDS = ("model", "hparams", "problem")
_WARM_UP = ("A.", "One, two, three, four, five, six.", "One. " * 8)


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """The location of a model.

    Attributes:
      source: code of the source language.
      target: code of the target language.
      path: a run, an export for CTranslate2, or a folder of numbered exports (the highest is used).
      engine: one of `ENGINES`; "" = chosen by the files in the path.
      decode_hparams: decoding settings that override the model's.
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
        """Parses PAIR=PATH, as en-de=runs/averaged.

        Raises:
          UserError: the text has another format, or the path has neither a run nor an export.
        """
        pair, _, path = text.partition("=")
        if not path:
            raise UserError(
                f"--model: expected PAIR=PATH, as en-de=runs/averaged, got {text!r}.",
                code="bad_value",
            )
        source = cls(*parse_pair(pair), Path(path), engine, decode_hparams)
        source.newest_version()
        return source

    @property
    def pair(self) -> tuple[str, str]:
        """Source and target language."""
        return self.source, self.target

    def newest_version(self) -> tuple[Path, tuple]:
        """Returns the folder or checkpoint to load, and a value that changes with its files.

        Raises:
          UserError: there is no model.
        """
        stored = self.stored_model()
        return stored.model_path, _file_state(stored.files()[-1])

    def stored_model(self) -> StoredModel:
        """Returns the stored model; raises `UserError` if there is none."""
        if self.engine:
            kind = ENGINES[self.engine]
            folder = self._model_folder([kind])
            # Keep using an export inside a run while the run is trained further.
            return _require_regular_files(kind(kind.find(folder) or folder))
        if stored := stored_model(self._model_folder([*ENGINES.values()])):
            return _require_regular_files(stored)
        raise UserError(
            f"There is no model in {self.path}: expected a run or an export for another engine. "
            f"{not_a_run(self.path)}",
            code="no_model",
        )

    def _model_folder(self, kinds: Sequence[type[StoredModel]]) -> Path:
        """Returns the folder of a model: the path, or its subfolder with the highest number."""

        def has_model(folder: Path) -> bool:
            return any(kind.find(folder) for kind in kinds)

        if has_model(self.path) or not self.path.is_dir():
            return self.path
        folders = [folder for folder in self.path.iterdir() if folder.name.isdecimal()]
        versions = sorted(filter(has_model, folders), key=lambda folder: int(folder.name))
        return versions[-1] if versions else self.path

    def load(self) -> Translator:
        """Returns a warmed-up translator; raises `UserError` if it cannot be loaded."""
        stored = self.stored_model()
        defaults = {**stored.defaults, **stored.serving_settings, **_DEFAULTS}
        config = decode_config(self.decode_hparams, defaults)
        translator = Translator.from_stored(stored, config)
        _set_or_check_languages(translator, self)
        translator.translate(_WARM_UP)
        return translator

    def newer_weights(self, translator: Translator) -> list[np.ndarray] | None:
        """Returns the newest weights for a loaded translator; None = a full reload is needed.

        A new checkpoint of the same run needs only new weights. TensorFlow never frees a graph
        completely, so a new graph for each checkpoint would leak memory.

        Raises:
          UserError: the weights cannot be read, or are not finite.
        """
        stored = self.stored_model()
        if not (isinstance(stored, StoredRun) and translator.models):
            return None
        from t2t_keras.training.checkpoints import load_weights

        run_config, old_run_config = stored.run_config, translator.run_config
        if old_run_config is None or any(
            getattr(run_config, name) != getattr(old_run_config, name) for name in _MODEL_FIELDS
        ):
            return None
        if _vocabularies(run_config) != _vocabularies(old_run_config):
            return None
        model = run_config.make_model(translator.config.weights_dtype, will_load=True)
        load_weights(model, str(stored.model_path))
        weights = model.get_weights()
        if not all(np.isfinite(array).all() for array in weights):
            raise UserError(
                f"{stored.model_path} has weights that are not finite: its training diverged. "
                f"Remove it.",
                code="not_finite",
            )
        return weights


def _vocabularies(run_config: RunConfig) -> tuple[bytes, bytes]:
    return run_config.vocabulary.model_bytes, run_config.vocabulary.source.model_bytes


def _require_regular_files(stored: StoredModel) -> StoredModel:
    """Checks that all files of a model are regular, since opening a FIFO would block."""
    check_regular(stored.files())
    return stored


def _file_state(file: Path) -> tuple:
    with translated_errors(OSError, f"{file} cannot be read", code="not_read"):
        stat = file.stat()
    return str(file), stat.st_mtime_ns, stat.st_ino, stat.st_size


def _set_or_check_languages(translator: Translator, origin: ModelSource) -> None:
    """Sets a multilingual model's target; raises `UserError` if the model is for another pair."""
    problem = translator.problem
    if not problem.source_language and problem.target_language:
        translator.problem = dataclasses.replace(problem, target_language=origin.target)
        return
    languages = problem.languages()
    if all(languages) and tuple(map(main_language, languages)) != tuple(
        map(main_language, origin.pair)
    ):
        raise UserError(
            f"{origin.path} translates from {languages[0]} to {languages[1]}: expected a model for "
            f"{origin.source}-{origin.target}.",
            code="other_language",
        )


class ServedModel:
    """A model that stays available while a newer version is loaded.

    Args:
      origin: its location, also an attribute.

    Attributes:
      observe_reload: called with "ok" or "failed" after each attempt; may be set.
      translator: the newest version that could be loaded; constant during `use`.
      model_path: path of the loaded checkpoint or export.
    """

    def __init__(self, origin: ModelSource):
        self.origin = origin
        self.observe_reload: Callable[[str], object] = lambda outcome: None
        self.model_path, self._last_state = self._newest_version()
        self._num_failures = 0
        # While weights are replaced in place, nobody may enter, and all users must have left.
        self._entrance, self._num_users, self._is_closed = threading.Condition(), 0, False
        self.translator = origin.load()

    def _newest_version(self) -> tuple[str, Any]:
        path, state = self.origin.newest_version()
        return str(path), state

    @property
    def name(self) -> str:
        """Last part of the path, which does not reveal folders."""
        path = Path(self.model_path)
        if path.name == "ctranslate2":
            return path.parent.name
        return path.name.removesuffix(SAFETENSORS)

    def use(
        self, work: Callable[[Translator, list[str]], Result], lines: list[str], batch: Batch
    ) -> Result:
        """Calls `work` with one version of the model and the lines; the batch grants turns.

        The result must not be lazy.
        """
        with self._entrance:
            while self._is_closed:
                self._entrance.wait()
            self._num_users += 1
            translator = copy.copy(self.translator)
        translator.engine = cast(Engine, EngineInTurns(translator.engine, batch))
        try:
            return work(translator, lines)
        finally:
            with self._entrance:
                self._num_users -= 1
                self._entrance.notify_all()

    def reload_if_newer(self) -> bool:
        """Loads a newer version if there is one; returns whether it did.

        If loading fails, for example because files are incomplete, the old version stays. Loading
        is tried again a few times, and whenever the files change.
        """
        try:
            return self._reload()
        except Exception as error:  # An error must not end the thread that reloads all models.
            self._num_failures += 1
            if self._num_failures % _LOAD_ATTEMPTS:
                self._last_state = None
            unexpected = None if isinstance(error, UserError) else error
            _LOG.warning("%s-%s is not reloaded: %s", *self.origin.pair, error, exc_info=unexpected)
            self.observe_reload("failed")
            return False

    def _reload(self) -> bool:
        path, state = self._newest_version()
        if state == self._last_state:
            return False
        # Set it before loading, so that later changes count as newer.
        self._last_state = state
        translator = self.translator
        weights = self.origin.newer_weights(translator)
        if weights is None:
            translator = self.origin.load()
        with self._entrance:
            if weights is not None:
                self._set_weights(translator, weights)
            self.translator, self.model_path, self._num_failures = translator, path, 0
        _LOG.info("%s-%s is now %s", *self.origin.pair, path)
        self.observe_reload("ok")
        gc.collect()  # The old model is large and part of reference cycles.
        return True

    def _set_weights(self, translator: Translator, weights: Sequence[np.ndarray]) -> None:
        """Replaces weights while the model is not in use."""
        self._is_closed = True
        try:
            while self._num_users:
                self._entrance.wait()
            translator.models[0].set_weights(weights)
        finally:
            self._is_closed = False
            self._entrance.notify_all()


class Watcher:
    """Checks for newer versions of models in a thread."""

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
        """Stops the thread after its current work; waits at most this number of seconds."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)
