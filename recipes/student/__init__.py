"""From raw corpora to a small, fast student of a large teacher."""
