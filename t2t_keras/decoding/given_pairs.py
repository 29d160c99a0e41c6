"""What models say of given pairs: how likely a translation is, and where a model looks."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.batching import padded
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.probability_checks import check_numbers
from t2t_keras.decoding.side_by_side import shared_batches, side_by_side
from t2t_keras.decoding.word_alignment import alignment_layer
from t2t_keras.errors import UserError

_IDS = tf.TensorSpec([None, None], tf.int32)


class GivenPairs:
    """Computes batches of pairs of similar length, some side by side, and keeps nothing.

    All methods take ids of sources and of their translations, int32 arrays with their ends of
    sentence, and yield what was found for a pair with the pair's number, in any order.

    Args:
      ensemble: the models.
      config: how large batches are, a side of them, and how many are computed at the same time.
    """

    def __init__(self, ensemble: Ensemble, config: DecodeConfig):
        self._ensemble = ensemble
        self._config = config
        # One graph each for all shapes. What a graph does not return of the attention, it does not
        # keep.
        self._log_probs = _graph(ensemble.log_probs)
        self._attention = _graph(self._all_attention)
        self._cross_attention = _graph(self._mean_cross_attention)

    def log_probs(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields log-probabilities of the symbols of each target, float32 [target].

        Raises:
          UserError: a model computes something that is not a number, or an id is not in the
            vocabulary; so do the other methods.
        """
        for batch, found in self._of_batches(self._log_probs, sources, targets):
            for row, number in enumerate(batch):
                yield number, found[row, : len(targets[number])]

    def attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yields "encoder", "decoder" and "cross", as `AttentionWeights` has them.

        Raises:
          UserError: there is more than one model.
        """
        self.check_one_model()
        for batch, found in self._of_batches(self._attention, sources, targets):
            for row, number in enumerate(batch):
                m, n = len(sources[number]), len(targets[number])
                yield (
                    number,
                    {
                        "encoder": found["encoder"][row, :, :, :m, :m],
                        "decoder": found["decoder"][row, :, :, :n, :n],
                        "cross": found["cross"][row, :, :, :n, :m],
                    },
                )

    def cross_attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields the mean over the models, and the heads of the layer that words are aligned by.

        It is float32 [target, source]; of all that `attention` gives, nothing else is kept.
        """
        for batch, found in self._of_batches(self._cross_attention, sources, targets):
            for row, number in enumerate(batch):
                yield number, found[row, : len(targets[number]), : len(sources[number])]

    def check_one_model(self) -> None:
        """Raises `UserError` where there are several models: each looks elsewhere."""
        if len(self._ensemble.models) > 1:
            raise UserError(
                f"Attention is that of one model; this is an ensemble of "
                f"{len(self._ensemble.models)}. Give one checkpoint."
            )

    def _of_batches(
        self, graph: Callable, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[list[int], Any]]:
        """Yields the numbers of a batch's pairs, and what a graph finds for them, as arrays."""

        def of_batch(batch: list[int]) -> Any:
            arrays = [padded([side[number] for number in batch]) for side in (sources, targets)]
            for array in arrays:
                self._ensemble.check_ids(array)
            found = tf.nest.map_structure(lambda x: x.numpy(), graph(*arrays))
            for array in tf.nest.flatten(found):
                check_numbers(array)
            return found

        sizes = dict(enumerate(map(max, map(len, sources), map(len, targets))))
        return side_by_side(of_batch, shared_batches(sizes, self._config), self._config)

    def _all_attention(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        [model] = self._ensemble.models
        return model.attention_weights({"source": source, "target": target})

    def _mean_cross_attention(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        found = []
        for model in self._ensemble.models:
            cross = model.attention_weights({"source": source, "target": target})["cross"]
            found.append(tf.reduce_mean(cross[:, alignment_layer(cross.shape[1])], axis=1))
        return tf.add_n(found) / len(found)


def _graph(function: Callable) -> Callable:
    # There is nothing to convert for autograph, and looking for it took most of the start.
    return tf.function(function, input_signature=[_IDS, _IDS], autograph=False)
