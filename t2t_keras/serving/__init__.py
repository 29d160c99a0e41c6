"""Exports that map text to text, for TensorFlow Serving and others, and a client."""
