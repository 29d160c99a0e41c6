import types

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras.decoding.keras_engine import Ensemble
from t2t_keras.layers import attention
from t2t_keras.models.transformer import Transformer


def test_ids_of_each_side_are_of_its_own_vocabulary():
    config = types.SimpleNamespace(self_attention_radius=0)
    model = types.SimpleNamespace(vocab_size=5, source_vocab_size=7, config=config)
    ensemble = Ensemble([model])
    ensemble.check_ids(np.array([[6]]), np.array([[4]]))
    with refused("other_vocabulary", "from 0 to 6", "7 to 7"):
        ensemble.check_ids(np.array([[7]]))
    with refused("other_vocabulary", "from 0 to 4", "-1 to 5"):
        ensemble.check_ids(np.array([[6]]), np.array([[5, -1]]))


@pytest.mark.parametrize("with_coverage", [False, True])
def test_attention_is_returned_only_for_a_coverage_penalty(monkeypatch, with_coverage):
    """Where weights are returned, restricted attention is not computed in blocks."""
    shape = dict(num_layers=2, d_model=8, d_ff=8, num_heads=2, self_attention_radius=1)
    model = Transformer(11, **shape)
    model.build()
    blocks, scores = [], []
    in_blocks, decode_step = attention.restricted_self_attention, model.decode_step

    def counted(*arguments, **options):
        blocks.append(options["radius"])
        return in_blocks(*arguments, **options)

    def step(*arguments):
        scores.append(arguments[5])
        return decode_step(*arguments)

    monkeypatch.setattr(attention, "restricted_self_attention", counted)
    monkeypatch.setattr(model, "decode_step", step)
    ensemble = Ensemble([model], with_coverage)
    cache = ensemble.start(tf.constant([[3, 4, 1]]), block_size=2, hypotheses=1)
    valid_slots = tf.constant([[[True, False]]])
    scored = ensemble.step(tf.constant([[0]]), tf.constant(0), tf.constant(0), valid_slots, cache)
    assert (blocks, scores) == ([1, 1], [with_coverage])
    assert scored.attention.shape == (1, 1, 3 if with_coverage else 0)
    if with_coverage:
        assert float(tf.reduce_sum(scored.attention)) == pytest.approx(1)
