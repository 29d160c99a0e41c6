"""Export of a translator as a SavedModel: strings in, strings and scores out.

It has all that TensorFlow Serving, or a program with TensorFlow and TensorFlow Text, needs.
"""

import functools
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, overload

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.decoding.config import decode_config
from t2t_keras.decoding.translator import Translator
from t2t_keras.environment import expanded, installed_versions
from t2t_keras.errors import UserError
from t2t_keras.serving import messages
from t2t_keras.serving.export.load import WARMUP_FILE, write_manifest
from t2t_keras.serving.export.readme import write_readme
from t2t_keras.serving.export.signatures import TranslationModule
from t2t_keras.text.tokenizer import Tokenizer
from t2t_keras.training.trained_model import TrainedModel

# (texts, words of each) of the warm-up requests: one text uses other kernels than several.
_WARMUP_SHAPES = ((1, 6), (1, 40), (8, 20))


@overload
def export(
    translator: Translator | TrainedModel,
    export_dir: str | Path,
    *,
    dtype: str = "float32",
    servable_name: str = "translate",
    origin: Sequence[str] = (),
    example: str = "",
) -> Path: ...


@overload
def export(
    translator: keras.Model,
    tokenizer: Tokenizer,
    export_dir: str | Path,
    *,
    dtype: str = "float32",
    servable_name: str = "translate",
    origin: Sequence[str] = (),
    example: str = "",
) -> Path: ...


@functools.singledispatch
def export(
    translator: Translator | TrainedModel | keras.Model,
    export_dir: str | Path = "",
    *,
    dtype: str = "float32",
    servable_name: str = "translate",
    origin: Sequence[str] = (),
    example: str = "",
) -> Path:
    """Writes a SavedModel to `<export_dir>/<version>/`, where TensorFlow Serving expects it.

    The version is the time in seconds, or the next free number. The folder gets its name when it is
    complete. It also contains the vocabulary as a file, a README.md with the signatures, warm-up
    requests for TensorFlow Serving and a manifest of all files.

    Args:
      translator: the model, the vocabulary and the settings to export; or what `load_model`
        returns; or a model and, as the next argument, its tokenizer: `export(model, tokenizer,
        export_dir)`.
      export_dir: directory of all versions; made if it is missing.
      dtype: dtype of the stored weights, one of `STORED_DTYPES`; the graph computes in the models'
        `compute_dtype`.
      servable_name: name of the model in the README's examples.
      origin: lines for the README that say where the model comes from, with its scores.
      example: a sentence in the source language, for the README; "" = "A sentence."

    Returns:
      The path of the version.

    Raises:
      UserError: the files cannot be written, the dtype or a decoding setting is not supported, or
        there is nothing to export.
    """
    if not isinstance(translator, Translator) or not str(export_dir):
        raise UserError(
            f"export: expected (translator, export_dir), (load_model(run), export_dir) or (model, "
            f"tokenizer, export_dir), got {type(translator).__name__} and {export_dir!r}.",
            code="wrong_type",
        )
    export_dir = Path(expanded(export_dir))
    module = TranslationModule(translator, dtype)
    tokenizer = translator.tokenizer
    contents = {
        "provenance": installed_versions(),
        "vocabulary": tokenizer.record(),
        "dtype": dtype,
        "outputs": translator.problem.raw_output or "text",
    }
    try:
        export_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=export_dir) as folder:
            unfinished = Path(folder) / "1"
            # TensorFlow copies them into assets/.
            files = tokenizer.save(folder)
            module.vocabulary = [tf.saved_model.Asset(str(Path(folder) / file)) for file in files]
            signatures = module.signatures()
            tf.saved_model.save(module, str(unfinished), signatures=signatures)
            _write_warmup(unfinished / WARMUP_FILE, signatures, translator, servable_name)
            config = module.config
            write_readme(unfinished, signatures, contents, config, servable_name, origin, example)
            write_manifest(unfinished, contents)  # last, for it names all other files
            versions = [int(path.name) for path in export_dir.iterdir() if path.name.isdecimal()]
            version = max(int(time.time()), max(versions, default=0) + 1)
            return unfinished.rename(export_dir / str(version))
    except (OSError, tf.errors.OpError) as error:
        raise UserError(
            f"Cannot write the export to {export_dir}: {error}. Make room or give another "
            f"--export_dir.",
            code="not_written",
        ) from error


@export.register  # type: ignore[attr-defined]
def _export_model(
    model: keras.Model, tokenizer: Tokenizer, export_dir: str | Path = "", **options: Any
) -> Path:
    if not isinstance(tokenizer, Tokenizer):
        raise UserError(
            f"export: expected the tokenizer after the model, got {tokenizer!r}.", code="wrong_type"
        )
    return export(Translator(model, tokenizer), export_dir, **options)


@export.register  # type: ignore[attr-defined]
def _export_trained(trained: TrainedModel, export_dir: str | Path = "", **options: Any) -> Path:
    config = decode_config("", trained.problem.decoding_defaults)
    translator = Translator(trained.model, trained.tokenizer, config, problem=trained.problem)
    return export(translator, export_dir, **options)


def warmup_texts(tokenizer: Tokenizer, max_tokens: int) -> list[list[str]]:
    """Returns the texts of each warm-up request; the last is a blank, which is not translated.

    No text has more than `max_tokens` with its end: TensorFlow Serving does not load a model that
    refuses one of these requests.
    """

    def text(words: int) -> str:
        letters = "a " * words
        while len(tokenizer.source.encode([letters])[0]) > max_tokens:
            letters = letters[: len(letters) // 2]
        return letters

    return [*([text(words)] * count for count, words in _WARMUP_SHAPES), [""]]


def _write_warmup(
    path: Path, signatures: Iterable[str], translator: Translator, servable_name: str
) -> None:
    """Writes the requests that TensorFlow Serving runs while it loads the model."""
    tokenizer, alpha = translator.tokenizer, translator.config.alpha
    batches = warmup_texts(tokenizer, translator.config.max_input_length)
    pairs = [{"text": batch, "translation": batch} for batch in batches]
    inputs: dict[str, list[dict[str, Any]]] = {
        "serving_default": [{"text": batch} for batch in batches],
        "nbest": [{"text": batch, "alpha": alpha} for batch in batches],
        "score": pairs,
        "tokens": [
            {"ids": np.stack(tokenizer.source.encode(batch)), "alpha": alpha} for batch in batches
        ],
        "attention": pairs,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature in signatures:
            for each in inputs[signature]:
                tensors = {name: tf.make_tensor_proto(value) for name, value in each.items()}
                request = messages.predict_request(servable_name, signature, **tensors)
                log = messages.PredictionLog(predict_log={"request": request})
                writer.write(log.SerializeToString())
