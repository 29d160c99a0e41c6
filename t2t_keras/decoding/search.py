"""The search for outputs as the settings ask for it: ids in, hypotheses out."""

import numpy as np
import tensorflow as tf

from t2t_keras.data.tokenizer import PADDING_ID
from t2t_keras.decoding.beam_search import BeamSearch
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.constraints import Constraints, Limits
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.loop import Hypotheses, decode
from t2t_keras.decoding.sampling import Sampling

# Positions after which what is no longer needed is left behind.
_ROOM = 8
_IDS = tf.TensorSpec([None, None], tf.int32)


class Search:
    """Beam search or sampling with some models.

    Args:
      ensemble: the models.
      config: how to translate.
      constraints: what holds for all outputs.
    """

    def __init__(self, ensemble: Ensemble, config: DecodeConfig, constraints: Constraints):
        self._ensemble, self._config, self._constraints = ensemble, config, constraints
        # One graph for all shapes. There is nothing to convert for autograph, and looking for it
        # took most of the start.
        scalar, numbers = tf.TensorSpec([], tf.float32), tf.TensorSpec([None], tf.int32)
        self._graph = tf.function(
            self._decoded, input_signature=[_IDS, _IDS, numbers, scalar], autograph=False
        )

    def __call__(
        self,
        source: tf.Tensor,
        prefixes: tf.Tensor | None = None,
        numbers: tf.Tensor | None = None,
        alpha: float | tf.Tensor | None = None,
    ) -> Hypotheses:
        """See `Translator.search`."""
        if tf.executing_eagerly():
            for ids in (source, prefixes):
                if ids is not None:
                    self._ensemble.check_ids(np.asarray(ids))
        source = tf.convert_to_tensor(source)
        return self._graph(
            source,
            tf.zeros_like(source[:, :0]) if prefixes is None else prefixes,
            tf.range(tf.shape(source)[0]) if numbers is None else numbers,
            self._config.alpha if alpha is None else alpha,
        )

    def prefix_cut(self, prefix_length: int, source_length: int) -> int:
        """Returns how many tokens of a prefix are left out, because the output may not be so long.

        Args:
          prefix_length: without an end.
          source_length: with its end; 0 = there is nothing to translate, nor a prefix.
        """
        if not (prefix_length and source_length):
            return 0
        longest = int(self._max_length(source_length))
        return max(prefix_length - (longest - 1), 0)

    def _max_length(self, source_length: int | tf.Tensor) -> tf.Tensor:
        """Returns how many tokens an output may have, both ends counted, int32."""
        most = self._config.max_length or tf.int32.max
        return tf.minimum(source_length + self._config.extra_length, most)

    def _decoded(
        self, source: tf.Tensor, prefixes: tf.Tensor, numbers: tf.Tensor, alpha: tf.Tensor
    ) -> Hypotheses:
        lengths = tf.math.count_nonzero(source != PADDING_ID, axis=1, dtype=tf.int32)
        # A row of nothing but padding is there for its shape only, and ends at once.
        max_lengths = tf.where(lengths == 0, 1, self._max_length(lengths))
        if self._config.coverage_penalty:
            covered = tf.cast(source == PADDING_ID, tf.float32)
        else:
            covered = tf.zeros([tf.shape(source)[0], 0])
        rule = self._rule(alpha)
        return decode(
            self._ensemble.step,
            self._ensemble.start(source, _ROOM, rule.places),
            Limits(max_lengths, prefixes, numbers, covered),
            rule,
            room=_ROOM,
            reach=self._ensemble.reach,
            padding_id=PADDING_ID,
            xla=self._config.xla,
        )

    def _rule(self, alpha: tf.Tensor) -> BeamSearch | Sampling:
        config = self._config
        if not config.samples:
            return BeamSearch(
                config.beam_size,
                alpha,
                config.num_hypotheses,
                config.coverage_penalty,
                self._constraints,
            )
        return Sampling(
            config.num_hypotheses,
            alpha,
            config.temperature,
            config.top_k,
            config.top_p,
            config.seed,
            self._constraints,
        )
