"""`manifest.json` of an export: the size and the checksum of each of its files.

```
{"made_by": {package: version}, "vocabulary": {"size": ids, "sha256": hex}, "dtype": of the weights,
 "outputs": what translations are,
 "files": {path in the export: {"size": bytes, "sha256": hex}}}
```
"""

import json
from pathlib import Path
from typing import Any

from t2t_keras.data.atomic_file import sha256_of, write_atomically
from t2t_keras.data.manifest import MANIFEST_FILE, damaged_files
from t2t_keras.errors import UserError


def write_manifest(directory: Path, contents: dict[str, Any]) -> None:
    """Writes the manifest of a directory.

    Args:
      directory: of the version, complete.
      contents: what else it states.

    Raises:
      UserError: it cannot be written.
    """
    files = {
        path.relative_to(directory).as_posix(): {
            "size": path.stat().st_size,
            "sha256": sha256_of(path),
        }
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
    text = json.dumps({**contents, "files": files}, indent=1) + "\n"
    write_atomically(directory / MANIFEST_FILE, text.encode("utf-8"))


def check_integrity(directory: Path) -> dict[str, Any]:
    """Compares each file of an export with its manifest, which is returned.

    Raises:
      UserError: there is no export, or it is damaged; each file is named.
    """
    path = directory / MANIFEST_FILE
    again = "Copy the export again, or make it again with t2t-exporter."
    if not path.is_file():
        what = "is no manifest.json" if directory.is_dir() else "is no such directory"
        raise UserError(
            f"{directory} is not a complete export of t2t-exporter: there {what}. {again}"
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        damaged = damaged_files(directory, manifest["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged ({type(error).__name__}: {error}). {again}") from error
    if damaged:
        raise UserError(f"The export {directory} is damaged: {', '.join(damaged)}. {again}")
    return manifest
