import numpy as np
import pytest

from t2t_keras.layers import SymbolDropout


def test_a_share_of_the_ids_becomes_the_sentinel_and_padding_stays():
    ids = np.where(np.arange(10_000) % 4, 7, 0).reshape(100, 100).astype(np.int32)
    layer = SymbolDropout(0.1, sentinel=2)
    result = layer(ids, training=True).numpy()
    assert result.dtype == np.int32
    assert set(np.unique(result)) == {0, 2, 7}
    np.testing.assert_array_equal(result == 0, ids == 0)
    assert (result[ids != 0] == 2).mean() == pytest.approx(0.1, abs=0.015)
    assert (layer(ids, training=True).numpy() != result).any()


@pytest.mark.parametrize(("rate", "training"), [(0.5, False), (0.5, None), (0.0, True)])
def test_nothing_happens(rate, training):
    ids = np.array([[3, 4, 0]])
    np.testing.assert_array_equal(SymbolDropout(rate, sentinel=2)(ids, training=training), ids)
