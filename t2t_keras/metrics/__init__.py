"""Scores of text: BLEU and chrF, in the conventions that papers report."""
