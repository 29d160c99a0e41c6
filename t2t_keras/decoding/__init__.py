"""Beam search and the translator."""
