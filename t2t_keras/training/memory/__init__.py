"""How much of a batch fits into memory at once."""
