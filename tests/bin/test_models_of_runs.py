"""Translators of runs: ensembles of other hyperparameter sets, and the type of the weights."""

import dataclasses

import keras
import numpy as np
import pytest

from t2t_keras import registry
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.text.tokenizer import Tokenizer
from t2t_keras.training.checkpoints.tensorflow import Checkpoints
from t2t_keras.training.run_config import RunConfig


@pytest.fixture
def save_other(random_run, tmp_path):
    """save_other(changes): the folder of a run with these, and its untrained model."""

    def save_other(**changes):
        record = dataclasses.replace(RunConfig.load(random_run), **changes)
        record.save(tmp_path / "other")
        keras.utils.set_random_seed(7)
        model = record.make_model()
        model.embedding.matrix.assign(2.0 * model.embedding.matrix.numpy())
        Checkpoints(tmp_path / "other", {"model": model}, keep=1).save(5)
        return tmp_path / "other", model

    return save_other


def test_an_ensemble_with_another_set(random_run, save_other):
    hparams = registry.hparams("transformer_small", "num_layers=2,d_model=32,d_ff=24,num_heads=4")
    other, other_model = save_other(hparams=hparams)
    settings = "beam_size=2,extra_length=2,alpha=0"
    translator = Translator.from_run(random_run, decode_hparams=settings, ensemble=[other])
    source = np.array(translator.tokenizer.encode(["The dog sleeps."]), np.int32)
    ids, scores = (found.numpy() for found in translator.search(source))
    # The probability of a symbol is the mean of what the two give it.
    target, alone = ids[:, 0], []
    for model in (Translator.from_run(random_run).models[0], other_model):
        logits = model({"source": source, "target": target})[0].numpy().astype(np.float64)
        likely = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        alone.append(likely[np.arange(len(target[0])), target[0]])
    assert scores[0, 0] == pytest.approx(np.log(np.mean(alone, axis=0)).sum(), abs=1e-3)
    assert np.abs(np.log(alone[0]) - np.log(alone[1])).max() > 0.5


def test_another_vocabulary_of_the_same_size_is_refused(random_run, save_other):
    words = "the a small big dog cat man woman sees sleeps eats house tree red green"
    other, _ = save_other(tokenizer=Tokenizer.train([words] * 20, vocab_size=300))
    with pytest.raises(UserError, match=r"model.ckpt-5 .* 300 pieces .* 300 "):
        Translator.from_run(random_run, ensemble=[other / "model.ckpt-5"])


def test_weights_of_all_models_are_rounded(random_run):
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
