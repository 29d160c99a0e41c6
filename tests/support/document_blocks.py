"""The blocks of code in README.md and docs/: those that tests run, and why others are not run.

A block that is not run has a mark on the line before it: <!-- not run: the reason -->.
"""

import dataclasses
import re
from pathlib import Path

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>.+) -->\n)?^```(?P<language>.*)\n(?P<text>(?s:.*?))^```$", re.M
)
_SHELL = ("sh", "bash", "console")
# Pages that are about to be merged.
_OLD = {"installing.md", "wmt.md", "parsing.md", "tables.md", "results.md", "questions.md"}


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
      reason: why it is not run, or None.
    """

    page: str
    line: int
    language: str
    text: str
    reason: str | None

    def __str__(self):
        return f"{self.page}:{self.line}"

    @property
    def is_shell(self):
        return self.language in _SHELL


def pages(root: Path) -> list[Path]:
    """Returns the pages: README.md and those in docs/."""
    in_docs = sorted(path for path in (root / "docs").glob("*.md") if path.name not in _OLD)
    return [root / "README.md", *in_docs]


def blocks(root: Path) -> list[Block]:
    """Returns all blocks of all pages."""
    return [
        Block(
            page=path.relative_to(root).as_posix(),
            line=text.count("\n", 0, match.start("text")),
            **match.groupdict(),
        )
        for path in pages(root)
        for text in [path.read_text(encoding="utf-8")]
        for match in _BLOCK.finditer(text)
    ]


def outside_blocks(text: str) -> str:
    """Returns a page without its blocks."""
    return _BLOCK.sub("", text)
