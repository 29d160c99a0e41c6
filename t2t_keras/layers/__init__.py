"""Keras layers of the Transformer, usable alone in any Keras model."""

from t2t_keras.layers.attention import MultiHeadAttention
from t2t_keras.layers.embedding import SharedEmbedding
from t2t_keras.layers.feed_forward import FeedForward
from t2t_keras.layers.normalization import LayerNormalization
from t2t_keras.layers.packing import Packing
from t2t_keras.layers.parameter_attention import ParameterAttention
from t2t_keras.layers.position import LearnedPositions, SinusoidalPositions
from t2t_keras.layers.residual import Residual
from t2t_keras.layers.stacks import DecoderLayer, EncoderLayer
from t2t_keras.layers.symbol_dropout import SymbolDropout

__all__ = [
    "DecoderLayer",
    "EncoderLayer",
    "FeedForward",
    "LayerNormalization",
    "LearnedPositions",
    "MultiHeadAttention",
    "Packing",
    "ParameterAttention",
    "Residual",
    "SharedEmbedding",
    "SinusoidalPositions",
    "SymbolDropout",
]
