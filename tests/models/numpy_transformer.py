"""The Transformer's forward pass from the paper's formulas, in NumPy and float64.

An independent reference: one sentence pair at a time, without padding or masks, one head after the
other. Nothing is shared with the code under test but the names of the weights.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass
class NumpyTransformer:
    """A Transformer with given weights.

    Attributes:
      weights: arrays by path, such as "encoder_0/self_attention/query".
      num_layers: N.
      num_heads: h.
      self_attention_radius: rho; encoder position i sees |i - j| <= rho, decoder position i sees
        i - rho <= j <= i; 0 = all, and all before it.
      learned_positions: rows of the two tables; later positions share the last; 0 = sinusoids.
      parameter_attention_heads: h_p of the attention replacing the feed-forward network; 0 = none.
      pre_norm: whether inputs of sub-layers and outputs of stacks are normalised, not the sums.
      attention_weights: by path, [heads, queries, keys] of the last pair.
    """

    weights: dict[str, np.ndarray]
    num_layers: int
    num_heads: int
    self_attention_radius: int = 0
    learned_positions: int = 0
    parameter_attention_heads: int = 0
    pre_norm: bool = False
    attention_weights: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        self.weights = {path: np.asarray(x, np.float64) for path, x in self.weights.items()}

    def logits(self, source, target):
        """Returns logits [target length, V] of one pair of unpadded id sequences."""
        matrix = self.weights["embedding/matrix"]
        memory = self.encode(source)
        start = np.zeros((1, matrix.shape[1]))
        x = np.vstack([start, self._embed(target[:-1])])
        return self._run("decoder", x + self._positions("target", *x.shape), memory) @ matrix.T

    def encode(self, source):
        """Returns the encoder's output [source length, d_model] for one id sequence."""
        x = self._embed(source)
        return self._run("encoder", x + self._positions("source", *x.shape))

    def _run(self, side, x, memory=None):
        near = self._neighbourhood(len(x), causal=memory is not None)
        for i in range(self.num_layers):
            path = f"{side}_{i}"
            sublayers = [lambda y, p=path: self._attend(f"{p}/self_attention", y, y, near)]
            if memory is not None:
                sublayers.append(lambda y, p=path: self._attend(f"{p}/memory_attention", y, memory))
            sublayers.append(lambda y, p=path: self._feed_forward(f"{p}/feed_forward", y))
            for number, sublayer in enumerate(sublayers, 1):
                x = self._residual(f"{path}/residual_{number}", x, sublayer)
        return self._norm(f"{side}_norm", x) if self.pre_norm else x

    def _embed(self, ids):
        matrix = self.weights["embedding/matrix"]
        return matrix[np.asarray(ids, int)] * np.sqrt(matrix.shape[1])

    def _positions(self, side, length, d_model):
        if not self.learned_positions:
            return positions(length, d_model)
        table = self.weights[f"{side}_positions/table"]
        assert len(table) == self.learned_positions
        return np.stack([table[min(i, len(table) - 1)] for i in range(length)])

    def _neighbourhood(self, length, causal):
        visible = np.zeros((length, length), bool)
        for i in range(length):
            for j in range(i + 1 if causal else length):
                visible[i, j] = abs(i - j) <= (self.self_attention_radius or length)
        return visible

    def _attend(self, path, query, memory, visible=None):
        w_q, w_k, w_v = (
            np.split(self.weights[f"{path}/{name}"], self.num_heads, axis=1)
            for name in ("query", "key", "value")
        )
        heads, weights = zip(
            *(
                attention(query @ w_q[head], memory @ w_k[head], memory @ w_v[head], visible)
                for head in range(self.num_heads)
            ),
            strict=True,
        )
        self.attention_weights[path] = np.array(weights)
        return np.hstack(heads) @ self.weights[f"{path}/output"]

    def _feed_forward(self, path, x):
        if self.parameter_attention_heads:
            return self._attend_to_parameters(path, x)
        w_1, b_1, w_2, b_2 = (
            self.weights[f"{path}/{part}"]
            for part in ("inner/kernel", "inner/bias", "outer/kernel", "outer/bias")
        )
        return np.maximum(0, x @ w_1 + b_1) @ w_2 + b_2

    def _attend_to_parameters(self, path, x):
        w_q, keys, values, w_o = (
            self.weights[f"{path}/{part}"] for part in ("query", "keys", "values", "output")
        )
        assert keys.shape[1] == self.parameter_attention_heads
        scale = np.sqrt(x.shape[1])
        heads = []
        for head, w in enumerate(np.split(w_q, self.parameter_attention_heads, axis=1)):
            heads.append(attention(x @ w, keys[:, head] * scale, values[:, head] * scale)[0])
        return np.hstack(heads) @ w_o

    def _residual(self, path, x, sublayer):
        if self.pre_norm:
            return x + sublayer(self._norm(f"{path}/norm", x))
        return self._norm(f"{path}/norm", x + sublayer(x))

    def _norm(self, path, x):
        deviation = x - x.mean(axis=1, keepdims=True)
        normalised = deviation / np.sqrt((deviation**2).mean(axis=1, keepdims=True) + 1e-6)
        return normalised * self.weights[f"{path}/gamma"] + self.weights[f"{path}/beta"]


def attention(q, k, v, visible=None):
    """softmax(q k^T / sqrt(d_k)) v of one head, over visible keys [queries, keys]; the softmax."""
    scores = q @ k.T / np.sqrt(k.shape[1])
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = weights / weights.sum(axis=1, keepdims=True)
    return weights @ v, weights


def smoothed_cross_entropy(logits, target, epsilon):
    """-Σ q log p at each position, q = (1 - epsilon) · one-hot + epsilon / V: [target length]."""
    losses = []
    for scores, wanted in zip(logits, target, strict=True):
        log_p = scores - scores.max()
        log_p = log_p - np.log(np.exp(log_p).sum())
        q = np.full(len(scores), epsilon / len(scores))
        q[wanted] += 1 - epsilon
        losses.append(-(q * log_p).sum())
    return np.array(losses)


def positions(length, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same): [length, d_model]."""
    encoding = np.zeros((length, d_model))
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            encoding[position, 2 * i] = np.sin(angle)
            encoding[position, 2 * i + 1] = np.cos(angle)
    return encoding
