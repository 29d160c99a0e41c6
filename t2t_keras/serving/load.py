"""Loads exports, and reads and writes their manifests.

```
{"provenance": {package: version},
 "vocabulary": {"size": number of ids, "sha256": hex}, "dtype": dtype of the weights,
 "outputs": form of the translations,
 "files": {path in the export: {"size": bytes, "sha256": hex}}}
```
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the operators of the vocabulary

from t2t_keras.decoding.lines import check_lines
from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.environment import expand_path
from t2t_keras.errors import UserError, command_line, translated_errors
from t2t_keras.io.files import (
    MANIFEST_FILE,
    SAVED_MODEL_FILE,
    plain_path,
    read_json,
    sha256_of,
    write_json,
)
from t2t_keras.serving import messages
from t2t_keras.serving.client import OUTPUTS
from t2t_keras.training.run_config import RunConfig

# https://www.tensorflow.org/tfx/serving/saved_model_warmup
WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"

_ADVICE = "Copy the export again, or make it again with t2t-exporter."


def write_manifest(directory: Path, contents: dict[str, Any]) -> None:
    """Writes the manifest of a complete version; `contents` is everything except "files"."""
    write_json(directory / MANIFEST_FILE, {**contents, "files": _records(directory)}, indent=1)


def _records(directory: Path) -> dict[str, dict[str, Any]]:
    """Returns the size and checksum of each file of an export except its manifest, by name."""
    return {
        path.relative_to(directory).as_posix(): {
            "size": path.stat().st_size,
            "sha256": sha256_of(path),
        }
        if path.is_file()
        else {}  # Reading a pipe would never end.
        for path in sorted(directory.rglob("*"))
        if not path.is_dir() and path != directory / MANIFEST_FILE
    }


def _checked_manifest(directory: Path) -> dict[str, Any]:
    """Returns the manifest; raises `UserError` unless it records exactly the export's files."""
    manifest = read_json(
        directory / MANIFEST_FILE, f"{directory} is not a complete export. {_ADVICE}", ["files"]
    )
    files = _records(directory)
    recorded = manifest["files"] if isinstance(manifest["files"], dict) else {}
    names = {**recorded, **files}
    damaged = [name for name in names if not files.get(name) or files[name] != recorded.get(name)]
    if damaged:
        raise UserError(
            f"The export {directory} is damaged: these files differ from {MANIFEST_FILE}: "
            f"{', '.join(damaged)}. {_ADVICE}",
            code="damaged_export",
        )
    return manifest


class LoadedExport:
    """An export that is ready to translate; made by `load_export`.

    Attributes:
      directory: path of the version.
      manifest: contents of its manifest.json.
      signatures: TensorFlow's functions, by name.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        self.manifest = _checked_manifest(directory)
        with plain_path(directory) as path:
            self._loaded = tf.saved_model.load(path)  # keeps the weights alive
        self.signatures = self._loaded.signatures
        signature = self.signatures.get("serving_default")
        if not signature or set(signature.structured_outputs) != set(OUTPUTS):
            raise UserError(
                f"{directory} is not an export of t2t-exporter: expected a signature "
                f"serving_default with outputs {', '.join(OUTPUTS)}.",
                code="no_export",
            )

    def translate(self, lines: Sequence[str]) -> list[Translation]:
        """Returns the translations of lines, with scores, in one batch.

        Raises:
          UserError: a line is not valid Unicode.
        """
        check_lines(lines)
        outputs = self.signatures["serving_default"](text=tf.constant(list(lines), tf.string))
        columns = (outputs[name].numpy().tolist() for name in OUTPUTS)
        translations = []
        for content, score, cut in zip(*columns, strict=True):
            text = content.decode("utf-8")
            translations.append(Translation(text, score, (Hypothesis(text, score),), cut=cut))
        return translations

    def warm_up(self) -> None:
        """Runs the requests that TensorFlow Serving runs while it loads the export."""
        path = self.directory / WARMUP_FILE
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            request = messages.PredictionLog.FromString(record).predict_log.request
            inputs = {
                entry.key: tf.io.parse_tensor(entry.value.SerializeToString(), entry.value.dtype)
                for entry in request.inputs
            }
            self.signatures[request.model_spec.signature_name](**inputs)


def _versions(folder: Path) -> list[Path]:
    """Returns the versions in a folder of exports."""
    if not folder.is_dir():
        return []
    return [child for child in folder.iterdir() if child.name.isdecimal() and child.is_dir()]


def load_export(path: str | Path, warm_up: bool = False) -> LoadedExport:
    """Loads an export.

    Args:
      path: directory of a version; or directory of all versions, for the newest.
      warm_up: whether to run TensorFlow Serving's warm-up requests; otherwise the first call takes
        seconds longer.

    Raises:
      UserError: there is no export, or a file of it is missing, damaged or unknown.
    """
    directory = Path(expand_path(path))
    if (versions := _versions(directory)) and not (directory / SAVED_MODEL_FILE).exists():
        directory = max(versions, key=lambda version: int(version.name))
    if not directory.is_dir():
        siblings = ", ".join(map(str, _versions(directory.parent)))
        present = f"There are {siblings}" if siblings else f"There is none in {directory.parent}"
        raise UserError(
            f"There is no export {directory}. {present}. Give the --export_dir of t2t-exporter, to "
            f"load its newest version, or a version in it.",
            code="no_export",
        )
    if RunConfig.exists(directory):
        raise UserError(
            f"{directory} is a run, not an export. Export it first:"
            + command_line("t2t-exporter", output_dir=directory, export_dir=f"{directory}/export"),
            code="no_export",
        )
    kinds = OSError, ValueError, tf.errors.OpError
    with translated_errors(kinds, f"Cannot load the export {directory}", code="damaged_export"):
        loaded = LoadedExport(directory)
        if warm_up:
            loaded.warm_up()
        return loaded
