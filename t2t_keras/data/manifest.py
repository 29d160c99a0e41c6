"""`manifest.json`: what a directory of generated data holds; the set is complete iff it is there.

```
{"problem": name, "config": {setting: value}, "versions": {package: version},
 "vocabulary": {"file": "vocab.model", "size": ids, "sha256": hex},
 "splits": {"train": {"examples": n, "source_tokens": n, "target_tokens": n,
                      "shards": ["train-00000", ...],
                      "left_out": {reason: {"count": n, "first": ["train.en:17", ...]}}}, ...},
 "files": {file name: {"size": bytes, "sha256": hex}}}
```
Tokens count EOS. A file's size is checked whenever it is opened, its checksum by `verify`.
"""

import json
from pathlib import Path
from typing import Any

from t2t_keras.data.atomic_file import sha256_of, write_atomically
from t2t_keras.errors import UserError

MANIFEST_FILE = "manifest.json"
VOCABULARY_FILE = "vocab.model"


def write_manifest(directory: Path, manifest: dict[str, Any]) -> None:
    """Writes the manifest, which makes the set complete."""
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    write_atomically(directory / MANIFEST_FILE, text.encode("utf-8"))


def read_manifest(directory: Path) -> dict[str, Any]:
    """Returns the manifest of a complete set.

    Raises:
      UserError: no data, data of an interrupted t2t-datagen, or a damaged manifest; each with the
        command to run.
    """
    path = directory / MANIFEST_FILE
    command = (
        f"t2t-datagen --problem={directory.name} --data_dir={directory.parent} "
        f"--tmp_dir=<directory with the text>"
    )
    if not path.exists():
        if directory.is_dir() and any(directory.iterdir()):
            raise UserError(
                f"The data in {directory} is incomplete: t2t-datagen was interrupted there, or "
                f"runs still. When it does not run, start it again: {command}"
            )
        raise UserError(f"There is no generated data in {directory}. Make it first: {command}")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read ({error}). Generate the data again: {command}"
        ) from error


def check_size(directory: Path, manifest: dict[str, Any], name: str) -> Path:
    """Returns the path of a file of the set, if it has the size that the manifest states.

    Raises:
      UserError: it is missing or has another size.
    """
    path = directory / name
    expected = manifest["files"][name]["size"]
    size = path.stat().st_size if path.exists() else None
    if size != expected:
        came = "is missing" if size is None else f"has {size:,} bytes"
        raise UserError(
            f"{path} {came}; {MANIFEST_FILE} says {expected:,} bytes. Run t2t-datagen again."
        )
    return path


def verify(directory: Path, manifest: dict[str, Any]) -> None:
    """Compares every file of a set with its size and SHA-256 in the manifest.

    Raises:
      UserError: naming every file that is missing or differs.
    """
    damaged = damaged_files(directory, manifest["files"])
    if damaged:
        raise UserError(
            f"The data in {directory} is damaged: {', '.join(damaged)}. Run t2t-datagen again."
        )


def damaged_files(directory: Path, files: dict[str, dict[str, Any]]) -> list[str]:
    """Returns which files are missing or have another size or SHA-256 than in `files`, and how."""
    damaged = []
    for name, record in files.items():
        path = directory / name
        if not path.exists():
            damaged.append(f"{name} (missing)")
        elif path.stat().st_size != record["size"] or sha256_of(path) != record["sha256"]:
            damaged.append(f"{name} (differs)")
    return damaged


def describe(manifest: dict[str, Any]) -> str:
    """Returns what a set holds and what was left out of it, for people."""
    vocabulary = manifest["vocabulary"]
    lines = [f"{manifest['problem']}: vocabulary of {vocabulary['size']:,} ids"]
    for name, split in manifest["splits"].items():
        lines.append(
            f"  {name}: {split['examples']:,} pairs in {len(split['shards'])} shards, "
            f"{split['source_tokens']:,} source and {split['target_tokens']:,} target tokens"
        )
        for reason, rejected in split["left_out"].items():
            more = ", ..." if rejected["count"] > len(rejected["first"]) else ""
            lines.append(
                f"    left out: {rejected['count']:,} {reason} "
                f"({', '.join(rejected['first'])}{more})"
            )
        if not split["left_out"]:
            lines.append("    left out: none")
    return "\n".join(lines)
