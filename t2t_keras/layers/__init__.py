"""Keras layers of the Transformer, usable alone in any Keras model."""

from t2t_keras.layers.attention import MultiHeadAttention, RestrictedSelfAttention
from t2t_keras.layers.base import DenseLayout, RaggedLayout
from t2t_keras.layers.embedding import LearnedPositions, SharedEmbedding, SinusoidalPositions
from t2t_keras.layers.feed_forward import FeedForward, ParameterAttention
from t2t_keras.layers.stacks import (
    LayerNormalization,
    Residual,
    TransformerDecoder,
    TransformerEncoder,
)

__all__ = [
    "DenseLayout",
    "FeedForward",
    "LayerNormalization",
    "LearnedPositions",
    "MultiHeadAttention",
    "ParameterAttention",
    "RaggedLayout",
    "Residual",
    "RestrictedSelfAttention",
    "SharedEmbedding",
    "SinusoidalPositions",
    "TransformerDecoder",
    "TransformerEncoder",
]
