"""What every engine does, ids in, ids out."""

import abc
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.decoding.config import DecodeConfig, length_penalty
from t2t_keras.decoding.engines import ENGINES


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
    name: str = ENGINES[0]
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
