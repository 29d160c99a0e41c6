"""Atomic files, JSON state and locks, and what goes to a terminal."""
