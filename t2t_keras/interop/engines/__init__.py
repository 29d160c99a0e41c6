"""Other programs than Keras that a `Translator` searches with."""
