"""The blocks of code in README.md and docs/: those that tests run, and why others are not run.

A block that is not run has a mark on the line before it: <!-- not run: the reason -->.
"""

import dataclasses
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from commands import modules_of_commands

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>.+) -->\n)?^```(?P<language>.*)\n(?P<text>(?s:.*?))^```$", re.M
)
_SHELL = ("sh", "bash", "console")
_RECORD = """#!/bin/bash
call="$CALLS/$(printf %03d "$(ls "$CALLS" | grep -c -v input)")"
cat >"$call.input"
printf '%s\\0' "${0##*/}" "$@" >"$call"
"""


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
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


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


def write_stubs(folder: Path, programs: Iterable[str] = ()) -> Path:
    """Fills a folder with stand-ins for t2t commands and others, which record their calls."""
    folder.mkdir(exist_ok=True)
    for name in (*modules_of_commands(), *programs):
        (folder / name).write_text(_RECORD)
        (folder / name).chmod(0o755)
    return folder


def recorded_calls(
    text: str, cwd: Path, stubs: Path, records: Path, strict: bool = True
) -> Iterator[tuple[list[str], bytes]]:
    """Runs a shell's text with stand-ins; yields arguments and input of the t2t commands in it."""
    environment = os.environ | {"CALLS": str(records), "PATH": f"{stubs}:{os.environ['PATH']}"}
    options = ["-e", "-u", "-o", "pipefail"] if strict else []
    done = subprocess.run(
        ["bash", *options, "-c", re.sub(r"^\$ ", "", text, flags=re.M)],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert not strict or done.returncode == 0, done.stderr
    for path in sorted(records.glob("[0-9][0-9][0-9]")):
        arguments = path.read_text().split("\0")[:-1]
        if arguments[0] in modules_of_commands():
            yield arguments, path.with_suffix(".input").read_bytes()
