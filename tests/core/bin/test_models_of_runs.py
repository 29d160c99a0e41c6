"""Translators of runs: ensembles of other hyperparameter sets, and the type of the weights."""

import dataclasses

import numpy as np
import pytest
from refusals import refused

from t2t_keras import hyperparameters
from t2t_keras.decoding.translator import Translator
from t2t_keras.text.tokenizer import SentencePieceTokenizer
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.run_config import RunConfig


@pytest.fixture
def save_other(random_run, tmp_path):
    """save_other(changes): the folder of a run with these, and its untrained model."""

    def save_other(**changes):
        record = dataclasses.replace(RunConfig.load(random_run), **changes)
        record.save(tmp_path / "other")
        model = record.make_model()
        Checkpoints(tmp_path / "other", {"model": model}, keep=1).save(5)
        return tmp_path / "other", model

    return save_other


def test_an_ensemble_with_another_set(random_run, save_other):
    hparams = hyperparameters.hparams(
        "transformer_small", "num_layers=2,d_model=32,d_ff=24,num_heads=4"
    )
    other, expected = save_other(hparams=hparams)
    first, second = Translator.from_run(random_run, ensemble=[other]).models
    assert (first.config.d_model, second.config.d_model) == (16, 32)
    for actual, weight in zip(second.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(actual, weight)


def test_another_vocabulary_of_the_same_size_is_refused(random_run, save_other):
    words = "the a small big dog cat man woman sees sleeps eats house tree red green"
    other, _ = save_other(tokenizer=SentencePieceTokenizer.train([words] * 20, vocab_size=300))
    with refused("other_vocabulary", other / "model.ckpt-5", 300):
        Translator.from_run(random_run, ensemble=[other / "model.ckpt-5"])
