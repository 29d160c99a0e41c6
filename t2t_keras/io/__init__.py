"""Atomic files, JSON, locks, flags, pages, and output to a terminal."""
