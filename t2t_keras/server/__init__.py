"""A server for people and programs that have text: LibreTranslate's and DeepL's APIs, and a page."""
