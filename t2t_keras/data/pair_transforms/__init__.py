"""Pair transforms for placeholders and terms."""
