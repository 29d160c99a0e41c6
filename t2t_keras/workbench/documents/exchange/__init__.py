"""Files with sources and their translations. Each module of a format has a function `read`."""
