"""The type of the weights in decoding, as a setting."""

import keras
import numpy as np
import pytest

from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError


def test_all_models_take_it_and_round_the_checkpoint_s(random_run):
    exact = Translator.from_run(random_run)
    rounded = Translator.from_run(
        random_run, decode_hparams="weights_dtype=bfloat16", ensemble=[random_run]
    )
    assert len(rounded.models) == 2
    for model in rounded.models:
        assert (model.compute_dtype, model.variable_dtype) == ("bfloat16", "bfloat16")
        for ours, theirs in zip(model.weights, exact.models[0].weights, strict=True):
            expected = keras.ops.cast(theirs.value, "bfloat16")
            np.testing.assert_array_equal(np.float32(ours.numpy()), np.float32(expected))


def test_a_type_that_there_is_not(random_run):
    with pytest.raises(
        UserError, match=r"'weights_dtype' is one of float32, bfloat16; 'int8' came"
    ):
        Translator.from_run(random_run, decode_hparams="weights_dtype=int8")
