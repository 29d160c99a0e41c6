"""Constituency trees: reads them from treebanks, cleans them, and writes them as symbols.

The symbols are tensor2tensor's, S NP NNP /NP VP VBZ /VP /S, with brackets added. No word of a tree
contains brackets, so words, tags and constituents cannot be confused. The root, TOP, is left out.

A chunk records only the positions of its trees, so that millions of trees are never in memory.

NLTK is not a replacement: it accepts `(NN two words)` as a tree, and its errors do not name file
and line.
"""

import codecs
import dataclasses
import enum
import functools
import itertools
import operator
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.text.files import line_name, reading
from t2t_keras.text.sources import CorpusInfo

# The label above a whole sentence, as in (TOP (S ...)).
ROOT = "TOP"


class Tree(NamedTuple):
    """A constituent, or a word with its tag."""

    label: str  # The constituent's label, e.g. "NP"; or the word's tag, e.g. "NN".
    children: tuple["Tree", ...] = ()  # From left to right; none below a word.
    word: str = ""  # "" for a constituent.


class Step(enum.Enum):
    """A step of a walk through a tree."""

    OPEN = enum.auto()
    WORD = enum.auto()
    CLOSE = enum.auto()


def walk(tree: Tree) -> Iterator[tuple[Step, Tree]]:
    """Yields the nodes in the order of the text: OPEN and CLOSE of constituents, and WORDs."""
    open_step, word_step, close_step = Step
    stack: list[Tree | None] = [tree]
    open_trees: list[Tree] = []
    while stack:
        node = stack.pop()
        if node is None:
            yield close_step, open_trees.pop()
        elif node.word:
            yield word_step, node
        else:
            yield open_step, node
            open_trees.append(node)
            stack.append(None)
            stack.extend(node.children[::-1])


def leaves(tree: Tree) -> list[Tree]:
    """Returns the words with their tags, from left to right."""
    return [node for step, node in walk(tree) if step is Step.WORD]


def words(tree: Tree) -> list[str]:
    """Returns the words, from left to right."""
    return [leaf.word for leaf in leaves(tree)]


def bracketed(tree: Tree) -> str:
    """Returns the tree on one line, as in treebanks: (TOP (NP (NN Results)))."""
    spelling = {Step.OPEN: " ({0}", Step.WORD: " ({0} {1})", Step.CLOSE: ")"}
    parts = (spelling[step].format(node.label, node.word) for step, node in walk(tree))
    return "".join(parts)[1:]


def retagged(tree: Tree, tags: Iterable[str]) -> Tree:
    """Returns a tree with the tags of its words replaced by `tags`."""
    builder, remaining = TreeBuilder(), iter(tags)
    for step, node in walk(tree):
        if step is Step.OPEN:
            builder.open(node.label)
        elif step is Step.CLOSE:
            builder.close()
        else:
            builder.add(Tree(next(remaining), (), node.word))
    return builder.roots[0]


class TreeBuilder:
    """Builds trees from left to right."""

    def __init__(self) -> None:
        self.roots: list[Tree] = []  # The complete trees.
        self.open_labels: list[str] = []  # Labels of the open constituents, the innermost last.
        # A stack: the complete trees, then the children of each open constituent.
        self._children: list[list[Tree]] = [self.roots]

    def open(self, label: str) -> None:
        """Begins a constituent."""
        self.open_labels.append(label)
        self._children.append([])

    def add(self, tree: Tree) -> None:
        """Adds a word or a whole tree to the innermost open constituent."""
        self._children[-1].append(tree)

    def close(self, keep_empty: bool = True) -> Tree:
        """Ends the innermost open constituent, adds it to its parent, and returns it."""
        tree = Tree(self.open_labels.pop(), tuple(self._children.pop()))
        if tree.children or keep_empty:
            self.add(tree)
        return tree


# The tag of words that the model did not tag, from the Penn Treebank's guidelines.
UNKNOWN_TAG = "XX"

_SYMBOL = re.compile(r"\((?P<label>[^\s()]+)(?P<tag>\))?|/(?P<closed>[^\s()]+)\)", re.ASCII)
# A constituent's label is followed by another bracket, a word's tag is not.
_LABEL = re.compile(rb"\(([^\s()]*)\s*(?=(\()?)")
_SPELLING = {Step.OPEN: "({}", Step.WORD: "({})", Step.CLOSE: "/{})"}
_ESCAPES = str.maketrans({"(": "-LRB-", ")": "-RRB-"})


def symbols(tree: Tree) -> list[str]:
    """Returns a tree as symbols, without a root TOP."""
    spelled = [_SPELLING[step].format(node.label) for step, node in walk(tree)]
    return spelled[1:-1] if tree.label == ROOT and not tree.word else spelled


def is_tag(symbol: str, known_symbols: Collection[str] = ()) -> bool:
    """Returns whether a symbol is a word's tag; for `known_symbols` see `rebuilt`."""
    return (not known_symbols or symbol in known_symbols) and _parse_symbol(symbol)[0] is Step.WORD


def symbols_in(text: bytes) -> frozenset[str]:
    """Returns the symbols of the cleaned trees in a text in brackets, without parsing it."""
    labels = {
        (category(label.decode("utf-8", "replace")), step)
        for label, bracket in set(_LABEL.findall(text))
        for step in ((Step.OPEN, Step.CLOSE) if bracket else (Step.WORD,))
    }
    labels -= {(ROOT, Step.OPEN), (ROOT, Step.CLOSE)}
    return frozenset(
        _SPELLING[step].format(label) for label, step in labels if label not in ("", EMPTY_ELEMENT)
    )


def symbols_among(pieces: Iterable[str]) -> frozenset[str]:
    """Returns the symbols among the pieces of a vocabulary, without their space character."""
    return frozenset(piece[1:] for piece in pieces if _SYMBOL.fullmatch(piece[1:]))


def words_of(line: str) -> list[str]:
    """Returns the words of a line, split at ASCII white space, with brackets as -LRB- and -RRB-."""
    return symbols_of(line.translate(_ESCAPES))


def symbols_of(output: str) -> list[str]:
    """Returns the symbols of a model's output, split like `words_of`, so that alignments fit."""
    return re.findall(r"\S+", output, re.ASCII)


def rebuilt(
    output: Sequence[str],
    words: Sequence[str],
    known_symbols: Collection[str] = (),
    alignment: Sequence[tuple[int, int]] | None = None,
) -> tuple[Tree, Counter]:
    """Returns the tree that symbols describe over some words; repairs invalid symbols.

    Closing an outer constituent closes the inner ones; closing a label that is not open closes the
    innermost constituent. A word without a tag gets XX and follows the word before it; at the start
    it precedes the first word with a tag. Tags without a word and constituents without words are
    dropped.

    `known_symbols` are the symbols of the vocabulary; () = everything that is spelled as a symbol.
    They rule out labels such as "NPdog", which a model invents by writing a piece of a word after a
    bracket. `alignment` gives the word of each tag as pairs (word, symbol), both rising; a tag
    without a pair has no word. None = the tags belong to the words in order.

    Returns:
      The tree with root TOP and exactly these words; and the number of repairs of each kind.
    """
    builder, repairs = TreeBuilder(), Counter[str]()
    builder.open(ROOT)
    kinds = [
        _parse_symbol(symbol) if not known_symbols or symbol in known_symbols else (None, "")
        for symbol in output
    ]
    if alignment is None:
        tags = (number for number, (kind, _) in enumerate(kinds) if kind is Step.WORD)
        alignment = list(enumerate(tags))
    spans = _word_spans(alignment, len(words))
    if not output and words:
        repairs["empty output"] += 1
    for number, (kind, label) in enumerate(kinds):
        if kind is Step.OPEN:
            builder.open(label)
        elif kind is Step.CLOSE:
            _close(builder, label, repairs)
        elif kind is None:
            repairs["unknown symbol"] += 1
        elif number in spans:
            first, tagged, end = spans[number]
            for index in range(first, end):
                builder.add(Tree(label if index == tagged else UNKNOWN_TAG, (), words[index]))
        else:
            repairs["tag without a word"] += 1
    if not spans:
        for word in words:
            builder.add(Tree(UNKNOWN_TAG, (), word))
    if len(spans) < len(words):
        repairs["word without a tag"] += len(words) - len(spans)
    while len(builder.open_labels) > 1:
        _end_innermost(builder, repairs)
        repairs["constituent not closed"] += 1
    return builder.close(), repairs


def _word_spans(alignment: Iterable[tuple[int, int]], num_words: int) -> dict[int, tuple]:
    """Returns tag -> (start of its span of words, the word that it tags, end of the span)."""
    pairs = [pair for pair in alignment if pair[0] < num_words]
    ends = [*(word for word, _ in pairs[1:]), num_words]
    return {
        symbol: (first, word, end)
        for (word, symbol), first, end in zip(pairs, [0, *ends], ends, strict=False)
    }


@functools.lru_cache(maxsize=4096)
def _parse_symbol(symbol: str) -> tuple[Step | None, str]:
    """Returns the step and the label of a symbol; the step is None if it is not a symbol."""
    match = _SYMBOL.fullmatch(symbol)
    if match is None:
        return None, ""
    if match["closed"]:
        return Step.CLOSE, match["closed"]
    return Step.WORD if match["tag"] else Step.OPEN, match["label"]


def _close(builder: TreeBuilder, label: str, repairs: Counter) -> None:
    """Ends the constituent of a closing symbol; the root has no symbol."""
    labels = builder.open_labels[1:]
    if not labels:
        repairs["closed but never opened"] += 1
    elif label not in labels:
        repairs["closed by another label"] += 1
        _end_innermost(builder, repairs)
    else:
        num_inner = labels[::-1].index(label)
        for _ in range(num_inner + 1):
            _end_innermost(builder, repairs)
        repairs += Counter({"constituent not closed": num_inner})


def _end_innermost(builder: TreeBuilder, repairs: Counter) -> None:
    """Ends the innermost constituent, or drops it if it has no words."""
    if not builder.close(keep_empty=False).children:
        repairs["constituent without words"] += 1


# Longer than any sentence. An unclosed tree must not fill the memory with its file.
MAX_TREE_BYTES = 1_000_000

# A tagged word in one match, for speed; an opening bracket; a closing bracket; another word.
# ASCII: a word may hold a non-breaking space.
_TOKEN = re.compile(r"\(([^\s()]+)\s+([^\s()]+)\s*\)|\(([^\s()]*)|(\))|([^\s()]+)", re.ASCII)
_WORD_GROUP, _OPENING_GROUP, _CLOSING_GROUP = 2, 3, 4
EMPTY_ELEMENT = "-NONE-"
# Labels of the root in treebanks and in the output of some parsers.
_ROOT_LABELS = {"", ROOT, "ROOT", "S1"}


class TreeText(NamedTuple):
    """Some lines of a file that hold complete trees, nearly always one."""

    line: int  # Number of the first line, from 1.
    offset: int  # Position of that line, in bytes.
    text: bytes


def tree_texts(path: Path, offset: int = 0, line: int = 1) -> Iterator[TreeText]:
    """Yields the text of each tree of a file, starting at the offset and line of a `TreeText`.

    Raises `UserError` if the file cannot be read, or brackets do not match.
    """
    pending, depth, first_line, start = b"", 0, line, offset
    with reading(path) as file:
        file.seek(offset)
        read = functools.partial(file.readline, MAX_TREE_BYTES + 1)
        for number, text in enumerate(iter(read, b""), line):
            if not pending:
                start, first_line = offset, number
            offset += len(text)
            pending += (
                text.removeprefix(codecs.BOM_UTF8) if start == 0 and number == first_line else text
            )
            depth += text.count(b"(") - text.count(b")")
            if depth < 0:
                raise UserError(
                    f"{path}:{number}: expected an opening bracket before this closing one.",
                    code="bad_tree",
                )
            if not depth and len(text) <= MAX_TREE_BYTES:
                if pending.strip():
                    yield TreeText(first_line, start, pending)
                pending = b""
            elif len(pending) > MAX_TREE_BYTES:
                break
    if pending:
        raise UserError(
            f"{path}:{first_line}: the tree that begins here must end within "
            f"{MAX_TREE_BYTES:,} bytes, got {depth} open brackets in line {number}.",
            code="bad_tree",
        )


def trees_of(text: TreeText, path: Path | str) -> list[Tree]:
    """Returns the trees in some lines of a file; raises `UserError` with the line at fault.

    The outermost bracket may lack a label, and brackets may be empty.
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
    """A text that does not consist of trees; `position` is the index of the character at fault."""

    def __init__(self, message: str, position: int):
        super().__init__(message)
        self.position = position


def parsed(text: str, labelled: bool = False) -> list[Tree]:
    """Returns the trees in a text; `labelled` requires a label on every constituent but the root.

    Raises `TreeError` if brackets do not match, or their content is not a tree.
    """
    builder = TreeBuilder()
    for match in _TOKEN.finditer(text):
        kind = match.lastindex
        if kind == _WORD_GROUP:
            builder.add(Tree(match[1], (), match[2]))
        elif kind == _OPENING_GROUP:
            builder.open(match[3])
        elif kind == _CLOSING_GROUP:
            if not builder.open_labels:
                raise TreeError("a closing bracket has no opening bracket", match.start())
            tree = builder.close()
            if labelled and tree.children and not tree.label and builder.open_labels:
                raise TreeError("a bracket inside a tree has no label", match.start())
        else:
            complaint = "has no tag of its own" if builder.open_labels else "is outside a tree"
            raise TreeError(f"the word '{match[0]}' {complaint}", match.start())
    if builder.open_labels:
        raise TreeError(f"{len(builder.open_labels)} brackets are not closed", len(text))
    return builder.roots


def cleaned(tree: Tree) -> Tree | None:
    """Returns a treebank's tree for training, below `TOP`; None if it has no words.

    Drops traces and other empty elements, and constituents without words. Removes functions and
    indices from labels (NP-SBJ-1 and NP=2 become NP). Keeps a constituent that is the only child of
    another one with the same label, since the score counts both.
    """
    builder = TreeBuilder()
    builder.open(ROOT)
    has_root = not tree.word and tree.label in _ROOT_LABELS
    for step, node in walk(tree):
        if has_root and node is tree:
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
    """Returns a label without functions and indices; labels such as -LRB- stay."""
    return label if label[:1] in "-=" else label.partition("-")[0].partition("=")[0]


# The sections of each split, which parsers have used since Collins (1997).
_SECTIONS = {"train": range(2, 22), "dev": range(22, 23), "test": range(23, 24)}

_SECTION = re.compile(r"(\d\d)")
_WSJ_NAME = re.compile(r"wsj_(\d\d)\d\d", re.IGNORECASE)


def files_below(directory: Path) -> list[Path]:
    """Returns the files below a directory, sorted; follows links, such as one to a shared treebank.

    Prints the names of folders that cannot be read.
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


def split_files(directory: Path, excluded_folder: Path | None = None) -> dict[str, list[Path]]:
    """Returns the `.mrg` files of train (sections 02 to 21), dev (22) and, if present, test (23).

    Searches everything below the directory except `excluded_folder`. A file's section is the name
    of its folder, as in wsj/02/wsj_0201.mrg, or part of its own name. Prints missing sections.
    Raises `UserError` if train or dev has no file, or a section has two files of the same name.
    """
    seen: dict[tuple[int, str], Path] = {}
    for path in files_below(directory):
        section = _SECTION.fullmatch(path.parent.name) or _WSJ_NAME.match(path.name)
        is_included = excluded_folder is None or not path.is_relative_to(excluded_folder)
        if section and is_included and path.suffix.lower() == ".mrg":
            first = seen.setdefault((int(section[1]), path.name.lower()), path)
            if os.path.realpath(first) != os.path.realpath(path):
                raise UserError(
                    f"{first} and {path} are copies of one file of section {section[1]}. Give a "
                    f"--tmp_dir with one copy of the treebank.",
                    code="given_twice",
                )
    # Within a section, in the order of the paths.
    files = sorted((section, path) for (section, _), path in seen.items())
    splits = {
        split: [path for section, path in files if section in numbers]
        for split, numbers in _SECTIONS.items()
    }
    empty_splits = [split for split in ("train", "dev") if not splits[split]]
    if empty_splits:
        raise UserError(
            f"{directory} has no .mrg files for {' and '.join(empty_splits)}. --tmp_dir must be "
            f"the directory of the Penn Treebank with the Wall Street Journal's sections 02 to 21 "
            f"(train), 22 (dev) and 23 (test), as in wsj/02/wsj_0201.mrg.",
            code="missing_source_files",
        )
    missing = sorted(set(range(2, 24)) - {section for section, _ in files})
    if missing:
        print(f"{directory} has no section {', '.join(f'{n:02d}' for n in missing)}.", flush=True)
    return {split: files for split, files in splits.items() if files}


class Span(NamedTuple):
    """Consecutive trees of a file: their first byte, their first line (from 1), their number."""

    path: Path
    offset: int
    line: int
    trees: int


@dataclasses.dataclass(frozen=True)
class TreeChunk(CorpusInfo):
    """Some trees of one or several files."""

    spans: tuple[Span, ...]
    tree_symbols: frozenset[str]

    @property
    def symbols(self) -> frozenset[str]:
        """The brackets and tags that the trees are written in."""
        return self.tree_symbols

    @property
    def count(self) -> int:
        """Number of trees; two on one line count as one."""
        return sum(span.trees for span in self.spans)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files."""
        return tuple(span.path for span in self.spans)

    def pairs(self, skip: int = 0, every: int = 1) -> Iterator[tuple[bytes, bytes]]:
        """See `Chunk`: yields sentences and trees as symbols; both are "" if there are no words."""
        for path, text in itertools.islice(self._texts(), skip, None, every):
            for tree in trees_of(text, path):
                clean = cleaned(tree)
                sentence, parse = (words(clean), symbols(clean)) if clean else ([], [])
                yield " ".join(sentence).encode("utf-8"), " ".join(parse).encode("utf-8")

    def location(self, index: int, side: int) -> str:
        """Returns "folder/file:line" of the pair with this index in the chunk."""
        return self._locations[index]

    def _texts(self) -> Iterator[tuple[Path, TreeText]]:
        for path, offset, line, count in self.spans:
            for text in itertools.islice(tree_texts(path, offset, line), count):
                yield path, text

    @functools.cached_property
    def _locations(self) -> list[str]:
        return [
            line_name(path, text.line) for path, text in self._texts() for _ in trees_of(text, path)
        ]


def tree_chunks(paths: Iterable[Path], chunk_trees: int) -> list[TreeChunk]:
    """Divides the trees of files into chunks of at most `chunk_trees`; raises as `tree_texts`."""
    chunks = []
    texts = ((path, text) for path in paths for text in tree_texts(path))
    while chunk := list(itertools.islice(texts, chunk_trees)):
        spans = []
        for path, group in itertools.groupby(chunk, key=operator.itemgetter(0)):
            (_, first), *more_spans = group
            spans.append(Span(path, first.offset, first.line, 1 + len(more_spans)))
        tree_symbols = symbols_in(b"".join(text.text for _, text in chunk))
        chunks.append(TreeChunk(tuple(spans), tree_symbols))
    return chunks
