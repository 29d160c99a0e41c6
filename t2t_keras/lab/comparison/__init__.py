"""Comparison of systems' translations of one text."""
