"""Translations of one text compared: scores and whether they differ by chance, where and how."""
