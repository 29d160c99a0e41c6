"""Finds many sequences in a longer one, in one pass."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any


class Trie:
    """Sequences of keys, each with values."""

    def __init__(self) -> None:
        # Each node has the nodes that follow by key, and under None the values that end there.
        self._root: dict[Any, Any] = {}

    def add(self, keys: Sequence[Hashable], value: Any) -> None:
        """Adds a value under a sequence of keys; None is not a key."""
        node = self._root
        for key in keys:
            node = node.setdefault(key, {})
        node.setdefault(None, []).append(value)

    def find(
        self, keys: Sequence[Hashable], first_keys: Sequence[Hashable] = ()
    ) -> Iterator[tuple[int, int, list[Any]]]:
        """Yields (start, end, values) of each added sequence that occurs in `keys`.

        Args:
          keys: to be searched.
          first_keys: keys to compare with the first of a sequence; empty = `keys`.
        """
        for start, key in enumerate(first_keys or keys):
            node, end = self._root.get(key), start + 1
            while node is not None:
                if None in node:
                    yield start, end, node[None]
                node = node.get(keys[end]) if end < len(keys) else None
                end += 1
