"""Every registered set's model, trained for a few steps, against NumPy and its own cache.

Widths are divided by 16 (d_ff by 64), which keeps the proportions of the rows of Table 3; so is
kept how many layers a row (C) has, the base model has 2 and others have 1.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import registry
from t2t_keras.data.batches import TokenArrays
from t2t_keras.models.transformer import Transformer
from t2t_keras.training.tensorflow_step import TensorFlowStep

VOCAB_SIZE = 13
STEPS = 3
# What the reference needs to know of a set, besides its weights.
STRUCTURE = ("num_layers", "num_heads", "self_attention_radius", "learned_positions")
STRUCTURE += ("parameter_attention_heads", "pre_norm")

_LAYERS = {"transformer_base": 2}

registry.registry_help()  # Imports all sets.
RUNS = {name: (name, {}) for name in registry._hparams_sets.all()}
RUNS["restricted"] = ("transformer_base", dict(self_attention_radius=2))


def scaled(name, changes):
    """Returns a set at small widths, which learns fast enough to move every weight soon."""
    hparams = registry.hparams(name)
    small = dict(
        d_model=hparams.d_model // 16,
        d_ff=hparams.d_ff // 64,
        d_k=hparams.d_k // 16,
        d_v=hparams.d_v // 16,
        num_layers=_LAYERS.get(name, hparams.num_layers if hparams.num_layers != 6 else 1),
        # Fewer than the tokens of the longest sentence.
        learned_positions=min(hparams.learned_positions, 12),
        warmup_steps=4,
    )
    return registry.hparams(name, small | changes)


def pairs(random, lengths):
    """Returns random sources, and the same ids in descending order, of (source, target) lengths."""
    ids = [np.sort(random.integers(3, VOCAB_SIZE, max(each))) for each in lengths]
    return [(row[:m], row[::-1][:n]) for row, (m, n) in zip(ids, lengths, strict=True)]


def padded(rows):
    length = max(map(len, rows))
    return np.stack([np.pad(row, (0, length - len(row))) for row in rows]).astype(np.int32)


@pytest.fixture(scope="module")
def eagerly():
    """Compiled functions run as Python: for so few steps, building a graph takes longer."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module", params=RUNS.values(), ids=RUNS)
def trained(request, eagerly):
    """A set's hyperparameters and its model after a few steps of training."""
    hparams = scaled(*request.param)
    step = TensorFlowStep(
        lambda: Transformer.from_hparams(hparams, VOCAB_SIZE),
        hparams,
        tf.distribute.get_strategy(),
        seed=1,
    )
    first = [weight.numpy() for weight in step.model.trainable_variables]
    random = np.random.default_rng(0)
    for number in range(STEPS):
        sources, targets = zip(*pairs(random, [(14, 14), (6, 8), (9, 3)]), strict=True)
        step.update(number, [[TokenArrays(padded(sources), padded(targets))]])
    for weight, before in zip(step.model.trainable_variables, first, strict=True):
        moved = np.abs(weight.numpy() - before)
        assert moved.max() > 1e-3, weight.path
    return hparams, step.model


@pytest.fixture
def unseen():
    """Pairs that were not trained on; the first is longer than a block of restricted attention."""
    return pairs(np.random.default_rng(1), [(18, 20), (7, 1), (1, 5)])


@pytest.fixture
def batch(unseen):
    sources, targets = zip(*unseen, strict=True)
    return {"source": padded(sources), "target": padded(targets)}


def test_logits_are_the_paper_s(trained, unseen, batch, numpy_transformer, weights_of):
    hparams, model = trained
    structure = {name: getattr(hparams, name) for name in STRUCTURE}
    reference = numpy_transformer.NumpyTransformer(weights_of(model), **structure)
    expected = [reference.logits(source, target) for source, target in unseen]
    for ours, theirs in zip(model(batch).numpy(), expected, strict=True):
        assert np.abs(theirs).max() > 1
        np.testing.assert_allclose(ours[: len(theirs)], theirs, rtol=0, atol=1e-5)
    # As the trainer computes them.
    packed = model(batch, packed=True)
    np.testing.assert_allclose(packed, np.concatenate(expected), rtol=0, atol=1e-5)


def test_cached_decoding_gives_the_same_logits(trained, batch):
    _, model = trained
    expected = model(batch).numpy()
    cache = model.start_cache(*model.encode(batch["source"]), room=5)
    for index in range(5):
        previous = batch["target"][:, max(index - 1, 0)]
        logits, cache = model.decode_step(previous[:, None], index, cache)
        real = batch["target"][:, index] != 0
        np.testing.assert_allclose(
            logits.numpy()[real, 0], expected[real, index], rtol=0, atol=1e-5, err_msg=str(index)
        )
