"""A small vocabulary, and models of random weights that make words of it."""

import numpy as np
import pytest

from t2t_keras.models.transformer import Transformer
from t2t_keras.text.tokenizer import SentencePieceTokenizer

VOCABULARY = "the a small big dog cat man woman sees sleeps eats house tree red green"


@pytest.fixture(scope="session")
def tokenizer():
    return SentencePieceTokenizer.train([VOCABULARY] * 20, vocab_size=310)


@pytest.fixture(scope="session")
def random_model():
    """random_model(seed, vocab_size, **options): so large weights that no symbol is as likely."""

    def random_model(seed, vocab_size, **options):
        shape = dict(num_layers=2, d_model=8, d_ff=12, num_heads=2)
        model = Transformer(vocab_size, **(shape | options))
        model.build()
        random = np.random.default_rng(seed)
        for weight in model.trainable_variables:
            around = 1.0 if weight.path.endswith("gamma") else 0.0
            scale = 0.5 if len(weight.shape) > 1 else 0.1
            weight.assign(random.normal(around, scale, weight.shape))
        return model

    return random_model


@pytest.fixture(scope="session")
def model(tokenizer, random_model):
    """A model of one layer that makes words of the vocabulary's pieces, and no bytes."""
    model = random_model(1, tokenizer.vocab_size, num_layers=1, d_model=16, d_ff=32)
    matrix = model.embedding.table.embeddings.numpy()
    for piece, number in tokenizer.vocabulary().items():
        matrix[number] *= 0.0 if piece.startswith("<0x") else 1.5 if piece[0] == "▁" else 1.0
    model.embedding.table.embeddings.assign(matrix)
    return model


@pytest.fixture
def write(tmp_path):
    """write(name, text): the path of a new file."""

    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text.encode("utf-8"))
        return path

    return write
