"""Models that take text and give text, as TensorFlow Serving loads them."""
