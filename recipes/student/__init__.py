"""Trains a small, fast student of a large teacher from raw corpora."""
