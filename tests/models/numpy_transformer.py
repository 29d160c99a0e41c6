"""The Transformer's forward pass from the paper's formulas, in NumPy and float64.

An independent reference: one sentence pair at a time, without padding or masks, one head after the
other. Nothing is shared with the code under test but the names of the weights.
"""

import numpy as np


class NumpyTransformer:
    """A Transformer with given weights.

    Args:
      weights: arrays by path, such as "encoder_0/self_attention/query".
      num_layers: N.
      num_heads: h.
    """

    def __init__(self, weights, num_layers, num_heads):
        self._weights = {path: np.asarray(array, np.float64) for path, array in weights.items()}
        self._num_layers = num_layers
        self._num_heads = num_heads

    def logits(self, source, target):
        """Returns logits [target length, V] of one pair of unpadded id sequences."""
        matrix = self._weights["embedding/matrix"]
        memory = self.encode(source)
        shifted = np.vstack([np.zeros(matrix.shape[1]), self._embed(target[:-1])])
        x = shifted + positions(len(target), matrix.shape[1])
        past_and_self = np.tril(np.ones((len(target), len(target)), bool))
        for i in range(self._num_layers):
            layer = f"decoder_{i}"
            attended = self._attend(f"{layer}/self_attention", x, x, past_and_self)
            x = self._add_and_norm(f"{layer}/residual_1", x, attended)
            attended = self._attend(f"{layer}/memory_attention", x, memory)
            x = self._add_and_norm(f"{layer}/residual_2", x, attended)
            x = self._add_and_norm(f"{layer}/residual_3", x, self._feed_forward(layer, x))
        return x @ matrix.T

    def encode(self, source):
        """Returns the encoder's output [source length, d_model] for one id sequence."""
        x = self._embed(source)
        x = x + positions(*x.shape)
        for i in range(self._num_layers):
            layer = f"encoder_{i}"
            attended = self._attend(f"{layer}/self_attention", x, x)
            x = self._add_and_norm(f"{layer}/residual_1", x, attended)
            x = self._add_and_norm(f"{layer}/residual_2", x, self._feed_forward(layer, x))
        return x

    def _embed(self, ids):
        matrix = self._weights["embedding/matrix"]
        return matrix[np.asarray(ids, int)] * np.sqrt(matrix.shape[1])

    def _attend(self, path, query, memory, legal=None):
        w_q, w_k, w_v = (
            np.split(self._weights[f"{path}/{name}"], self._num_heads, axis=1)
            for name in ("query", "key", "value")
        )
        heads = []
        for head in range(self._num_heads):
            q, k, v = query @ w_q[head], memory @ w_k[head], memory @ w_v[head]
            scores = q @ k.T / np.sqrt(k.shape[1])
            if legal is not None:
                scores = np.where(legal, scores, -np.inf)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            heads.append(weights / weights.sum(axis=1, keepdims=True) @ v)
        return np.hstack(heads) @ self._weights[f"{path}/output"]

    def _feed_forward(self, layer, x):
        w_1, b_1, w_2, b_2 = (
            self._weights[f"{layer}/feed_forward/{part}"]
            for part in ("inner/kernel", "inner/bias", "outer/kernel", "outer/bias")
        )
        return np.maximum(0, x @ w_1 + b_1) @ w_2 + b_2

    def _add_and_norm(self, path, x, sublayer_output):
        x = x + sublayer_output
        deviation = x - x.mean(axis=1, keepdims=True)
        normalised = deviation / np.sqrt((deviation**2).mean(axis=1, keepdims=True) + 1e-6)
        return normalised * self._weights[f"{path}/norm/gamma"] + self._weights[f"{path}/norm/beta"]


def positions(length, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same): [length, d_model]."""
    encoding = np.zeros((length, d_model))
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            encoding[position, 2 * i] = np.sin(angle)
            encoding[position, 2 * i + 1] = np.cos(angle)
    return encoding
