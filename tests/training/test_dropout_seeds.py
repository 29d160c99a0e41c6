import itertools

import keras
import numpy as np

from t2t_keras.training.dropout_seeds import dropout_seeds


def test_a_state_for_each_generator():
    seeds = dropout_seeds(seed=1, step=2, part=3, generators=5)
    state = keras.random.SeedGenerator(0).state
    assert seeds.shape == (5, *state.shape)
    assert seeds.dtype == np.int64
    np.testing.assert_array_equal(seeds, dropout_seeds(1, 2, 3, 5))


def test_all_states_differ():
    states = [
        tuple(state)
        for seed, step, part in itertools.product((0, 1, 2), range(30), range(8))
        for state in dropout_seeds(seed, step, part, 6)
    ]
    assert len(set(states)) == len(states) == 3 * 30 * 8 * 6


def test_masks_differ_and_repeat():
    layers = [keras.layers.Dropout(0.5) for _ in range(2)]
    states = [layer.seed_generator.state for layer in layers]

    def masks(step, part):
        seeds = dropout_seeds(7, step, part, 2)
        with keras.StatelessScope(state_mapping=list(zip(states, seeds, strict=True))):
            return [layer(np.ones((4, 64)), training=True).numpy() > 0 for layer in layers]

    drawn = [mask for place in ((0, 0), (0, 1), (1, 0)) for mask in masks(*place)]
    for one, other in itertools.combinations(drawn, 2):
        assert 0.35 < (one == other).mean() < 0.65
    np.testing.assert_array_equal(masks(0, 1), drawn[2:4])
