"""A server of translations: LibreTranslate's and DeepL's APIs, and a page."""
