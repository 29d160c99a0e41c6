"""Clients of TensorFlow Serving; they run without TensorFlow and Keras."""
