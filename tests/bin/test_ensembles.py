"""Ensembles of runs: of another hyperparameter set, and of another vocabulary."""

import dataclasses

import keras
import numpy as np
import pytest

from t2t_keras import registry
from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.run_record import RunRecord


@pytest.fixture
def save_other(random_run, tmp_path):
    """save_other(changes): a run's directory, whose record has them; and its untrained model."""

    def save_other(**changes):
        record = dataclasses.replace(RunRecord.load(random_run), **changes)
        record.save(tmp_path / "other")
        keras.utils.set_random_seed(7)
        model = record.make_model()
        model.embedding.matrix.assign(2.0 * model.embedding.matrix.numpy())
        Checkpoints(tmp_path / "other", {"model": model}, keep=1).save(5)
        return tmp_path / "other", model

    return save_other


def test_of_another_set(random_run, save_other):
    name = "transformer_small"
    hparams = registry.hparams(name, "num_layers=2,d_model=32,d_ff=24,num_heads=4")
    other, other_model = save_other(hparams_set=name, hparams=hparams)
    translator = Translator.from_run(
        random_run, decode_hparams="beam_size=2,extra_length=2,alpha=0", ensemble=[other]
    )
    first = Translator.from_run(random_run).models[0]
    assert [model.config["d_model"] for model in translator.models] == [16, 32]
    source = np.array(translator.tokenizer.encode(["The dog sleeps."]), np.int32)
    ids, scores = (found.numpy() for found in translator.search(source))
    # The probability of a symbol is the mean of what the two give it.
    target = ids[:, 0]
    alone = []
    for model in (first, other_model):
        logits = model({"source": source, "target": target})[0].numpy().astype(np.float64)
        likely = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        alone.append(likely[np.arange(len(target[0])), target[0]])
    assert target[0, -1] == 1
    assert scores[0, 0] == pytest.approx(np.log(np.mean(alone, axis=0)).sum(), abs=1e-3)
    assert np.abs(np.log(alone[0]) - np.log(alone[1])).max() > 0.5


def test_of_another_vocabulary_though_as_large(random_run, save_other):
    words = "the a small big dog cat man woman sees sleeps eats house tree red green"
    other, _ = save_other(tokenizer=Tokenizer.train([words] * 20, vocab_size=300))
    expected = r"model.ckpt-5 was trained with another vocabulary \(300 pieces, .*\(300 pieces, "
    with pytest.raises(UserError, match=expected):
        Translator.from_run(random_run, ensemble=[other / "model.ckpt-5"])
