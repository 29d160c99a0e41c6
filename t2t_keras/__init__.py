"""The Transformer of "Attention Is All You Need" in TensorFlow and Keras 3."""

__version__ = "0.1.0"
