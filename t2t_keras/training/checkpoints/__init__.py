"""Checkpoints: the file, a run's files, averages."""
