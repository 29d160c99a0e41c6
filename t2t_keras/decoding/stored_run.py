"""Runs, as the engine of this library loads them."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.errors import UserError
from t2t_keras.training.checkpoint_files import checkpoint_at, identity
from t2t_keras.training.run_config import RunConfig

if TYPE_CHECKING:
    from t2t_keras.decoding.keras_engine import KerasEngine
from t2t_keras.decoding.engine import KERAS, StoredModel
from t2t_keras.registry import ENGINES


class StoredRun(StoredModel):
    """Keras on TensorFlow: a run's checkpoint."""

    interactive: ClassVar = {"xla_for_one": True}
    serving: ClassVar = interactive

    def __init__(self, path: str | Path, checkpoint_path: str | Path | None = None):
        self._run = RunConfig.file(path).parent
        self.version = Path(checkpoint_at(checkpoint_path or path))

    @classmethod
    def find(cls, path: Path) -> Path | None:
        """See `StoredModel`."""
        return path if RunConfig.exists(path) else None

    @functools.cached_property
    def record(self) -> RunConfig:
        """See `StoredModel`."""
        return RunConfig.load(self._run)

    @functools.cached_property
    def checkpoint(self) -> dict[str, Any]:
        """See `StoredModel`."""
        return identity(self.version)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """See `StoredModel`."""
        return self.record.problem.decoding_defaults

    def files(self) -> list[Path]:
        """See `StoredModel`."""
        return [self.version]

    def load(
        self,
        config: DecodeConfig,
        ensemble: Sequence[str | Path] = (),
        forbidden: Sequence[str] = (),
    ) -> "KerasEngine":
        """See `StoredModel`."""
        # Looked up first: a training may replace or remove it meanwhile.
        checkpoint = self.checkpoint["checkpoint"]
        engine = unloaded_engine(self.record, config, ensemble, forbidden)
        from t2t_keras.training.checkpoints import load_weights

        load_weights(engine.models[0], checkpoint)
        return engine

    def share_cores(self, config: DecodeConfig) -> None:
        """See `StoredModel`."""
        from t2t_keras.decoding.keras_engine import share_cores

        share_cores(config)


def unloaded_engine(
    record: RunConfig,
    config: DecodeConfig,
    ensemble: Sequence[str | Path] = (),
    forbidden: Sequence[str] = (),
) -> "KerasEngine":
    """Returns an engine of a run whose first model is yet to be loaded.

    Raises:
      UserError: see `Translator.from_run`.
    """
    import keras

    if keras.backend.backend() != "tensorflow":
        raise UserError(
            f"Translating needs TensorFlow, got KERAS_BACKEND={keras.backend.backend()}. Leave "
            f"it unset.",
            code="other_backend",
        )
    from t2t_keras.decoding.keras_engine import KerasEngine
    from t2t_keras.training.checkpoints import load_ensemble_model

    dtype = config.weights_dtype
    models = [record.make_model(dtype, loaded=True)]
    models += [load_ensemble_model(path, record.vocabulary, dtype) for path in ensemble]
    return KerasEngine(models, record.vocabulary, config, forbidden)


ENGINES.add(StoredRun, KERAS)
