"""The error of a step whose gradient does not fit into memory, whatever the backend calls it."""


class OutOfMemoryError(Exception):
    """A gradient did not fit into memory; weights, moments and number of steps are as before."""
