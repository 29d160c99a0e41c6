"""Where the sections of the Wall Street Journal stand in a directory of the Penn Treebank."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from t2t_keras.errors import UserError

# The sections of each split, as parsers divide them since Collins (1997).
SECTIONS = {"train": range(2, 22), "dev": range(22, 23), "test": range(23, 24)}

_SECTION = re.compile(r"\d\d")
_NAME = re.compile(r"wsj_(\d\d)\d\d", re.IGNORECASE)


def section_files(directory: Path, besides: Path | None = None) -> dict[int, list[Path]]:
    """Returns the `.mrg` files of each section, sorted, wherever below a directory they stand.

    A file's section is its folder's name, as in wsj/02/wsj_0201.mrg, or else in its own.

    Args:
      directory: where to look, e.g. that of the whole treebank.
      besides: a folder in it to leave out.

    Raises:
      UserError: two files of a section have the same name, as where there are two copies.
    """
    sections: dict[int, list[Path]] = defaultdict(list)
    seen: dict[tuple[int, str], Path] = {}
    for path in files_below(directory):
        if path.suffix.lower() != ".mrg" or (besides and path.is_relative_to(besides)):
            continue
        section = _section(path)
        if section is None:
            continue
        first = seen.setdefault((section, path.name.lower()), path)
        if not first.samefile(path):
            raise UserError(
                f"{first} and {path} are the same file of section {section:02d}. Give a --tmp_dir "
                f"with one copy of the treebank."
            )
        if first == path:
            sections[section].append(path)
    return dict(sections)


def files_below(directory: Path) -> list[Path]:
    """Returns the files in a directory and the folders in it, sorted, and in those that links name.

    Where many share a treebank, their directories have links to it. A folder that cannot be read is
    left out, and named.
    """
    return list(_files(directory, frozenset()))


def split_files(directory: Path, besides: Path | None = None) -> dict[str, list[Path]]:
    """Returns the files of train (sections 02 to 21), dev (22) and, where it is there, test (23).

    Prints which sections are missing.

    Args:
      directory: where to look, e.g. that of the whole treebank.
      besides: a folder in it to leave out.

    Raises:
      UserError: there is no section to train on, or section 22 is missing.
    """
    sections = section_files(directory, besides)
    splits = {
        split: [path for section in numbers for path in sections.get(section, [])]
        for split, numbers in SECTIONS.items()
    }
    empty = [split for split in ("train", "dev") if not splits[split]]
    if empty:
        raise UserError(
            f"{directory} has no .mrg files for {' and '.join(empty)}. Give --tmp_dir the "
            f"directory of the Penn Treebank with the Wall Street Journal's sections 02 to 21 "
            f"(train), 22 (dev) and 23 (test), as in wsj/02/wsj_0201.mrg."
        )
    missing = [
        f"{section:02d}"
        for numbers in SECTIONS.values()
        for section in numbers
        if section not in sections
    ]
    if missing:
        print(f"{directory} has no section {', '.join(missing)}.", flush=True)
    return {split: files for split, files in splits.items() if files}


def _files(folder: Path, above: frozenset[Path]) -> Iterator[Path]:
    real = folder.resolve()
    if real in above:  # A link to a folder that it stands in.
        return
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        print(f"{folder} cannot be read and is left out: {error.strerror}.", flush=True)
        return
    for path in paths:
        if path.is_dir():
            yield from _files(path, above | {real})
        else:
            yield path


def _section(path: Path) -> int | None:
    if _SECTION.fullmatch(path.parent.name):
        return int(path.parent.name)
    named = _NAME.match(path.name)
    return int(named[1]) if named else None
