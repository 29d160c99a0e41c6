"""A translation server with LibreTranslate's and DeepL's APIs, and a web page."""
