"""What a `Translator` searches with."""
