"""Extracts the prose of the source for `make lint`: docstrings, comments, errors and help.

    python benchmarks/prose.py FOLDER

FOLDER gets a Markdown file for each Python file. Its text is on the lines where the source has it,
so that a linter's line numbers are those of the source.
"""

import ast
import io
import re
import shutil
import sys
import tokenize
from pathlib import Path

_ROOTS = ("t2t_keras", "problems", "hparams", "recipes")
# Comments for linters and type checkers.
_DIRECTIVE = re.compile(r"#\s*(noqa|type:)")
_THREE_WORDS = re.compile(r"[a-z']+[,;:]? +[a-z']+[,;:]? +[a-z']+", re.IGNORECASE)


def _text(node: ast.AST) -> str:
    """Returns a string, or an f-string with `x` for its values; "" for another node."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "`x`" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def prose(source: str) -> str:
    """Returns the prose of a Python file, on the same lines."""
    lines = [""] * (source.count("\n") + 1)
    parts_of_f_strings = set[int]()
    for node in ast.walk(ast.parse(source)):  # An f-string comes before its parts.
        if isinstance(node, ast.JoinedStr):
            parts_of_f_strings.update(map(id, node.values))
        text = _text(node)
        if id(node) in parts_of_f_strings or not _THREE_WORDS.search(text):
            continue
        # A docstring has its own lines; other strings are one paragraph.
        is_docstring = text.count("\n") == node.end_lineno - node.lineno
        paragraph = text.split("\n") if is_docstring else [" ".join(text.split())]
        for number, line in enumerate(paragraph, node.lineno - 1):
            lines[number] += f" {line.strip()}"
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            lines[token.start[0] - 1] += f" {token.string.lstrip('# ')}"
    return "\n".join(map(str.strip, lines))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    for path in sorted(file for root in _ROOTS for file in Path(root).rglob("*.py")):
        target = folder / path.with_suffix(".md")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(prose(path.read_text(encoding="utf-8")), encoding="utf-8")
