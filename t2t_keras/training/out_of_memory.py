"""The error of what does not fit into memory, whatever the backend calls it."""


class OutOfMemoryError(Exception):
    """A gradient or a loss did not fit; weights, moments and number of steps are as before."""
