"""One of the equal parts into which a file is divided, so that many machines can work on it."""

import re
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError


class Shard(NamedTuple):
    """Part `number`, from 1, of `count` parts of contiguous lines."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Returns the shard that "3/100" names; raises `UserError` for what names none."""
        found = re.fullmatch(r"(\d+)/(\d+)", text, re.ASCII)
        shard = cls(*map(int, found.groups())) if found else cls(0, 0)
        if not 1 <= shard.number <= shard.count:
            raise UserError(
                f"--shard: expected NUMBER/COUNT with 1 <= NUMBER <= COUNT, such as 3/100, got "
                f"'{text}'.",
                code="bad_value",
            )
        return shard

    def __str__(self):
        return f"{self.number}/{self.count}"

    def lines(self, total: int) -> range:
        """Returns which of so many lines belong to it, from 0; parts differ by at most one line."""
        return range(total * (self.number - 1) // self.count, total * self.number // self.count)

    def path(self, whole: str | Path) -> str:
        """Returns the name of its part of a file, "news.de-00003-of-00100"; they sort by number."""
        return f"{whole}-{self.number:05d}-of-{self.count:05d}"
