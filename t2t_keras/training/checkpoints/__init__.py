"""Checkpoints: writing, finding, averaging and converting them."""
