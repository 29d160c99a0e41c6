"""Search for outputs: ids in, hypotheses out."""
