"""Files of settings and vocabularies that stand beside a model."""

import glob
import re
from pathlib import Path
from typing import Any

import yaml

from t2t_keras.errors import UserError, brief
from t2t_keras.io.files import MOST_BYTES, TreeBound, check_regular, inside, read_bounded

# YAML parses longer numbers and dates slowly; no setting has them.
_MOST_CHARACTERS = 1000
# Many longer numbers have the same hash, with which a dictionary takes quadratic time.
_MOST_CHARACTERS_OF_KEYS = 18
# TensorFlow escapes quotes in paths; the names of its checkpoints have none.
_NEWEST = re.compile(r'^model_checkpoint_path: "([^"\\]+)"', re.MULTILINE)
_TEXT = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:binary")


def read_file(path: Path, advice: str = "", most: int = MOST_BYTES) -> bytes:
    """Returns the content of a file that a model needs.

    Raises:
      UserError: it cannot be read (the message then ends with `advice`), is larger than `most`
        bytes, or is not a regular file.
    """
    try:
        return read_bounded(path, most)
    except (OSError, ValueError) as error:  # ValueError: NUL in its name.
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"{path} cannot be read: {reason}. {advice}".rstrip(), code="not_read"
        ) from error


def read_text(path: Path, advice: str = "") -> str:
    """Returns the text of a file; raises `UserError` like `read_file`, or if it is not UTF-8."""
    try:
        return read_file(path, advice).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 ({brief(error)}). {advice}".rstrip(), code="not_utf8"
        ) from error


def named_beside(name: object, *folders: Path) -> Path:
    """Returns a file in one of these folders, named by a record that another machine wrote.

    If a path leads out of the folders, only its last part counts.

    Raises:
      UserError: no folder has the file.
    """
    errors = []
    for folder in folders:
        for place in (name, Path(name).name) if isinstance(name, str) else (name,):
            try:
                path = inside(folder, place)
            except UserError as error:
                errors.append(error)
                continue
            if path.exists():
                return path
            errors.append(
                UserError(f"{path} cannot be read: there is no such file.", code="not_read")
            )
    raise UserError(f"{errors[0]} Or name the file with --vocabulary.", code=errors[0].code)


def checkpoint_prefix(path: Path) -> str:
    """Returns the prefix of a TensorFlow checkpoint: `path`, or the newest in that folder.

    The folder's record may name it by a path on another machine; only its last part counts.

    Raises:
      UserError: the folder has no record, or a file of the checkpoint is not a regular one.
    """
    prefix = path
    if path.is_dir():
        record = path / "checkpoint"
        text = read_text(record, "TensorFlow writes it: name a checkpoint in the folder instead.")
        if not (name := _NEWEST.search(text)):
            raise UserError(
                f"{record}: expected model_checkpoint_path in it.", code="not_a_checkpoint"
            )
        prefix = path / Path(name[1]).name
    check_regular(prefix.parent.glob(f"{glob.escape(prefix.name)}.*"))
    return str(prefix)


def read_yaml(content: str | bytes, origin: str, texts_only: bool = False) -> dict[str, Any]:
    """Parses a YAML mapping; with `texts_only`, 1 and yes are strings, as vocabularies need.

    Raises:
      UserError: it is not YAML, not a mapping, or too large; each use of an alias counts.
    """
    # Those in C are ten times as fast, and not everywhere.
    fast, slow = ("CBaseLoader", "BaseLoader") if texts_only else ("CSafeLoader", "SafeLoader")
    bound = TreeBound(origin)

    def check(node: Any, depth: int = 0, most: int = _MOST_CHARACTERS) -> None:
        bound.check(depth)
        if isinstance(node, yaml.ScalarNode):
            if node.tag not in _TEXT and len(node.value) > most:
                raise ValueError(f"a number or date of {len(node.value):,} characters")
        elif isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                check(name, depth + 1, _MOST_CHARACTERS_OF_KEYS)
                check(value, depth + 1)
        else:
            for value in node.value:
                check(value, depth + 1)

    try:
        loader = getattr(yaml, fast, getattr(yaml, slow))(content)
        # Check before constructing: merged mappings are copied as often as they are used.
        node = loader.get_single_node()
        if node is not None:
            check(node)
        content = node and loader.construct_document(node)
    except UserError:
        raise
    except Exception as error:  # Constructors raise many kinds, as for the date 2020-99-99.
        raise UserError(f"{origin} is not YAML: {brief(error)}.", code="not_yaml") from error
    if not isinstance(content, dict):
        raise UserError(
            f"{origin}: expected names with values, got {type(content).__name__}.",
            code="bad_configuration",
        )
    return content
