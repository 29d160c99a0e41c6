"""Models on disk, which engines load; this library's engine loads runs."""

import abc
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import KERAS, Engine
from t2t_keras.errors import UserError
from t2t_keras.registry import ENGINES
from t2t_keras.training.checkpoint_files import checkpoint_at, identity
from t2t_keras.training.run_config import RunConfig

if TYPE_CHECKING:
    from t2t_keras.decoding.keras_engine import KerasEngine


class StoredModel(abc.ABC):
    """A model on disk; each registered engine is a subclass.

    The constructor finds the model; `run_config` and `checkpoint_identity` are read on first use.

    Args:
      path: the folder of a run, or of an export.
      checkpoint_path: a checkpoint in the folder; default: the newest.

    Attributes:
      model_path: the checkpoint or the export to load.
      interactive_settings: decoding settings that suit one line at a time.
      serving_settings: decoding settings that suit a server.

    Raises:
      UserError: there is no such model.
    """

    interactive_settings: ClassVar[Mapping[str, Any]] = {}
    serving_settings: ClassVar[Mapping[str, Any]] = {}
    model_path: Path

    @abc.abstractmethod
    def __init__(self, path: str | Path, checkpoint_path: str | Path | None = None): ...

    @classmethod
    @abc.abstractmethod
    def find(cls, path: Path) -> Path | None:
        """Returns the folder with a model of this kind, at `path` or in a run there, or None."""

    @property
    @abc.abstractmethod
    def run_config(self) -> RunConfig:
        """The config of the run that trained the model."""

    @property
    @abc.abstractmethod
    def checkpoint_identity(self) -> dict[str, Any] | None:
        """The `identity` of its checkpoint; None = unknown."""

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Decoding settings that apply unless the user gives others."""
        return self.run_config.problem.decoding_defaults

    @property
    def name(self) -> str:
        """The name of its engine."""
        return KERAS

    @abc.abstractmethod
    def files(self) -> list[Path]:
        """Returns the files to load; the last of them changes whenever the model does."""

    @abc.abstractmethod
    def load(
        self,
        config: DecodeConfig,
        ensemble: Sequence[str | Path] = (),
        forbidden: Sequence[str] = (),
    ) -> Engine:
        """Returns an engine of this model, or of an ensemble; see `Translator.from_run`."""

    def share_cores(self, config: DecodeConfig) -> None:  # noqa: B027
        """Prepares a command's process to compute batches in parallel."""

    def provenance(self, ensemble: Sequence[str] = ()) -> dict[str, Any]:
        """Returns the provenance of translations: the identities of all models."""
        checkpoint = self.checkpoint_identity or {"checkpoint": ""}  # An export may lack it.
        identities = {**checkpoint, "ensemble": [identity(path) for path in ensemble]}
        return identities if self.name == KERAS else identities | {"engine": self.name}


def stored_model(folder: Path) -> StoredModel | None:
    """Returns the model that the first engine finds in a folder, or None."""
    kinds = (kind for kind in ENGINES.values() if kind.find(folder))
    return next((kind(folder) for kind in kinds), None)


class StoredRun(StoredModel):
    """Keras: a run's checkpoint."""

    interactive_settings: ClassVar = {"xla_for_one": True}
    serving_settings: ClassVar = interactive_settings

    def __init__(self, path: str | Path, checkpoint_path: str | Path | None = None):
        self._run_file = RunConfig.file(path)
        self.model_path = Path(checkpoint_at(checkpoint_path or path))

    @classmethod
    def find(cls, path: Path) -> Path | None:
        """See `StoredModel`."""
        return path if RunConfig.exists(path) else None

    @functools.cached_property
    def run_config(self) -> RunConfig:
        """See `StoredModel`."""
        return RunConfig.read(self._run_file)

    @functools.cached_property
    def checkpoint_identity(self) -> dict[str, Any]:
        """See `StoredModel`."""
        return identity(self.model_path)

    def files(self) -> list[Path]:
        """See `StoredModel`."""
        return [self.model_path]

    def load(
        self,
        config: DecodeConfig,
        ensemble: Sequence[str | Path] = (),
        forbidden: Sequence[str] = (),
    ) -> "KerasEngine":
        """See `StoredModel`."""
        # Read this before the slow import of Keras: training may replace the checkpoint.
        checkpoint = self.checkpoint_identity["checkpoint"]
        engine = unloaded_engine(self.run_config, config, ensemble, forbidden)
        from t2t_keras.training.checkpoints import load_weights

        load_weights(engine.models[0], checkpoint)
        return engine

    def share_cores(self, config: DecodeConfig) -> None:
        """See `StoredModel`."""
        from t2t_keras.decoding.keras_engine import share_cores

        share_cores(config)


def unloaded_engine(
    run_config: RunConfig,
    config: DecodeConfig,
    ensemble: Sequence[str | Path] = (),
    forbidden: Sequence[str] = (),
) -> "KerasEngine":
    """Returns an engine for a run; the weights of the first model are not loaded yet.

    Raises:
      UserError: see `Translator.from_run`.
    """
    import keras

    if (backend := keras.backend.backend()) not in ("tensorflow", "jax"):
        raise UserError(
            f"Translating needs TensorFlow or JAX, got KERAS_BACKEND={backend}. Leave it unset.",
            code="other_backend",
        )
    from t2t_keras.decoding.keras_engine import KerasEngine
    from t2t_keras.training.checkpoints import load_ensemble_model

    dtype = config.weights_dtype
    models = [run_config.make_model(dtype, will_load=True)]
    models += [load_ensemble_model(path, run_config.vocabulary, dtype) for path in ensemble]
    return KerasEngine(models, run_config.vocabulary, config, forbidden)


ENGINES.add(StoredRun, KERAS)
