"""Decoding one position after the other, with a cache, is the same as all at once."""

import numpy as np
import pytest


def steps(model, source, target):
    """Returns the logits of every position, [batch, length, V]."""
    cache = model.start_cache(*model.encode(source), block_size=target.shape[1])
    logits = []
    for index in range(target.shape[1]):
        # At index 0 the token before is ignored, whatever it is.
        previous = target[:, index - 1] if index else np.full(len(target), 7, np.int32)
        step_logits, cache = model.decode_step(previous[:, None], index, cache)
        logits.append(step_logits.numpy()[:, 0])
    return np.stack(logits, axis=1)


def test_steps_give_the_logits_of_known_targets(variant_model, batch):
    logits = steps(variant_model, batch["source"], batch["target"])
    real = batch["target"] != 0
    expected = variant_model(batch).numpy()
    np.testing.assert_allclose(logits[real], expected[real], rtol=0, atol=1e-5)


def test_steps_in_half_precision(make_model, every_option, batch):
    model = make_model(dtype="mixed_bfloat16", **every_option)
    logits = steps(model, batch["source"], batch["target"])
    assert logits.dtype == np.float32
    real = batch["target"] != 0
    # What bfloat16 rounds to with logits of a few units.
    np.testing.assert_allclose(logits[real], model(batch).numpy()[real], rtol=0, atol=0.2)


@pytest.mark.parametrize("variant_model", ["base", "every option"], indirect=True)
def test_hypotheses_side_by_side(variant_model, batch):
    """Two targets of one source at once give what each gives alone."""
    source = batch["source"][[0, 0]]
    targets = batch["target"][1:3]
    alone = steps(variant_model, source, targets)
    length = targets.shape[1]
    cache = variant_model.start_cache(*variant_model.encode(source[:1]), length, hypotheses=2)
    for index in range(length):
        previous = targets[None, :, max(index - 1, 0)]
        logits, cache = variant_model.decode_step(previous, index, cache)
        np.testing.assert_allclose(logits.numpy()[0], alone[:, index], rtol=0, atol=1e-5)
