"""The feed-forward sub-layer (section 3.3), and attention over parameters in its place."""

import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t_keras.hyperparameters import LayerConfig
from t2t_keras.layers.attention import scaled_dot_product_attention
from t2t_keras.layers.base import (
    Dropout,
    PaperLayer,
    check_sizes,
    pop_alias,
    project,
)
from t2t_keras.registry import ACTIVATIONS, FEED_FORWARDS

# These are not activations, change the width, or need a second argument.
_EXCLUDED_FUNCTIONS = {"deserialize", "get", "glu", "serialize", "threshold"}
for _name, _function in vars(keras.activations).items():
    if inspect.isfunction(_function) and _name not in _EXCLUDED_FUNCTIONS:
        ACTIVATIONS.add(_function, _name)


@ACTIVATIONS.add
def gelu_tanh(x):
    """`gelu` approximated with tanh, as in fairseq's gelu_accurate and OpenNMT-tf's gelu."""
    return keras.activations.gelu(x, approximate=True)


@keras.saving.register_keras_serializable(package="t2t_keras")
class FeedForward(PaperLayer):
    """max(0, x W_1 + b_1) W_2 + b_2, the same at every position (section 3.3, equation 2).

    Args:
      d_ff: inner width.
      dropout: share of the inner units dropped after the activation (0 in the paper).
      activation: a function, or the name of a Keras function or of a registered one; default
        max(0, x). It must treat each position alone.
      seed: seed of the dropout.
      **kwargs: `kernel_initializer`, `bias_initializer`, `kernel_regularizer`, `bias_regularizer`,
        `kernel_constraint` and `bias_constraint` of both matrices, and arguments of every Keras
        layer.

    Call arguments:
      x: [..., d_model].
      training: whether dropout acts.

    Returns:
      [..., d_model].
    """

    _weights_with_options = ("kernel", "bias")

    def __init__(
        self,
        d_ff: int,
        dropout: float = 0.0,
        activation: str | Callable[[Any], Any] = "relu",
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.d_ff = d_ff
        self.seed = seed
        check_sizes(self, d_ff=1)
        registered_function = ACTIVATIONS[activation] if isinstance(activation, str) else None
        self.activation = registered_function or keras.activations.get(activation)
        self._activation_name = activation if registered_function else None
        self.relu_dropout = Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, x_shape):
        """Makes W_1, b_1, W_2 and b_2."""
        d_model = x_shape[-1]
        self.inner = self._make_projection("inner", d_model, self.d_ff, activation=self.activation)
        self.outer = self._make_projection("outer", self.d_ff, d_model)

    def call(self, x, training=None):
        """See the class."""
        inner = self.relu_dropout(project(self.inner, x), training=training)
        return project(self.outer, inner)

    def get_config(self):
        """Returns the constructor's arguments."""
        config = {"d_ff": self.d_ff, "dropout": self.relu_dropout.rate, "seed": self.seed}
        serialized = self._activation_name or keras.activations.serialize(self.activation)
        return {**super().get_config(), **config, "activation": serialized}


@FEED_FORWARDS.add
def feed_forward(config: LayerConfig, d_model: int, **kwargs: Any) -> FeedForward:
    """max(0, x W_1 + b_1) W_2 + b_2, or with another activation (section 3.3)."""
    kwargs = {"activation": config.activation, **kwargs}
    return FeedForward(config.d_ff, config.relu_dropout, **kwargs)


@keras.saving.register_keras_serializable(package="t2t_keras")
class ParameterAttention(PaperLayer):
    """Multi-head attention whose keys and values are trained parameters, the same for all inputs.

    From the paper's source, "Two Feed-Forward Layers = Attention over Parameters": a feed-forward
    network is an attention whose keys are the columns of W_1, whose values are the rows of W_2, and
    whose softmax is a ReLU. Keys and values are scaled by sqrt(d_model), as embeddings are.

    Args:
      num_heads: h_p.
      num_pairs: n_p, pairs of a key and a value in each head.
      key_dim: d_pk, width of queries and keys; `d_k` is an alias.
      value_dim: d_pv, width of values, default `key_dim`; `d_v` is an alias.
      dropout: share of attention weights dropped (0 in the paper).
      seed: seed of the dropout.
      **kwargs: `kernel_initializer`, `kernel_regularizer` and `kernel_constraint` of the two
        projections, the keys and the values, which have no biases; and arguments of every Keras
        layer.

    Call arguments:
      x: [..., d_model].
      training: whether dropout acts.

    Returns:
      [..., d_model].
    """

    _weights_with_options = ("kernel",)

    def __init__(
        self,
        num_heads: int,
        num_pairs: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        key_dim = pop_alias(self, kwargs, "d_k", "key_dim", key_dim)
        value_dim = pop_alias(self, kwargs, "d_v", "value_dim", value_dim)
        if key_dim is None:
            raise TypeError(f"{type(self).__name__} needs key_dim.")
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.num_pairs = num_pairs
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.seed = seed
        self.attention_dropout = Dropout(dropout, seed=seed, dtype=self.dtype_policy)
        check_sizes(self, num_heads=1, num_pairs=1, key_dim=1, value_dim=1)

    def build(self, x_shape):
        """Makes the two projections, the keys and the values."""
        d_model, heads = x_shape[-1], self.num_heads
        options = dict(kernel_initializer="glorot_uniform", use_bias=False)

        def make_parameters(name, width):
            normal = keras.initializers.RandomNormal(stddev=d_model**-0.5)
            options = {"kernel_initializer": normal, **self._copy_weight_options()}
            options = {kind.removeprefix("kernel_"): value for kind, value in options.items()}
            return self.add_weight(name=name, shape=(self.num_pairs, heads, width), **options)

        self.query_projection = self._make_projection(
            "query", d_model, heads * self.key_dim, **options
        )
        self.keys = make_parameters("keys", self.key_dim)
        self.values = make_parameters("values", self.value_dim)
        self.output_projection = self._make_projection(
            "output", heads * self.value_dim, d_model, **options
        )

    def call(self, x, training=None):
        """See the class."""
        lead_shape = ops.shape(x)[:-1]
        scale = x.shape[-1] ** 0.5
        # All positions of all sentences are queries of one attention.
        query = ops.reshape(self.query_projection(x), (-1, self.num_heads, self.key_dim))
        query, key, value = (
            ops.transpose(ops.cast(tensor, x.dtype), (1, 0, 2))
            for tensor in (query, self.keys * scale, self.values * scale)
        )
        heads, _ = scaled_dot_product_attention(
            query, key, value, dropout=self.attention_dropout, training=training
        )
        heads = ops.transpose(heads, (1, 0, 2))
        concatenated = ops.reshape(heads, (*lead_shape, self.num_heads * self.value_dim))
        return self.output_projection(concatenated)

    def get_config(self):
        """Returns the constructor's arguments."""
        names = "num_heads", "num_pairs", "key_dim", "value_dim", "seed"
        config = {name: getattr(self, name) for name in names}
        return {**super().get_config(), **config, "dropout": self.attention_dropout.rate}


@FEED_FORWARDS.add
def parameter_attention(config: LayerConfig, d_model: int, **kwargs: Any) -> ParameterAttention:
    """Attention over parameters in place of the feed-forward network."""
    widths = config.head_widths(d_model)
    heads, dropout = config.parameter_attention_heads, config.relu_dropout
    kwargs = {name: value for name, value in kwargs.items() if not name.startswith("bias_")}
    return ParameterAttention(heads, config.d_ff, *widths, dropout, **kwargs)
