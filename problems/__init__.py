"""The registered problems, one file a family."""
