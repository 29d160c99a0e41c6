"""The special ids of every vocabulary."""

PADDING_ID = 0
EOS_ID = 1  # end of sentence
UNKNOWN_ID = 2

# SentencePiece's sign for a space.
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
