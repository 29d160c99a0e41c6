"""Constituency trees: reading them, writing them as symbols, scoring them."""
