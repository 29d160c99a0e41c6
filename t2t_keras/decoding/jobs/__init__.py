"""Decoding of whole files, resumable line by line."""
