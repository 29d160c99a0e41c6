"""The arrays of every step, prepared ahead of time."""

import collections
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

from t2t_keras.data.batches import Batch, TokenBatchSampler, replica_batches
from t2t_keras.data.shards import ExampleStore
from t2t_keras.data.variation import VariedSteps
from t2t_keras.training.backends.base import Step
from t2t_keras.training.memory.microbatch import Microbatch

# Steps whose arrays are read and padded while earlier ones are computed.
_STEPS_AHEAD = 4


class Prefetcher:
    """Reads, splits and pads the examples of each step for the replicas of this process."""

    def __init__(
        self,
        store: ExampleStore,
        sampler: TokenBatchSampler,
        step: Step,
        microbatch: Microbatch,
        varied: VariedSteps | None = None,
    ):
        self._store, self._sampler, self._step = store, sampler, step
        self._microbatch, self._varied = microbatch, varied
        # A single one: the plan of one epoch is kept, and what is drawn for the next steps.
        self._thread = ThreadPoolExecutor(1)

    def at(self, number: int) -> list[list[Batch]]:
        """Returns, for each microbatch of a step, for each replica, its examples."""
        return self._thread.submit(self._read, number).result()[1]

    def ahead(
        self, numbers: range, waiting: Callable[[], AbstractContextManager]
    ) -> Iterator[tuple[int, list[list[Batch]]]]:
        """Yields steps with their arrays, which a thread prepares while earlier ones are computed.

        It waits for them within the contexts that `waiting` returns.
        """
        left = iter(numbers)
        with self._thread:
            prepared = collections.deque()
            for number in numbers:
                for following in itertools.islice(left, _STEPS_AHEAD + 1 - len(prepared)):
                    prepared.append(self._thread.submit(self._read, following))
                with waiting():
                    tokens, parts = prepared.popleft().result()
                    if tokens != self._microbatch.tokens:  # Halved since.
                        parts = self.at(number)
                yield number, parts

    def _read(self, number: int) -> tuple[int, list[list[Batch]]]:
        tokens = self._microbatch.tokens
        if self._varied:
            store, examples = self._varied.at(number)
        else:
            store, examples = self._store, self._sampler.at(number)
        return tokens, list(replica_batches(store, examples, tokens, self._step))
