"""The Transformer's forward pass from the paper's formulas, in NumPy and float64.

An independent reference: one sentence pair at a time, without padding, one head after the other.
Nothing is shared with the code under test but the names of its settings and of its weights.
"""

import numpy as np

ACTIVATIONS = {"relu": lambda x: np.maximum(0, x), "silu": lambda x: x / (1 + np.exp(-x))}


class NumpyTransformer:
    """A Transformer with a `ModelConfig` and given weights.

    Attributes:
      weights: arrays by path, such as "encoder_0/self_attention/query/kernel".
      attention_weights: by path, [heads, queries, keys] of the last pair.
    """

    def __init__(self, config, weights):
        self.config = config
        self.weights = {path: np.asarray(x, np.float64) for path, x in weights.items()}
        self.attention_weights = {}

    def logits(self, source, target):
        """Returns logits [target length, V] of one pair of unpadded id sequences."""
        start = np.zeros((1, self.config.d_model))
        x = np.vstack([start, self._embed(target[:-1])]) + self._positions("target", len(target))
        return (
            self._run("decoder", x, self.encode(source))
            @ self.weights["embedding/table/embeddings"].T
        )

    def encode(self, source):
        """Returns the encoder's output [source length, d_model] for one id sequence."""
        return self._run("encoder", self._embed(source) + self._positions("source", len(source)))

    def _run(self, side, x, memory=None):
        position = np.arange(len(x))
        ahead = position - position[:, None]
        visible = np.abs(ahead) <= (self.config.self_attention_radius or len(x))
        if memory is not None:
            visible &= ahead <= 0
        for i in range(getattr(self.config, f"num_{side}_layers") or self.config.num_layers):
            x = self._layer(f"{side}_{i}", x, visible, memory)
        return self._norm(f"{side}_norm", x) if self.config.pre_norm else x

    def _layer(self, path, x, visible, memory):
        sublayers = [lambda y: self._attend(f"{path}/self_attention", y, y, visible)]
        if memory is not None:
            sublayers.append(lambda y: self._attend(f"{path}/memory_attention", y, memory))
        sublayers.append(lambda y: self._feed_forward(f"{path}/feed_forward", y))
        for number, sublayer in enumerate(sublayers, 1):
            norm = f"{path}/residual_{number}/norm"
            if self.config.pre_norm:
                x = x + sublayer(self._norm(norm, x))
            else:
                x = self._norm(norm, x + sublayer(x))
        return x

    def _embed(self, ids):
        return self.weights["embedding/table/embeddings"][ids] * np.sqrt(self.config.d_model)

    def _positions(self, side, length):
        if self.config.positions == "learned":
            rows = np.minimum(np.arange(length), self.config.max_positions - 1)
            return self.weights[f"{side}_positions/table"][rows]
        return sinusoids(np.arange(length), self.config.d_model)

    def _attend(self, path, query, memory, visible=True):
        w_q, w_k, w_v = (
            np.split(self.weights[f"{path}/{name}/kernel"], self.config.num_heads, axis=1)
            for name in ("query", "key", "value")
        )
        heads = [
            attention(query @ w_q[head], memory @ w_k[head], memory @ w_v[head], visible)
            for head in range(self.config.num_heads)
        ]
        self.attention_weights[path] = np.array([weights for _, weights in heads])
        return np.hstack([values for values, _ in heads]) @ self.weights[f"{path}/output/kernel"]

    def _feed_forward(self, path, x):
        if self.config.feed_forward == "parameter_attention":
            return self._attend_to_parameters(path, x)
        w_1, b_1, w_2, b_2 = (
            self.weights[f"{path}/{part}"]
            for part in ("inner/kernel", "inner/bias", "outer/kernel", "outer/bias")
        )
        return ACTIVATIONS[self.config.activation](x @ w_1 + b_1) @ w_2 + b_2

    def _attend_to_parameters(self, path, x):
        w_q, keys, values, w_o = (
            self.weights[f"{path}/{part}"]
            for part in ("query/kernel", "keys", "values", "output/kernel")
        )
        heads, scale = [], np.sqrt(self.config.d_model)
        for head, w in enumerate(np.split(w_q, self.config.parameter_attention_heads, axis=1)):
            heads.append(attention(x @ w, keys[:, head] * scale, values[:, head] * scale)[0])
        return np.hstack(heads) @ w_o

    def _norm(self, path, x):
        deviation = x - x.mean(axis=1, keepdims=True)
        normalised = deviation / np.sqrt((deviation**2).mean(axis=1, keepdims=True) + 1e-6)
        return normalised * self.weights[f"{path}/gamma"] + self.weights[f"{path}/beta"]


def attention(q, k, v, visible=True):
    """softmax(q k^T / sqrt(d_k)) v of one head, over visible keys [queries, keys]; the softmax.

    A query without any visible key gets zeros.
    """
    exponentials = np.where(visible, np.exp(q @ k.T / np.sqrt(k.shape[1])), 0)
    weights = exponentials / np.maximum(exponentials.sum(axis=1, keepdims=True), 1e-300)
    return weights @ v, weights


def sinusoids(position, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same): [length, d_model]."""
    angles = position[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    encoding = np.zeros((len(position), d_model))
    encoding[:, 0::2], encoding[:, 1::2] = np.sin(angles), np.cos(angles)
    return encoding
