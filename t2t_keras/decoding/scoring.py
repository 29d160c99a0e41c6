"""What models say of given pairs: probabilities of translations, attention, word alignments."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.batching import padded, parallel_batches, shared_batches
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.search.ensemble import Ensemble
from t2t_keras.errors import UserError
from t2t_keras.special_ids import EOS_ID, PADDING_ID

_IDS = tf.TensorSpec([None, None], tf.int32)


def alignment_layer(layers: int) -> int:
    """Returns the decoder layer, from 0, that aligns words as people do.

    That is the last but one (Garg et al., 2019), but not the first of two: it has not yet looked at
    the source when it asks (experiments/nested_markup/nested_fragments.py).
    """
    return layers - 2 if layers > 2 else layers - 1


class Scorer:
    """Force-decodes pairs in batches of similar length, some in parallel.

    All methods take ids of sources and of their translations, int32 arrays with their ends of
    sentence. They yield the number of each pair with what was computed for it, in any order, and
    raise `UserError` if a model computes NaN or an id is not in the vocabulary. So many batches
    are computed `at_once`.
    """

    def __init__(self, ensemble: Ensemble, config: DecodeConfig, at_once: int):
        self._ensemble, self.config, self.batches_at_once = ensemble, config, at_once
        # One graph each for all shapes; it keeps only the attention that it returns. There is
        # nothing to convert for autograph, and looking for it took most of the start.
        (
            self._log_probs,
            self._attention,
            self._cross_attention,
            self._next_logits,
            self._coverage_penalties,
        ) = (
            tf.function(function, input_signature=[_IDS, _IDS], autograph=False)
            for function in (
                ensemble.log_probs,
                self._all_attention,
                self._mean_cross_attention,
                ensemble.next_logits,
                ensemble.coverage_penalties,
            )
        )

    def log_probs(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields log-probabilities of the symbols of each target, float32 [target]."""
        for number, found, _, n in self._pairs(self._log_probs, sources, targets):
            yield number, found[:n]

    def next_symbols(self, source: np.ndarray, prefix: np.ndarray, count: int) -> list[int]:
        """See `Engine`."""
        arrays = padded([source]), padded([np.append(prefix, np.int32(EOS_ID))])
        self._ensemble.check_ids(*arrays)
        logits = self._next_logits(*arrays).numpy()[0]
        _check_finite(logits)
        logits[[PADDING_ID, EOS_ID]] = -np.inf
        return np.argsort(-logits, kind="stable")[: min(count, len(logits) - 2)].tolist()

    def attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yields "encoder", "decoder" and "cross" of `AttentionWeights`, of one model only."""
        self.check_attention()
        for number, found, m, n in self._pairs(self._attention, sources, targets):
            sizes = {"encoder": (m, m), "decoder": (n, n), "cross": (n, m)}
            yield number, {name: found[name][:, :, :q, :k] for name, (q, k) in sizes.items()}

    def cross_attention(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields float32 [target, source], the mean over heads of `alignment_layer`, and models."""
        for number, found, m, n in self._pairs(self._cross_attention, sources, targets):
            yield number, found[:n, :m]

    def check_attention(self) -> None:
        """Raises `UserError` if there are several models: each has its own attention."""
        if (count := len(self._ensemble.models)) > 1:
            raise UserError(
                f"Attention needs one model, got an ensemble of {count}. Give one checkpoint.",
                code="not_supported",
            )

    def _pairs(
        self, graph: Callable, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Iterator[tuple[int, Any, int, int]]:
        """Yields number, row of the arrays that a graph computes, and lengths of each pair."""

        def compute(batch: list[int]) -> Any:
            arrays = [padded([side[number] for number in batch]) for side in (sources, targets)]
            self._ensemble.check_ids(*arrays)
            found = tf.nest.map_structure(lambda x: x.numpy(), graph(*arrays))
            _check_finite(*tf.nest.flatten(found))
            return found

        lengths = list(zip(map(len, sources), map(len, targets), strict=True))
        at_once = self.batches_at_once
        batches = shared_batches(dict(enumerate(map(max, lengths))), self.config, at_once)
        for batch, found in parallel_batches(compute, batches, at_once):
            for row, number in enumerate(batch):
                yield (
                    number,
                    tf.nest.map_structure(lambda x, row=row: x[row], found),
                    *lengths[number],
                )

    def _all_attention(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._ensemble.models[0].attention_weights({"source": source, "target": target})

    def _mean_cross_attention(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        found = []
        for model in self._ensemble.models:
            cross = model.attention_weights({"source": source, "target": target})["cross"]
            found.append(tf.reduce_mean(cross[:, alignment_layer(cross.shape[1])], axis=1))
        return tf.add_n(found) / len(found)


def _check_finite(*arrays: np.ndarray) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise UserError(
            "The model computes NaN or infinite values: its weights are damaged, or its "
            "training diverged. Use another checkpoint.",
            code="not_finite",
        )
