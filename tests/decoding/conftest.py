"""A plain Python beam search, a model that has learned to reverse lines, and files."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.models.transformer import Transformer
from t2t_keras.text.tokenizer import Tokenizer

EOS = 1
VOCABULARY = "the a small big dog cat man woman sees sleeps eats house tree red green"
WORDS = VOCABULARY.split()


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
def model(tokenizer, padded):
    """Taught for a few seconds to turn the order of words around; it is often right."""
    keras.utils.set_random_seed(1)
    model = Transformer(
        tokenizer.vocab_size, num_layers=1, d_model=16, d_ff=32, num_heads=2, dropout=0.0
    )
    model.build()
    optimizer = keras.optimizers.Adam(1e-2)
    optimizer.build(model.trainable_variables)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
    def train(source, target):
        with tf.GradientTape() as tape:
            logits = model({"source": source, "target": target}, training=True)
            real = tf.cast(target != 0, tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
            loss = tf.reduce_sum(real * losses) / tf.reduce_sum(real)
        gradients = tape.gradient(loss, [weight.value for weight in model.trainable_variables])
        optimizer.apply([tf.convert_to_tensor(gradient) for gradient in gradients])

    random = np.random.default_rng(0)
    for _ in range(200):
        words = [random.choice(WORDS, random.integers(1, 8)) for _ in range(16)]
        sources = tokenizer.encode([" ".join(line) for line in words])
        targets = tokenizer.encode([" ".join(line[::-1]) for line in words])
        train(padded(sources), padded(targets))
    return model


@pytest.fixture
def write(tmp_path):
    """write(name, text): the path of a new file."""

    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text.encode("utf-8"))
        return path

    return write
