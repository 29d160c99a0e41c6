"""A small Transformer with random weights, a padded batch for it, and its NumPy counterpart."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

VOCAB_SIZE = 11
# h * d_k and h * d_v differ from d_model, and d_k from d_v.
SHAPE = dict(num_layers=2, d_model=8, d_ff=12, num_heads=3, d_k=5, d_v=4)
SOURCE_LENGTHS = (5, 3, 1)
TARGET_LENGTHS = (2, 6, 4)


@pytest.fixture(scope="session")
def make_model():
    """Returns a function that makes the model with random weights; its arguments are the model's.

    No weight keeps its first value: scales of 1 and offsets of 0 would hide mistakes.
    """
    from t2t_keras.models.transformer import Transformer

    def make(**changes):
        model = Transformer(VOCAB_SIZE, **(SHAPE | changes), name="transformer")
        model.build()
        random = np.random.default_rng(0)
        for weight in model.trainable_variables:
            around = 1.0 if weight.path.endswith("gamma") else 0.0
            weight.assign(random.normal(around, 0.4, weight.shape))
        return model

    return make


@pytest.fixture(scope="session")
def model(make_model):
    return make_model()


@pytest.fixture(scope="session")
def weights(model):
    """The model's weights by path, without the model's name."""
    return {v.path.partition("/")[2]: v.numpy() for v in model.trainable_variables}


@pytest.fixture(scope="session")
def make_reference():
    """Returns a function that makes the NumPy Transformer of given weights."""
    path = Path(__file__).with_name("numpy_transformer.py")
    spec = importlib.util.spec_from_file_location("numpy_transformer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda weights: module.NumpyTransformer(weights, SHAPE["num_layers"], SHAPE["num_heads"])


@pytest.fixture(scope="session")
def reference(make_reference, weights):
    return make_reference(weights)


@pytest.fixture
def batch():
    """Three pairs of different lengths, padded with 0."""
    random = np.random.default_rng(1)

    def padded(lengths):
        ids = random.integers(1, VOCAB_SIZE, (len(lengths), max(lengths)))
        return np.where(np.arange(max(lengths)) < np.array(lengths)[:, None], ids, 0).astype(int)

    return {
        "source": padded(SOURCE_LENGTHS).astype(np.int32),
        "target": padded(TARGET_LENGTHS).astype(np.int32),
    }


@pytest.fixture
def pairs(batch):
    """The pairs of the batch without padding."""
    return [
        (source[:m], target[:n])
        for source, target, m, n in zip(
            batch["source"], batch["target"], SOURCE_LENGTHS, TARGET_LENGTHS, strict=True
        )
    ]
