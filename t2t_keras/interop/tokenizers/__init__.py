"""Vocabularies of other toolkits' models, by the ends of their files' names."""
