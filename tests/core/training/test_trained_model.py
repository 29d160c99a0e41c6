"""Models of runs: which checkpoint is loaded, and what comes with it."""

import dataclasses

import numpy as np
import pytest
from refusals import refused

from t2t_keras.training.checkpoints import Checkpoints, load_ensemble_model, load_model
from t2t_keras.training.warm_start import load_first_weights

PAIRS = dict.fromkeys(("source", "target"), np.array([[3, 4, 1, 0], [4, 4, 3, 1]]))


@pytest.fixture
def saved(make_record, tmp_path):
    """The folder of a run with checkpoints at steps 5 and 10, and the logits of each."""
    record, logits = make_record(), {}
    record.save(tmp_path)
    for step in (5, 10):
        model = record.make_model()
        Checkpoints(tmp_path, {"model": model}, keep=2).save(step)
        logits[step] = model(PAIRS).numpy()
    return tmp_path, logits


def test_the_newest_or_a_named_checkpoint_is_loaded(saved, make_record):
    run, logits = saved
    assert np.abs(logits[5] - logits[10]).max() > 0.1
    for path, step in (("", 10), ("model.ckpt-5", 5), ("model.ckpt-5.safetensors", 5)):
        found = load_model(run / path)
        model, tokenizer = found
        np.testing.assert_array_equal(model(PAIRS), logits[step])
        assert tokenizer is found.tokenizer
        assert found.checkpoint == str(run / f"model.ckpt-{step}.safetensors")
    for path, step in (("", 10), ("model.ckpt-5", 5)):
        load_first_weights(model, make_record(), str(run / path))
        np.testing.assert_array_equal(model(PAIRS), logits[step])
    record = make_record()
    assert dataclasses.astuple(found)[2:4] == dataclasses.astuple(record)[:2]
    assert tokenizer.checksum == record.tokenizer.checksum
    half = load_ensemble_model(run, tokenizer, "bfloat16")
    assert {weight.dtype for weight in half.trainable_weights} == {"bfloat16"}


@pytest.mark.parametrize("path", ["nowhere", "model.ckpt-7", "folder"])
def test_what_is_not_there_is_named(saved, path):
    (saved[0] / "folder").mkdir()
    with refused("no_checkpoint", saved[0] / path):
        load_model(saved[0] / path)
