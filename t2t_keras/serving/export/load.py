"""Loading of exports, and the `manifest.json` that shows whether one is complete and undamaged.

```
{"provenance": {package: version},
 "vocabulary": {"size": ids, "sha256": hex}, "dtype": of the weights,
 "outputs": what translations are,
 "files": {path in the export: {"size": bytes, "sha256": hex}}}
```
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the operators of the vocabulary

from t2t_keras.data.dataset import MANIFEST_FILE
from t2t_keras.decoding.source_text import check_lines
from t2t_keras.decoding.translation import Translation
from t2t_keras.errors import UserError
from t2t_keras.io.atomic import damaged_files, sha256_of
from t2t_keras.io.state import read_json, write_json
from t2t_keras.serving.client.endpoint import OUTPUTS
from t2t_keras.serving.export.warmup import read_warmup

_ADVICE = "Copy the export again, or make it again with t2t-exporter."


def write_manifest(directory: Path, contents: dict[str, Any]) -> None:
    """Writes the manifest of a complete version; `contents` is all of it but "files"."""
    files = {
        name: {"size": (directory / name).stat().st_size, "sha256": sha256_of(directory / name)}
        for name in _files(directory)
    }
    write_json(directory / MANIFEST_FILE, {**contents, "files": files}, indent=1)


def _files(directory: Path) -> list[str]:
    """Returns the paths of all files of an export but its manifest."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file() or path.is_symlink())
    names = [path.relative_to(directory).as_posix() for path in paths]
    return [name for name in names if name != MANIFEST_FILE]


def check_integrity(directory: Path) -> dict[str, Any]:
    """Compares the files of an export with its manifest, which is returned.

    Raises:
      UserError: there is no export, or a file is missing, differs or is not in the manifest.
    """
    manifest = read_json(
        directory / MANIFEST_FILE, f"{directory} is not a complete export. {_ADVICE}", ["files"]
    )
    try:
        damaged = damaged_files(directory, manifest["files"])
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{directory / MANIFEST_FILE} is damaged ({type(error).__name__}: {error}). {_ADVICE}"
        ) from error
    unknown = [name for name in _files(directory) if name not in manifest["files"]]
    damaged += [f"{name} (not in {MANIFEST_FILE})" for name in unknown]
    if damaged:
        raise UserError(f"The export {directory} is damaged: {', '.join(damaged)}. {_ADVICE}")
    return manifest


class LoadedExport:
    """An export, ready to translate; `load_export` makes it.

    Attributes:
      directory: path of the version.
      manifest: contents of its manifest.json.
      signatures: TensorFlow's functions, by name.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        self.manifest = check_integrity(directory)
        self._loaded = tf.saved_model.load(str(directory))  # keeps the weights alive
        self.signatures = self._loaded.signatures
        translate = self.signatures.get("serving_default")
        if not translate or set(translate.structured_outputs) != set(OUTPUTS):
            raise UserError(
                f"{directory} is not an export of t2t-exporter: expected a signature "
                f"serving_default with outputs {', '.join(OUTPUTS)}."
            )

    def translate(self, lines: Sequence[str]) -> list[Translation]:
        """Returns the translation and the score of each line, all of them in one batch.

        Raises:
          UserError: a line is not UTF-8.
        """
        check_lines(lines)
        found = self.signatures["serving_default"](text=tf.constant(list(lines), tf.string))
        texts, scores, cuts = (found[name].numpy().tolist() for name in OUTPUTS)
        return [
            Translation(text.decode("utf-8"), score, cut=cut)
            for text, score, cut in zip(texts, scores, cuts, strict=True)
        ]


def load_export(path: str | Path, warm_up: bool = False) -> LoadedExport:
    """Loads an export.

    Args:
      path: directory of a version, or of all versions, of which the newest is loaded.
      warm_up: whether to run TensorFlow Serving's warm-up requests; otherwise the first call takes
        seconds longer than the next.

    Raises:
      UserError: there is no export, or a file of it is missing, damaged or unknown.
    """
    directory = version_directory(Path(path))
    try:
        loaded = LoadedExport(directory)
        for name, inputs in read_warmup(directory) if warm_up else ():
            loaded.signatures[name](**inputs)
        return loaded
    except (OSError, tf.errors.OpError) as error:
        raise UserError(f"Cannot load the export {directory}: {error}") from error


def version_directory(path: Path) -> Path:
    """Returns the directory of a version: `path`, or the newest of the versions in it."""
    versions = [child for child in path.glob("*") if child.name.isdecimal()]
    if not versions or (path / "saved_model.pb").exists():
        return path
    return max(versions, key=lambda version: int(version.name))
