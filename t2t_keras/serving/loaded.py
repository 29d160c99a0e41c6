"""Exports, loaded in Python after a check that nothing of them is damaged.

Loading runs no code but TensorFlow's own: an export holds a graph of TensorFlow's and TensorFlow
Text's operators, weights and text files; no Python, no pickle, no Keras configuration. A graph can
still do what its operators can, such as reading files, so load only what you trust.
"""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
import tensorflow_text  # noqa: F401 - gives TensorFlow the operators of the vocabulary

from t2t_keras.errors import UserError
from t2t_keras.serving.clients import Answer, check_texts
from t2t_keras.serving.integrity import check_integrity
from t2t_keras.serving.warmup import read_warmup


class LoadedExport:
    """An export, ready to translate.

    Attributes:
      directory: of the version.
      manifest: see `t2t_keras.serving.integrity`.
      signatures: TensorFlow's functions, by name.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        self.manifest = check_integrity(directory)
        # What holds the weights; they go with it.
        self._loaded = tf.saved_model.load(str(directory))
        self.signatures = self._loaded.signatures

    def warm_up(self) -> None:
        """Runs the requests that TensorFlow Serving warms up with, which takes some seconds.

        Without them the first call takes as much longer than the next.
        """
        for signature, inputs in read_warmup(self.directory):
            self.signatures[signature](**inputs)

    def translate(self, lines: Sequence[str]) -> list[Answer]:
        """Returns translation and score of each line, all of them as one batch.

        Raises:
          UserError: a line is not UTF-8.
        """
        check_texts(lines)
        found = self.signatures["serving_default"](text=tf.constant(list(lines), tf.string))
        texts = [text.decode("utf-8") for text in found["translation"].numpy()]
        rest = (found[name].numpy().tolist() for name in ("score", "cut"))
        return list(map(Answer, texts, *rest))


def load_export(path: str | Path, warm_up: bool = False) -> LoadedExport:
    """Loads an export.

    Args:
      path: directory of a version, or of all versions, of which the newest is taken.
      warm_up: whether it is also made ready for its first translation, see `LoadedExport.warm_up`.

    Raises:
      UserError: there is none, or a file of it is missing or damaged; it is named.
    """
    directory = version_directory(Path(path))
    try:
        loaded = LoadedExport(directory)
        if warm_up:
            loaded.warm_up()
        return loaded
    except (OSError, tf.errors.OpError) as error:
        raise UserError(f"The export {directory} cannot be loaded: {error}") from error


def version_directory(path: Path) -> Path:
    """Returns the directory of a version: `path` itself, or the newest of the versions in it."""
    versions = [child for child in path.glob("*") if child.name.isdecimal()]
    if not versions or (path / "saved_model.pb").exists():
        return path
    return max(versions, key=lambda version: int(version.name))
