"""The arrays of every step, prepared ahead of time."""

import concurrent.futures
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from t2t_keras.data.batches import TokenArrays, TokenBatches, replica_arrays, split_batch
from t2t_keras.training import backend
from t2t_keras.training.microbatch import Microbatch

# Steps whose arrays are read and padded while earlier ones are computed.
_STEPS_AHEAD = 4


class StepArrays:
    """Reads, splits and pads the examples of each step for the replicas of this process.

    Args:
      store: an `ExampleStore` of the training examples.
      batches: which of them a step has.
      step: what computes them, with its replicas.
      microbatch: how many tokens a replica holds at once, which may change.
    """

    def __init__(self, store, batches: TokenBatches, step: backend.Step, microbatch: Microbatch):
        self._store = store
        self._batches = batches
        self._step = step
        self._microbatch = microbatch
        # Batches keep the plan of one epoch, which a step that is split again may not replace.
        self._planning = threading.Lock()

    def at(self, number: int) -> list[list[TokenArrays]]:
        """Returns, for each microbatch of a step, for each replica, its examples."""
        return self._split(number, self._microbatch.tokens)

    def ahead(
        self, numbers: Iterator[int], waiting: Callable[[], AbstractContextManager]
    ) -> Iterator[tuple[int, list[list[TokenArrays]]]]:
        """Yields steps with their arrays, which a thread prepares while earlier ones are computed.

        Args:
          numbers: of the steps.
          waiting: returns a context for the time in which there are no arrays yet.
        """
        with concurrent.futures.ThreadPoolExecutor(1) as thread:

            def prepare(number: int):
                tokens = self._microbatch.tokens
                return number, tokens, thread.submit(self._split, number, tokens)

            prepared = list(map(prepare, itertools.islice(numbers, _STEPS_AHEAD)))
            while prepared:
                number, tokens, arrays = prepared.pop(0)
                prepared += map(prepare, itertools.islice(numbers, 1))
                with waiting():
                    # It may have been halved since.
                    same = tokens == self._microbatch.tokens
                    parts = arrays.result() if same else self.at(number)
                yield number, parts

    def _split(self, number: int, tokens: int) -> list[list[TokenArrays]]:
        fixed = tokens if self._step.fixed_shapes else 0
        with self._planning:
            examples = self._batches.at(number)
        split = split_batch(
            self._store.lengths,
            examples,
            tokens,
            self._step.num_replicas,
            fixed_shapes=self._step.fixed_shapes,
        )
        here = self._step.replicas_here
        return [replica_arrays(self._store, each, here, fixed) for each in split]
