"""Files of settings and vocabularies that stand beside a model."""

import glob
import re
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError, brief
from t2t_keras.io.foreign import MOST_BYTES, TreeBound, check_regular, inside, read_bounded

# Longer numbers and dates take YAML long, and no setting has them.
_MOST_CHARACTERS = 1000
# A path with a quote in it is escaped; none of TensorFlow's own has one.
_NEWEST = re.compile(r'^model_checkpoint_path: "([^"\\]+)"', re.MULTILINE)
_TEXT = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:binary")


def read_file(path: Path, advice: str = "", most: int = MOST_BYTES) -> bytes:
    """Returns the content of a file that a model needs.

    Raises:
      UserError: it cannot be read, is larger than any such file, or is no regular file; where it
        cannot be read, the text ends with `advice`.
    """
    try:
        return read_bounded(path, most)
    except (OSError, ValueError) as error:  # ValueError: NUL in its name.
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be read: {reason}. {advice}".rstrip()) from error


def read_text(path: Path, advice: str = "") -> str:
    """Returns a file of UTF-8; raises `UserError` as `read_file`, and where it is another one."""
    try:
        return read_file(path, advice).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({brief(error)}). {advice}".rstrip()) from error


def named_beside(name: object, *folders: Path) -> Path:
    """Returns the file that a record of another machine names, in one of these folders.

    A path that leads elsewhere stands for the file of its name in a folder.

    Raises:
      UserError: there is none.
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
            errors.append(UserError(f"{path} cannot be read: there is no such file."))
    raise UserError(f"{errors[0]} Or name the file with --vocabulary.", code=errors[0].code)


def checkpoint_prefix(path: Path) -> str:
    """Returns the prefix of a checkpoint of TensorFlow, or of the newest in a folder.

    The folder's record may name it by a path of another machine; it is looked for in the folder.

    Raises:
      UserError: its files are none.
    """
    prefix = path
    if path.is_dir():
        record = path / "checkpoint"
        text = read_text(record, "TensorFlow writes it: name a checkpoint in the folder instead.")
        if not (name := _NEWEST.search(text)):
            raise UserError(f"{record}: expected model_checkpoint_path in it.")
        prefix = path / Path(name[1]).name
    check_regular(prefix.parent.glob(f"{glob.escape(prefix.name)}.*"))
    return str(prefix)


def read_yaml(content: str | bytes, origin: str, texts_only: bool = False) -> dict[str, Any]:
    """Returns the mapping in YAML; with `texts_only`, 1 and yes are texts, as vocabularies have.

    Raises:
      UserError: it is no mapping, or no YAML, or too large: what is repeated by an alias counts
        each time.
    """
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise UserError(
            f"{origin} needs PyYAML, which is not installed: pip install 't2t-keras[import]'"
        ) from error
    # Those in C are ten times as fast, and not everywhere.
    fast, slow = ("CBaseLoader", "BaseLoader") if texts_only else ("CSafeLoader", "SafeLoader")
    bound = TreeBound(origin)

    def check(node: Any, depth: int = 0) -> None:
        bound.check(depth)
        if isinstance(node, yaml.ScalarNode):
            if node.tag not in _TEXT and len(node.value) > _MOST_CHARACTERS:
                raise ValueError(f"a number or date of {len(node.value):,} characters")
            return
        for each in node.value:
            for child in each if isinstance(node, yaml.MappingNode) else (each,):
                check(child, depth + 1)

    try:
        loader = getattr(yaml, fast, getattr(yaml, slow))(content)
        # Before anything is made of it: merging mappings is as long as the tree is large.
        node = loader.get_single_node()
        if node is not None:
            check(node)
        found = node and loader.construct_document(node)
    except UserError:
        raise
    except Exception as error:  # Its constructors raise many kinds, as of the date 2020-99-99.
        raise UserError(f"{origin} is not YAML: {brief(error)}.", code="not_yaml") from error
    if not isinstance(found, dict):
        raise UserError(f"{origin}: expected names with values, got {type(found).__name__}.")
    return found
