"""Files of settings and vocabularies that stand beside a model."""

from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError


def read_file(path: Path) -> bytes:
    """Returns the content of a file that a model needs."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error


def read_yaml(content: str | bytes, origin: str, texts_only: bool = False) -> dict[str, Any]:
    """Returns the mapping in YAML; with `texts_only`, 1 and yes are texts, as vocabularies have."""
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise UserError(
            f"{origin} needs PyYAML, which is not installed: pip install 't2t-keras[import]'"
        ) from error
    # Those in C are ten times as fast, and not everywhere.
    fast, slow = ("CBaseLoader", "BaseLoader") if texts_only else ("CSafeLoader", "SafeLoader")
    try:
        found = yaml.load(content, Loader=getattr(yaml, fast, getattr(yaml, slow)))
    except yaml.YAMLError as error:
        raise UserError(f"{origin} is not YAML: {error}.") from error
    if not isinstance(found, dict):
        raise UserError(f"{origin}: expected names with values, got {type(found).__name__}.")
    return found
