"""The version, apart from what imports everything."""

__version__ = "0.1.0"
