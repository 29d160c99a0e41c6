"""Files in one language. Each module of a format has a function `read`."""
