"""What a `Translator` searches with."""

ENGINES = ("keras", "ctranslate2")
