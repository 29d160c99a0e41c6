"""Single sentences by XLA, which is compiled while they are translated without."""

import concurrent.futures
import dataclasses
import threading

import numpy as np

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.search.constraints import Constraints
from t2t_keras.decoding.search.ensemble import Ensemble
from t2t_keras.decoding.search.loop import Hypotheses
from t2t_keras.decoding.search.search import Search

# Longer ones may need more than one compilation.
LONGEST = 64


class CompiledMeanwhile:
    """Searches by XLA once that is compiled for a shape, and until then has no answer.

    The first sentence of a shape is searched in a thread, which compiles what such sentences need.
    One thread does so: TensorFlow would keep all its own waiting for several.
    """

    def __init__(self, ensemble: Ensemble, config: DecodeConfig, constraints: Constraints):
        self._search = Search(ensemble, dataclasses.replace(config, xla=True), constraints)
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "t2t_keras_compiles")
        self._begun: dict[tuple, concurrent.futures.Future] = {}
        self._lock = threading.Lock()

    def __call__(
        self, source: np.ndarray, prefixes: np.ndarray, numbers: np.ndarray
    ) -> Hypotheses | None:
        """Returns what `Search` finds for sentences [1, S] of up to `LONGEST` tokens, or None."""
        arguments = source, prefixes, numbers
        if source.shape[1] > LONGEST:
            return None
        with self._lock:
            shape = source.shape, prefixes.shape
            if shape not in self._begun:
                self._begun[shape] = self._thread.submit(self._search, *arguments)
                return None
            begun = self._begun[shape]
        if not begun.done() or begun.exception():
            return None
        return self._search(*arguments)

    def wait(self) -> None:
        """Waits until everything that was begun is compiled."""
        concurrent.futures.wait([*self._begun.values()])
