"""Translators' work: markup, placeholders, terms, documents, the server and its page."""
