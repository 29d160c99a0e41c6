"""Single sentences by XLA, which is compiled while they are translated without."""

import contextlib
import dataclasses
import threading

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.search.constraints import Constraints
from t2t_keras.decoding.search.ensemble import Ensemble
from t2t_keras.decoding.search.few_rows import MOST_ROWS, few_rows_product
from t2t_keras.decoding.search.loop import Hypotheses
from t2t_keras.decoding.search.search import Search
from t2t_keras.environment import COMPILING

# Longer ones may need more than one compilation.
LONGEST = 64


class CompiledMeanwhile:
    """Searches by XLA once that is compiled for a shape, and until then has no answer.

    The first sentence of a shape is searched in a thread, which compiles what such sentences need.
    One thread at a time does so: TensorFlow would keep all its own waiting for several. Where the
    operator of `few_rows_product` has to be made, the constructor waits for that.

    Attributes:
      search: the `Search` by XLA, which compiles at its first call for a shape.
    """

    def __init__(self, ensemble: Ensemble, constraints: Constraints, config: DecodeConfig):
        is_few = (config.samples or config.beam_size) <= MOST_ROWS
        on_gpu = tf.config.get_visible_devices("GPU")
        product = few_rows_product() if is_few and not on_gpu else None
        by_xla = dataclasses.replace(config, xla=True)
        self.search = Search(ensemble, by_xla, constraints, product)
        # XLA keeps compiled code under a name that counts all that TensorFlow has made before: made
        # here, it is the same in the next process.
        self.search.graph.get_concrete_function()
        self._threads: dict[tuple, threading.Thread] = {}
        self._compiled: set[tuple] = set()
        self._beginning, self._compiling = threading.Lock(), threading.Lock()

    def __call__(
        self, source: np.ndarray, prefixes: np.ndarray, numbers: np.ndarray
    ) -> Hypotheses | None:
        """Returns what `Search` finds for sentences [1, S] of up to `LONGEST` tokens, or None."""
        arguments = source, prefixes, numbers
        if source.shape[1] > LONGEST:
            return None
        shape = source.shape, prefixes.shape
        if shape in self._compiled:
            return self.search(*arguments)
        with self._beginning:
            if shape not in self._threads:
                thread = threading.Thread(None, self._compile, COMPILING, (shape, arguments))
                self._threads[shape] = thread
                thread.start()
        return None

    def _compile(self, shape: tuple, arguments: tuple) -> None:
        # What cannot be compiled, for lack of memory, goes on without.
        with self._compiling, contextlib.suppress(Exception):
            self.search(*arguments)
            self._compiled.add(shape)

    def wait(self) -> None:
        """Waits until everything that was begun is compiled."""
        for thread in [*self._threads.values()]:
            thread.join()
