"""The registered problems, one file per family."""
