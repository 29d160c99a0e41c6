"""Beam search or sampling with some models, as the settings request: ids in, ids out."""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.config import OF_SAMPLING, DecodeConfig
from t2t_keras.decoding.search.beam import BeamSearch
from t2t_keras.decoding.search.constraints import Constraints, Limits
from t2t_keras.decoding.search.ensemble import Ensemble
from t2t_keras.decoding.search.loop import Hypotheses, SearchLoop
from t2t_keras.decoding.search.sampling import Sampling
from t2t_keras.special_ids import PADDING_ID

_BLOCK_SIZE = 8
_IDS = tf.TensorSpec([None, None], tf.int32)


class Search:
    """Searches for outputs of source ids, by one TensorFlow function, `graph`, for all shapes.

    It can be called in a graph as well. With `config.xla`, `matmul` may be what multiplies the
    rows of a step with weights, see `layers.base.project`.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        config: DecodeConfig,
        constraints: Constraints,
        matmul: Callable[..., tf.Tensor] | None = None,
    ):
        self._ensemble, self._config, self._constraints = ensemble, config, constraints
        self._step = functools.partial(ensemble.step, matmul=matmul)
        scalar, numbers = tf.TensorSpec([], tf.float32), tf.TensorSpec([None], tf.int32)
        # There is nothing to convert for autograph, and looking for it took most of the start.
        self.graph = tf.function(
            self._decode, input_signature=[_IDS, _IDS, numbers, scalar], autograph=False
        )

    def __call__(
        self,
        source: tf.Tensor,
        prefixes: tf.Tensor | None = None,
        numbers: tf.Tensor | None = None,
        alpha: float | tf.Tensor | None = None,
    ) -> Hypotheses:
        """Searches, or draws.

        Args:
          source: int32 [B, S], each row with its end of sentence, then padding.
          prefixes: int32 [B, P], how each output begins, then padding; default: no prefixes.
          numbers: int32 [B], which tell lines apart in sampling; default: 0 to B - 1.
          alpha: exponent of the length penalty, >= 0; default: the setting.

        Returns:
          The requested hypotheses: ids int32 [B, N, L], scores float32 [B, N].

        Raises:
          UserError: an id is not in the vocabulary. In a graph, nothing is checked.
        """
        if tf.executing_eagerly():
            begins = None if prefixes is None else np.asarray(prefixes)
            self._ensemble.check_ids(np.asarray(source), begins)
        source = tf.convert_to_tensor(source)
        return self.graph(
            source,
            tf.zeros_like(source[:, :0]) if prefixes is None else prefixes,
            tf.range(tf.shape(source)[0]) if numbers is None else numbers,
            self._config.alpha if alpha is None else alpha,
        )

    def _decode(
        self, source: tf.Tensor, prefixes: tf.Tensor, numbers: tf.Tensor, alpha: tf.Tensor
    ) -> Hypotheses:
        config = self._config
        lengths = tf.math.count_nonzero(source != PADDING_ID, axis=1, dtype=tf.int32)
        max_lengths = tf.minimum(lengths + config.extra_length, config.max_length or tf.int32.max)
        # A row of nothing but padding is there for its shape only, and ends at once.
        max_lengths = tf.where(lengths == 0, 1, max_lengths)
        if config.coverage_penalty:
            covered = self._ensemble.covered(source)
        else:
            covered = tf.zeros([tf.shape(source)[0], 0])
        scoring = dict(
            num_hypotheses=config.num_hypotheses, alpha=alpha, constraints=self._constraints
        )
        if config.samples:
            rule = Sampling(**scoring, **{name: getattr(config, name) for name in OF_SAMPLING})
        else:
            rule = BeamSearch(config.beam_size, beta=config.coverage_penalty, **scoring)
        window = self._ensemble.models[0].config.self_attention_radius  # All have the same.
        loop = SearchLoop(self._step, rule, _BLOCK_SIZE, window, config.xla)
        cache = self._ensemble.start(source, _BLOCK_SIZE, rule.beam_size)
        return loop.run(cache, Limits(max_lengths, prefixes, numbers, covered))
