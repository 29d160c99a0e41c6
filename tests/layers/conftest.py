"""Random numbers, and layers whose weights are."""

import numpy as np
import pytest


@pytest.fixture
def random():
    return np.random.default_rng(0)


@pytest.fixture
def randomised(random):
    """Returns a function that gives every weight of a built layer a random value.

    No weight keeps its first value: scales of 1 and offsets of 0 would hide mistakes.
    """

    def randomise(layer):
        for weight in layer.trainable_variables:
            around = 1.0 if weight.path.endswith("gamma") else 0.0
            weight.assign(random.normal(around, 0.5, weight.shape))
        return layer

    return randomise
