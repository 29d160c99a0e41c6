"""Search engines of a `Translator` other than Keras."""
