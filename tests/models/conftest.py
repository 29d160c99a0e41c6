"""A small Transformer with random weights, a padded batch for it, and its NumPy counterpart."""

from pathlib import Path

import numpy as np
import pytest

VOCAB_SIZE = 11
# h * d_k and h * d_v differ from d_model, and d_k from d_v.
SHAPE = dict(num_layers=2, d_model=8, d_ff=12, num_heads=3, d_k=5, d_v=4)
SOURCE_LENGTHS = (5, 3, 1)
TARGET_LENGTHS = (2, 6, 4)
# What the paper's base model does not have, one by one and all together. Sentences are longer than
# the radius, and have more tokens than there are learned positions.
OPTIONS = {
    "restricted": dict(self_attention_radius=1),
    "learned positions": dict(learned_positions=4),
    "parameter attention": dict(parameter_attention_heads=2),
    "pre-norm": dict(pre_norm=True),
}
EVERY_OPTION = {name: value for option in OPTIONS.values() for name, value in option.items()}
VARIANTS = {"base": {}, **OPTIONS, "every option": EVERY_OPTION}


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


@pytest.fixture(scope="session", params=VARIANTS)
def variant(request):
    """The arguments that make a model differ from the paper's base, one kind after another."""
    return VARIANTS[request.param]


@pytest.fixture(scope="session")
def every_option():
    """The arguments of the model that differs most from the paper's base."""
    return EVERY_OPTION


@pytest.fixture(scope="session")
def variant_model(make_model, variant):
    return make_model(**variant)


@pytest.fixture(scope="session")
def weights_of():
    """Returns a function that gives a model's weights by path, without the model's name."""
    return lambda model: {v.path.partition("/")[2]: v.numpy() for v in model.trainable_variables}


@pytest.fixture(scope="session")
def numpy_transformer(load_module):
    """The module of the reference."""
    return load_module(Path(__file__).with_name("numpy_transformer.py"))


@pytest.fixture(scope="session")
def make_reference(numpy_transformer):
    """Returns a function that makes the NumPy counterpart of `make_model(**changes)`."""
    shape = (SHAPE["num_layers"], SHAPE["num_heads"])
    return lambda weights, **changes: numpy_transformer.NumpyTransformer(weights, *shape, **changes)


@pytest.fixture(scope="session")
def reference(make_reference, weights_of, variant_model, variant):
    """The NumPy counterpart of `variant_model`."""
    return make_reference(weights_of(variant_model), **variant)


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def pairs(batch):
    """The pairs of the batch without padding."""
    return [
        (source[:m], target[:n])
        for source, target, m, n in zip(
            batch["source"], batch["target"], SOURCE_LENGTHS, TARGET_LENGTHS, strict=True
        )
    ]
