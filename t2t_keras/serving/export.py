"""Export of a translator as a SavedModel: strings in, strings and scores out.

The export holds the weights, the vocabulary and the search, so that TensorFlow Serving or any
program with TensorFlow and TensorFlow Text can translate with it.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path

import tensorflow as tf

from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.serving.description import VOCABULARY_FILE, write_readme
from t2t_keras.serving.integrity import write_manifest
from t2t_keras.serving.origin import Origin
from t2t_keras.serving.signatures import TranslationModule
from t2t_keras.serving.stored_weights import check_dtype
from t2t_keras.serving.warmup import write_warmup
from t2t_keras.versions import installed_versions


def export(
    translator: Translator,
    export_dir: str | Path,
    *,
    dtype: str = "float32",
    origin: Origin | None = None,
    servable_name: str = "translate",
) -> Path:
    """Writes a SavedModel to `<export_dir>/<version>/`, as TensorFlow Serving reads it.

    The version is the time in seconds, or the next number that is free. The folder appears under
    its name only when it is complete. It also holds the vocabulary as a file, a README.md with the
    signatures, requests for TensorFlow Serving to warm up with, and a manifest of all files.

    Args:
      translator: the model, the vocabulary and the settings to export.
      export_dir: directory of all versions; made if it is not there.
      dtype: how weights are stored, one of `STORED_DTYPES`; the graph computes as the models do,
        in float32 unless they were made with another `compute_dtype`.
      origin: what the README says about where the model comes from.
      servable_name: what the model is called in the README's examples.

    Returns:
      The path of the version.

    Raises:
      UserError: the files cannot be written, or there is no such dtype.
    """
    check_dtype(dtype)
    export_dir = Path(export_dir)
    unfinished = export_dir / f".unfinished-{os.getpid()}"
    module = TranslationModule(translator, dtype)
    vocabulary = {
        "size": translator.tokenizer.vocab_size,
        "sha256": translator.tokenizer.checksum,
    }
    origin = origin or Origin()
    try:
        export_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            vocabulary_file = Path(folder) / VOCABULARY_FILE
            vocabulary_file.write_bytes(translator.tokenizer.model_bytes)
            # TensorFlow copies it into assets/.
            module.vocabulary = tf.saved_model.Asset(str(vocabulary_file))
            tf.saved_model.save(module, str(unfinished), signatures=module.signatures())
        write_warmup(unfinished, module.warmup_inputs(), servable_name)
        write_readme(unfinished, origin, translator.config, vocabulary, dtype, servable_name)
        contents = {
            "made_by": installed_versions(),
            "vocabulary": vocabulary,
            "dtype": dtype,
            "outputs": origin.outputs or "text",
        }
        # Last: it speaks of all the others.
        write_manifest(unfinished, contents)
        return _rename_to_version(unfinished, export_dir)
    except (OSError, tf.errors.OpError) as error:
        raise UserError(
            f"The model cannot be written to {export_dir}: {error}. Make room or give another "
            f"--export_dir."
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _rename_to_version(unfinished: Path, export_dir: Path) -> Path:
    newest = max(
        (int(path.name) for path in export_dir.iterdir() if path.name.isdecimal()), default=0
    )
    version = export_dir / str(max(int(time.time()), newest + 1))
    unfinished.rename(version)
    return version
