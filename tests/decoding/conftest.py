"""A plain Python beam search, models with random weights, and files."""

from pathlib import Path

import numpy as np
import pytest

from t2t_keras.models.transformer import Transformer
from t2t_keras.text.tokenizer import Tokenizer

EOS = 1
VOCABULARY = "the a small big dog cat man woman sees sleeps eats house tree red green"


@pytest.fixture(scope="session")
def plain_beam_search():
    """Follows each hypothesis as a tuple until nothing is live: no early stop, no tensors."""

    def search(following, max_length, alpha, beam_size, penalty=lambda symbols: 0.0):
        """Returns [(symbols with the end, score), ...], best first.

        `following(prefix)` gives the log-probability of every symbol after a tuple of symbols;
        `penalty(symbols)`, what a finished one's score loses besides.
        """
        live, finished = [((), 0.0)], []
        while live:
            continuations = []
            for symbols, log_prob in live:
                next_log_probs = following(symbols)
                at_last = len(symbols) == max_length - 1
                allowed = [EOS] if at_last else range(1, len(next_log_probs))
                continuations += [((*symbols, i), log_prob + next_log_probs[i]) for i in allowed]
            continuations.sort(key=lambda continuation: -continuation[1])
            for symbols, log_prob in continuations[:beam_size]:
                if symbols[-1] == EOS:
                    score = log_prob / ((5 + len(symbols)) / 6) ** alpha - penalty(symbols)
                    finished.append((symbols, score))
            live = [found for found in continuations if found[0][-1] != EOS][:beam_size]
            if beam_size == 1 and finished:
                break
        return sorted(finished, key=lambda hypothesis: -hypothesis[1])

    return search


@pytest.fixture(scope="session")
def table_search(load_module):
    """The module of the model that is a table."""
    return load_module(Path(__file__).with_name("table_search.py"))


@pytest.fixture(scope="session")
def padded():
    """padded(rows): int32 [rows, longest], filled up with 0."""

    def padded(rows):
        width = max(map(len, rows))
        return np.array([[*row, *[0] * (width - len(row))] for row in rows], np.int32)

    return padded


@pytest.fixture(scope="session")
def tokenizer():
    return Tokenizer.train([VOCABULARY] * 20, vocab_size=310)


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
    matrix = model.embedding.matrix.numpy()
    for piece, number in tokenizer.vocabulary().items():
        matrix[number] *= 0.0 if piece.startswith("<0x") else 1.5 if piece[0] == "▁" else 1.0
    model.embedding.matrix.assign(matrix)
    return model


@pytest.fixture
def write(tmp_path):
    """write(name, text): the path of a new file."""

    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text.encode("utf-8"))
        return path

    return write
