"""Exports for programs other than TensorFlow Serving."""
