"""Exports for other programs than TensorFlow Serving."""
