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
        if self.config.start_id:
            start = self._embed("target", [self.config.start_id])
        x = np.vstack([start, self._embed("target", target[:-1])])
        x = self._run("decoder", self._placed("target", x), self.encode(source))
        table = self._table("target")
        if self.config.share_embeddings in ("all", "target"):
            logits = x @ self.weights[f"{table}/embeddings"].T
        else:
            logits = x @ self.weights[f"{table}/reverse_embeddings"]
        bias = f"{table.removesuffix('/table')}/bias"
        return logits + self.weights[bias] if self.config.softmax_bias else logits

    def encode(self, source):
        """Returns the encoder's output [source length, d_model] for one id sequence."""
        x = self._embed("source", source)
        x = x + self.weights["source_bias"] if self.config.source_bias else x
        return self._run("encoder", self._placed("source", x))

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

    def _table(self, side):
        shared = self.config.share_embeddings in ("all", "input")
        return "embedding/table" if shared else f"{side}_embedding/table"

    def _embed(self, side, ids):
        embedded = self.weights[f"{self._table(side)}/embeddings"][ids]
        return embedded * np.sqrt(self.config.d_model) if self.config.scale_embedding else embedded

    def _placed(self, side, x):
        position, d_model = self.config.first_position + np.arange(len(x)), self.config.d_model
        if self.config.positions == "learned":
            rows = np.minimum(position, self.config.max_positions - 1)
            x = x + self.weights[f"{side}_positions/table"][rows]
        elif self.config.positions == "sinusoidal":
            waves = sinusoids(position, d_model)
            if self.config.sinusoids == "tensor2tensor":
                angles = position[:, None] * 1e4 ** -(np.arange(d_model // 2) / (d_model // 2 - 1))
                waves = np.hstack([np.sin(angles), np.cos(angles)])
            elif self.config.sinusoids == "concatenated":
                waves = np.hstack([waves[:, ::2], waves[:, 1::2]])
            x = x + waves
        return self._norm(f"{side}_norm", x) if self.config.embedding_norm else x

    def _attend(self, path, query, memory, visible=True):
        def heads_of(name, x):
            projected = self._affine(f"{path}/{name}", x)
            heads = np.split(projected, self.config.num_heads, axis=1)
            turns = self.config.positions == "rotary" and path.endswith("self_attention")
            return [rotated(head) for head in heads] if turns and name != "value" else heads

        q, k, v = heads_of("query", query), heads_of("key", memory), heads_of("value", memory)
        heads = [attention(*head, visible) for head in zip(q, k, v, strict=True)]
        self.attention_weights[path] = np.array([weights for _, weights in heads])
        return self._affine(f"{path}/output", np.hstack([values for values, _ in heads]))

    def _affine(self, path, x):
        product = x @ self.weights[f"{path}/kernel"]
        return product + self.weights[f"{path}/bias"] if self.config.attention_bias else product

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
        variance = (deviation**2).mean(axis=1, keepdims=True)
        normalised = deviation / np.sqrt(variance + self.config.norm_epsilon)
        return normalised * self.weights[f"{path}/gamma"] + self.weights[f"{path}/beta"]


def attention(q, k, v, visible=True):
    """softmax(q k^T / sqrt(d_k)) v of one head, over visible keys [queries, keys]; the softmax.

    A query without any visible key gets zeros.
    """
    exponentials = np.where(visible, np.exp(q @ k.T / np.sqrt(k.shape[1])), 0)
    weights = exponentials / np.maximum(exponentials.sum(axis=1, keepdims=True), 1e-300)
    return weights @ v, weights


def rotated(x):
    """Row t of x with its pairs (2i, 2i+1), as complex numbers, times exp(j·t / 10000^(2i/d))."""
    pairs = x[:, 0::2] + 1j * x[:, 1::2]
    turned = pairs * np.exp(
        1j * np.arange(len(x))[:, None] / 1e4 ** (np.arange(0, x.shape[1], 2) / x.shape[1])
    )
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)


def sinusoids(position, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same): [length, d_model]."""
    angles = position[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    encoding = np.zeros((len(position), d_model))
    encoding[:, 0::2], encoding[:, 1::2] = np.sin(angles), np.cos(angles)
    return encoding
