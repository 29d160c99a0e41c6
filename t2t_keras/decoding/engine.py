"""What every engine does, ids in, ids out; and models on disk, which an engine loads."""

import abc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from t2t_keras.decoding.config import DecodeConfig, length_penalty
from t2t_keras.registry import ENGINES
from t2t_keras.training.checkpoint_files import identity
from t2t_keras.training.run_config import RunConfig

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    pass


KERAS = "keras"


class Output(NamedTuple):
    """An output of a search.

    Attributes:
      ids: with its end of sentence, or not; then padding, or not.
      score: log-probability / length penalty ((5 + length) / 6)^alpha, less a coverage penalty.
    """

    ids: Sequence[int]
    score: float


class Engine(abc.ABC):
    """A model, or several, with the search that the settings request.

    All methods take int32 arrays of any length, each with its end of sentence. Those that yield
    give the number of each pair with what was computed for it, in any order.

    Attributes:
      config: the settings.
      name: for records of what was made with it.
      models: Keras's; none where another program computes.
      batches_at_once: how many batches are searched in parallel.
    """

    config: DecodeConfig
    name: str = KERAS
    models: tuple = ()
    batches_at_once: int = 1

    @abc.abstractmethod
    def outputs(
        self, sources: Sequence[np.ndarray], prefixes: Sequence[np.ndarray], numbers: Sequence[int]
    ) -> list[list[Output]]:
        """Returns the outputs for each source of a batch, best first.

        Args:
          sources: ids.
          prefixes: how each output begins, without an end.
          numbers: of the sources, which tell them apart in sampling.

        Raises:
          UserError: no output is possible, or the model computes NaN.
        """

    def with_all_hypotheses(self) -> "Engine":
        """Returns an engine of as many outputs as the beam is wide; itself if it samples."""
        return self

    @abc.abstractmethod
    def log_probs(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields log-probabilities of the symbols of each target, float32 [target]."""

    def scores(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, float]]:
        """Yields the score of each target, as of `Output`."""
        for number, log_probs in self.log_probs(sources, targets):
            penalty = length_penalty(len(targets[number]), self.config.alpha)
            yield number, float(log_probs.sum(dtype=np.float64)) / penalty

    @abc.abstractmethod
    def next_symbols(self, source: np.ndarray, prefix: np.ndarray, count: int) -> list[int]:
        """Returns the symbols that are likeliest after a prefix, the likeliest first.

        Neither the end of sentence nor padding is among them.

        Args:
          source: ids with their end.
          prefix: ids without an end.
          count: the most to return.
        """

    @abc.abstractmethod
    def cross_attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields the attention that aligns, float32 [target, source].

        It is the mean over the heads of `alignment_layer`, and over models. It may lack the
        ends, and tokens at the end of a target that is too long for the engine.
        """

    @abc.abstractmethod
    def check_attention(self) -> None:
        """Raises `UserError` where there is no `attention`."""

    @abc.abstractmethod
    def attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yields "encoder", "decoder" and "cross" of `AttentionWeights`."""


class StoredModel(abc.ABC):
    """A model on disk of the kind that an engine loads: what is registered as an engine.

    Making one finds it; what it says of itself is read when it is asked for.

    Args:
      path: the folder of a run, or of an export.
      checkpoint_path: one of the checkpoints in it; default: the newest.

    Attributes:
      version: the checkpoint or the folder that is loaded.
      interactive: decoding settings that suit one line at a time.
      serving: decoding settings that suit a server.

    Raises:
      UserError: there is none.
    """

    interactive: ClassVar[Mapping[str, Any]] = {}
    serving: ClassVar[Mapping[str, Any]] = {}
    version: Path

    @abc.abstractmethod
    def __init__(self, path: str | Path, checkpoint_path: str | Path | None = None): ...

    @classmethod
    @abc.abstractmethod
    def find(cls, path: Path) -> Path | None:
        """Returns the folder at a path, or in a run there, with a model of this kind, or None."""

    @property
    @abc.abstractmethod
    def record(self) -> RunConfig:
        """The run that it is of."""

    @property
    @abc.abstractmethod
    def checkpoint(self) -> dict[str, Any] | None:
        """The `identity` of the checkpoint that it is of; None = unknown."""

    @property
    @abc.abstractmethod
    def defaults(self) -> Mapping[str, Any]:
        """Decoding settings where the user gives none."""

    @property
    def name(self) -> str:
        """That of its engine."""
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
        """Returns an engine of it, and of more models, see `Translator.from_run`."""

    def share_cores(self, config: DecodeConfig) -> None:  # noqa: B027
        """Prepares the whole process, a command, for batches in parallel."""

    def provenance(self, ensemble: Sequence[str] = ()) -> dict[str, Any]:
        """Returns what a translation records of its models, of these checkpoints besides."""
        checkpoint = self.checkpoint or {"checkpoint": ""}  # An export may be of none.
        found = {**checkpoint, "ensemble": [identity(path) for path in ensemble]}
        return found if self.name == KERAS else found | {"engine": self.name}


def stored_model(folder: Path) -> StoredModel | None:
    """Returns the model in a folder, of the first kind that has one there, or None."""
    kinds = (kind for kind in ENGINES.load().values() if kind.find(folder))
    return next((kind(folder) for kind in kinds), None)
