"""`manifest.json`: the content of a directory of generated data, complete iff the file is there.

```
{"problem": name, "config": {setting: value}, "versions": {package: version},
 "vocabulary": {"file": "vocab.model", "size": ids, "sha256": hex},
 "splits": {"train": {"examples": n, "source_tokens": n, "target_tokens": n,
                      "shards": ["train-00000", ...],
                      "left_out": {reason: {"count": n, "first": ["train.en:17", ...]}}}, ...},
 "files": {file name: {"size": bytes, "sha256": hex}}}
```
Tokens count EOS. A file's size is checked whenever it is opened, its checksum when the set is made.
"""

from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.io.state import read_json

MANIFEST_FILE = "manifest.json"
VOCABULARY_FILE = "vocab.model"


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
    if path.exists():
        return read_json(path, f"Generate the data again: {command}", ("splits", "files"))
    if directory.is_dir() and any(directory.iterdir()):
        raise UserError(
            f"The data in {directory} is incomplete: t2t-datagen was interrupted or is still "
            f"running. If it is not, start it again: {command}"
        )
    raise UserError(f"There is no generated data in {directory}. Make it first: {command}")


def describe(manifest: dict[str, Any]) -> str:
    """Returns what a set contains and what was left out of it, for people."""
    lines = [f"{manifest['problem']}: vocabulary of {manifest['vocabulary']['size']:,} ids"]
    for name, split in manifest["splits"].items():
        lines.append(
            f"  {name}: {split['examples']:,} pairs in {len(split['shards'])} shards, "
            f"{split['source_tokens']:,} source and {split['target_tokens']:,} target tokens"
        )
        for reason, entry in split["left_out"].items():
            more = ", ..." if entry["count"] > len(entry["first"]) else ""
            first = ", ".join(entry["first"])
            lines.append(f"    left out: {entry['count']:,} {reason} ({first}{more})")
        if not split["left_out"]:
            lines.append("    left out: none")
    return "\n".join(lines)
