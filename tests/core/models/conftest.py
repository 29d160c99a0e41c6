"""A small Transformer with random weights, a padded batch for it, and its NumPy counterpart."""

import numpy as np
import pytest
from numpy_transformer import NumpyTransformer

VOCAB_SIZE = 11
# h * d_k and h * d_v differ from d_model, and d_k from d_v.
SHAPE = dict(num_layers=2, d_model=8, d_ff=12, num_heads=3, d_k=5, d_v=4)
SOURCE_LENGTHS = (5, 3, 1)
TARGET_LENGTHS = (2, 6, 4)
# What the paper's base model does not have, one by one and all together. Sentences are longer than
# the radius, and have more tokens than there are learned positions.
OPTIONS = {
    "restricted": dict(self_attention_radius=1),
    "learned positions": dict(positions="learned", max_positions=4),
    "parameter attention": dict(feed_forward="parameter_attention", parameter_attention_heads=2),
    "pre-norm": dict(pre_norm=True),
    "activation and depths": dict(activation="silu", num_encoder_layers=3, num_decoder_layers=1),
    "biases": dict(attention_bias=True, softmax_bias=True, norm_epsilon=1e-3),
    "embeddings": dict(share_embeddings="none", embedding_norm=True, scale_embedding=False),
    "start and first position": dict(start_id=1, first_position=2),
}
EVERY_OPTION = {name: value for option in OPTIONS.values() for name, value in option.items()}
VARIANTS = {
    "base": {},
    **OPTIONS,
    "every option": EVERY_OPTION,
    "concatenated": dict(sinusoids="concatenated", share_embeddings="input"),
    "tensor2tensor": dict(sinusoids="tensor2tensor", share_embeddings="target"),
    "rotary": dict(positions="rotary", d_k=6),
    "no positions": dict(positions="none", source_bias=True),
    "two vocabularies": dict(share_embeddings="target", source_vocab_size=14),
}


@pytest.fixture(scope="session")
def make_model(randomised):
    """make_model(**changes): the model with random weights; its arguments are the model's."""
    from t2t_keras.models.transformer import Transformer

    def make(**changes):
        model = Transformer(VOCAB_SIZE, **(SHAPE | changes), name="transformer")
        model.build()
        return randomised(model)

    return make


@pytest.fixture(scope="session")
def model(make_model):
    return make_model()


@pytest.fixture(scope="session")
def every_option():
    """The arguments of the model that differs most from the paper's base."""
    return EVERY_OPTION


@pytest.fixture(scope="session", params=VARIANTS)
def variant_model(make_model, request):
    """The paper's base model and those that differ from it, one kind after another."""
    return make_model(**VARIANTS[request.param])


@pytest.fixture(scope="session")
def make_reference():
    """make_reference(model, changed): its NumPy counterpart, some weights of which are changed."""

    def make(model, changed=()):
        weights = {v.path.partition("/")[2]: v.numpy() for v in model.trainable_variables}
        return NumpyTransformer(model.config, weights | dict(changed))

    return make


@pytest.fixture(scope="session")
def batch():
    """Three pairs of different lengths, padded with 0."""
    random = np.random.default_rng(1)

    def padded(lengths):
        ids = random.integers(1, VOCAB_SIZE, (len(lengths), max(lengths)), np.int32)
        return np.where(np.arange(max(lengths)) < np.array(lengths)[:, None], ids, 0)

    return {"source": padded(SOURCE_LENGTHS), "target": padded(TARGET_LENGTHS)}


@pytest.fixture(scope="session")
def pairs(batch):
    """The pairs of the batch without padding."""
    return [[ids[ids != 0] for ids in pair] for pair in zip(*batch.values(), strict=True)]
