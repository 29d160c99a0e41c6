"""Each module reads one format, by its function `read`."""
