"""The grammar of trees under JAX, without TensorFlow: it allows the same symbols.

In a process of its own, as a process has one backend.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

NAMES = ["<pad>", "</s>", "(A", "/A)", "(B", "/B)", "(x)", "(y)", "w"]
MAX_LENGTH = 9


class Pieces:
    """A vocabulary of these pieces; a source of n words is n times the id of "w"."""

    vocab_size = len(NAMES)

    def __init__(self):
        self.source = self

    def vocabulary(self):
        return {f"\u2581{name}": i for i, name in enumerate(NAMES)}

    def decode(self, sequences):
        return [" ".join("w" * sum(i == len(NAMES) - 1 for i in ids)) for ids in sequences]


def allowed_symbols(call):
    """Returns what may follow random symbols, bool [lengths, B, K, V]; `call` compiles."""
    from t2t_keras.decoding.search import Limits
    from t2t_keras.lab.tree_grammar import TreeGrammar

    random, grammar = np.random.default_rng(0), TreeGrammar(Pieces(), {"w": ["x"]}, 2)
    sources = np.array([[8, 8, 8, 1], [8, 1, 0, 0]], np.int32)
    limits = Limits(np.array([MAX_LENGTH, MAX_LENGTH - 3], np.int32), *[None] * 3)

    def masked(source, live_ids, index):
        logits = np.zeros([*live_ids.shape[:2], len(NAMES)], np.float32)
        return grammar.mask(logits, live_ids, index, limits, grammar.start(source))

    results, masked = [], call(masked)
    for length in range(MAX_LENGTH):
        live_ids = np.zeros([2, 50, MAX_LENGTH], np.int32)
        live_ids[:, :, :length] = random.integers(2, 8, [2, 50, length])
        results.append(np.isfinite(masked(sources, live_ids, np.int32(length))))
    return np.array(results)


def test_the_same_symbols_may_follow(tmp_path):
    pytest.importorskip("jax")
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", Path(__file__), tmp_path / "allowed.npy"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = allowed_symbols(lambda function: function)
    np.testing.assert_array_equal(np.load(tmp_path / "allowed.npy"), expected)
    # Padding, a tag that the lexicon lacks, and other text never may.
    assert expected.any(axis=(0, 1, 2)).tolist() == [False, *[True] * 6, False, False]


if __name__ == "__main__":
    sys.modules["tensorflow"] = None
    import jax

    np.save(sys.argv[1], allowed_symbols(jax.jit))
