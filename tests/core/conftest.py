"""Packages that are installed for a test."""

from packages import installed  # noqa: F401
