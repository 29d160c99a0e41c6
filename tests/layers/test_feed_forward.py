import numpy as np

from t2t_keras.layers import FeedForward


def test_formula(randomised, random):
    layer = FeedForward(7)
    layer.build((None, None, 4))
    randomised(layer)
    w_1, b_1, w_2, b_2 = (weight.numpy() for weight in layer.weights)
    assert [w_1.shape, b_1.shape, w_2.shape, b_2.shape] == [(4, 7), (7,), (7, 4), (4,)]
    x = random.normal(size=(2, 3, 4))
    expected = [[np.clip(token @ w_1 + b_1, 0, None) @ w_2 + b_2 for token in row] for row in x]
    np.testing.assert_allclose(layer(x).numpy(), expected, atol=1e-5)
