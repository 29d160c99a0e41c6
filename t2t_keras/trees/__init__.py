"""Constituency trees: reading treebanks, trees as sequences of symbols, and back."""
