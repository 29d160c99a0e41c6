"""What the server speaks: LibreTranslate's API, DeepL's, and that of its own page."""
