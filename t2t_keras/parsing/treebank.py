"""Files of bracketed trees, as in the Penn Treebank, and the cleaning of its trees.

NLTK takes `(NN two words)` for a tree, and its errors name no file and no line.
"""

import codecs
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.parsing.tree import ROOT, Step, Tree, TreeBuilder, walk
from t2t_keras.text.files import reading

# Longer than any sentence: a tree that is not closed must not take the rest of a file into memory.
MAX_TREE_BYTES = 1_000_000

# A tagged word in one piece, since most of a tree is that; an opening; a closing; anything else.
# ASCII: a word may hold a non-breaking space.
_TOKEN = re.compile(r"\(([^\s()]+)\s+([^\s()]+)\s*\)|\(([^\s()]*)|(\))|([^\s()]+)", re.ASCII)
_WORD, _OPENING, _CLOSING = 2, 3, 4
EMPTY_ELEMENT = "-NONE-"
# What may stand for the root; some parsers write one of the named ones.
_ROOT_LABELS = {"", ROOT, "ROOT", "S1"}


class TreeText(NamedTuple):
    """Some lines of a file with whole trees, nearly always one."""

    line: int  # From 1.
    offset: int  # In bytes.
    text: bytes


def tree_texts(path: Path, offset: int = 0, line: int = 1) -> Iterator[TreeText]:
    """Yields the text of each tree of a file, from a `TreeText`'s offset and line on.

    Raises `UserError` where the file cannot be read, or brackets do not match.
    """
    held, depth, first, begin = b"", 0, line, offset
    with reading(path) as file:
        file.seek(offset)
        read = functools.partial(file.readline, MAX_TREE_BYTES + 1)
        for number, text in enumerate(iter(read, b""), line):
            begin, first = (begin, first) if held else (offset, number)
            offset += len(text)
            held += text.removeprefix(codecs.BOM_UTF8) if begin == 0 and number == first else text
            depth += text.count(b"(") - text.count(b")")
            if depth < 0:
                raise UserError(
                    f"{path}:{number}: a bracket is closed that was never opened.", code="bad_tree"
                )
            if not depth and len(text) <= MAX_TREE_BYTES:
                if held.strip():
                    yield TreeText(first, begin, held)
                held = b""
            elif len(held) > MAX_TREE_BYTES:
                break
    if held:
        raise UserError(
            f"{path}:{first}: expected the end of the tree that begins here within "
            f"{MAX_TREE_BYTES:,} bytes, got {depth} open brackets in line {number}.",
            code="bad_tree",
        )


def trees_of(text: TreeText, path: Path | str) -> list[Tree]:
    """Returns the trees in some lines of a file; a `UserError` names the line at fault.

    The outermost bracket may have no label, and any may be empty.
    """
    try:
        content = text.text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.line + text.text.count(b"\n", 0, error.start)
        raise UserError(
            f"{path}:{line} is not UTF-8. Convert the file to UTF-8.", code="not_utf8"
        ) from error
    try:
        return parsed(content, labelled=True)
    except TreeError as error:
        line = text.line + content.count("\n", 0, error.position)
        raise UserError(f"{path}:{line}: {error}.", code="bad_tree") from error


class TreeError(Exception):
    """A text that is not made of trees, as shows at the character at `position`."""

    def __init__(self, message: str, position: int):
        super().__init__(message)
        self.position = position


def parsed(text: str, labelled: bool = False) -> list[Tree]:
    """Returns the trees in a text; if `labelled`, full brackets inside a tree need a label.

    Raises `TreeError` where brackets do not match, or their content is no tree.
    """
    builder = TreeBuilder()
    for match in _TOKEN.finditer(text):
        kind = match.lastindex
        if kind == _WORD:
            builder.add(Tree(match[1], (), match[2]))
        elif kind == _OPENING:
            builder.open(match[3])
        elif kind == _CLOSING:
            if not builder.open_labels:
                raise TreeError("a bracket is closed that was never opened", match.start())
            tree = builder.close()
            if labelled and tree.children and not tree.label and builder.open_labels:
                raise TreeError("a bracket inside a tree has no label", match.start())
        else:
            where = "without a tag of its own" if builder.open_labels else "outside a tree"
            raise TreeError(f"the word '{match[0]}' stands {where}", match.start())
    if builder.open_labels:
        raise TreeError(f"{len(builder.open_labels)} brackets are not closed", len(text))
    return builder.roots


def cleaned(tree: Tree) -> Tree | None:
    """Returns a treebank's tree as parsers are trained on it, below `TOP`.

    Traces and other empty elements are dropped, with every constituent that has no other words;
    functions and indices are cut from labels (NP-SBJ-1 and NP=2 become NP). A constituent that is
    the only one in another of the same label stays, since the score counts both. None = no words.
    """
    builder = TreeBuilder()
    builder.open(ROOT)
    rooted = not tree.word and tree.label in _ROOT_LABELS
    for step, node in walk(tree):
        if rooted and node is tree:
            continue
        if step is Step.OPEN:
            builder.open(category(node.label))
        elif step is Step.CLOSE:
            builder.close(keep_empty=False)
        elif node.label != EMPTY_ELEMENT:
            builder.add(Tree(category(node.label), (), node.word))
    root = builder.close()
    return root if root.children else None


@functools.lru_cache(maxsize=4096)
def category(label: str) -> str:
    """Returns a label without functions and indices; one like -LRB- is a label as a whole."""
    return label if label[:1] in "-=" else label.partition("-")[0].partition("=")[0]


# The sections of each split, as parsers divide them since Collins (1997).
_SECTIONS = {"train": range(2, 22), "dev": range(22, 23), "test": range(23, 24)}

_SECTION = re.compile(r"(\d\d)")
_NAME = re.compile(r"wsj_(\d\d)\d\d", re.IGNORECASE)


def files_below(directory: Path) -> list[Path]:
    """Returns the files below a directory, sorted; links to folders, as to a shared treebank, too.

    The name of a folder that cannot be read is printed.
    """

    def report(error: OSError) -> None:
        print(f"{error.filename} cannot be read and is left out: {error.strerror}.", flush=True)

    files, visited = [], set()
    for folder, folders, names in os.walk(directory, onerror=report, followlinks=True):
        visited.add(os.path.realpath(folder))
        # A link may lead to a folder above.
        folders[:] = [
            name
            for name in sorted(folders)
            if os.path.realpath(os.path.join(folder, name)) not in visited  # noqa: PTH118
        ]
        files += [Path(folder, name) for name in names]
    return sorted(files)


def split_files(directory: Path, besides: Path | None = None) -> dict[str, list[Path]]:
    """Returns the `.mrg` files of train (sections 02 to 21), dev (22) and, if present, test (23).

    They may be anywhere below the directory but in the folder `besides`. A file's section is its
    folder's name, as in wsj/02/wsj_0201.mrg, or part of its own. Prints which are missing. Having
    none for train or dev, or two of the same name in a section, is a `UserError`.
    """
    seen: dict[tuple[int, str], Path] = {}
    for path in files_below(directory):
        named = _SECTION.fullmatch(path.parent.name) or _NAME.match(path.name)
        outside = besides is None or not path.is_relative_to(besides)
        if named and outside and path.suffix.lower() == ".mrg":
            first = seen.setdefault((int(named[1]), path.name.lower()), path)
            if os.path.realpath(first) != os.path.realpath(path):
                raise UserError(
                    f"{first} and {path} are copies of one file of section {named[1]}. Give a "
                    f"--tmp_dir with one copy of the treebank.",
                    code="given_twice",
                )
    # Within a section, in the order of the paths.
    files = sorted((section, path) for (section, _), path in seen.items())
    splits = {
        split: [path for section, path in files if section in numbers]
        for split, numbers in _SECTIONS.items()
    }
    empty = [split for split in ("train", "dev") if not splits[split]]
    if empty:
        raise UserError(
            f"{directory} has no .mrg files for {' and '.join(empty)}. --tmp_dir must be the "
            f"directory of the Penn Treebank with the Wall Street Journal's sections 02 to 21 "
            f"(train), 22 (dev) and 23 (test), as in wsj/02/wsj_0201.mrg.",
            code="missing_source_files",
        )
    missing = sorted(set(range(2, 24)) - {section for section, _ in files})
    if missing:
        print(f"{directory} has no section {', '.join(f'{n:02d}' for n in missing)}.", flush=True)
    return {split: files for split, files in splits.items() if files}
