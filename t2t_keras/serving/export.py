"""Export of a translator as a SavedModel: strings in, strings and scores out.

The export holds the weights, the vocabulary and the search, so that TensorFlow Serving or any
program with TensorFlow and TensorFlow Text can translate with it.
"""

import os
import shutil
import time
from pathlib import Path

import tensorflow as tf

from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError

# What `str.strip` counts as space, so that the same lines are blank here and in `Translator`.
_BLANK = r"[\t-\r\x1c-\x1f\x{85}\p{Z}]*"
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # SentencePiece's sign for a space


class TranslationModule(tf.Module):
    """A translator as one graph from strings to strings."""

    def __init__(self, translator: Translator):
        super().__init__()
        # The model must not be an attribute: TensorFlow would export its `call` as well, and fail.
        # The weights must be, to be saved; the translator is no object that TensorFlow looks into.
        self._translator = translator
        self.weights = [weight.value for model in translator.models for weight in model.weights]
        self._tokenizer = translator.tokenizer.graph_tokenizer()
        self._detokenize = _detokenizer(self._tokenizer)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def translate(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates strings [B] to "translation", strings [B], with "score", float32 [B].

        A blank string gives a blank one, with score 0.
        """
        rows = tf.where(~tf.strings.regex_full_match(text, _BLANK))
        source = self._tokenizer.tokenize(tf.gather_nd(text, rows)).to_tensor()
        found = self._translator.search(source)
        translation = self._detokenize(found.ids[:, 0])
        size = tf.shape(text)
        return {
            "translation": tf.tensor_scatter_nd_update(tf.fill(size, ""), rows, translation),
            "score": tf.tensor_scatter_nd_update(tf.fill(size, 0.0), rows, found.scores[:, 0]),
        }


def export(translator: Translator, export_dir: str | Path) -> Path:
    """Writes a SavedModel to `<export_dir>/<version>/`, as TensorFlow Serving reads it.

    The version is the time in seconds, or the next number that is free. The folder appears under
    its name only when it is complete. Signature `serving_default`: "text", strings [B] ->
    "translation", strings [B], and "score", float32 [B].

    Args:
      translator: the model, the vocabulary and the settings to export.
      export_dir: directory of all versions; made if it is not there.

    Returns:
      The path of the version.

    Raises:
      UserError: the files cannot be written.
    """
    export_dir = Path(export_dir)
    unfinished = export_dir / f".unfinished-{os.getpid()}"
    module = TranslationModule(translator)
    try:
        export_dir.mkdir(parents=True, exist_ok=True)
        tf.saved_model.save(
            module, str(unfinished), signatures={"serving_default": module.translate}
        )
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


def _detokenizer(graph_tokenizer):
    """Returns a graph function: ids int32 [B, L] -> strings [B], as `Tokenizer.decode` gives them.

    TensorFlow Text drops all spaces at the start of a text, `Tokenizer.decode` only the one that
    SentencePiece puts before the first word. So a letter is put in front and taken away again,
    with that one space.
    """
    pieces = [
        piece.decode()
        for piece in graph_tokenizer.id_to_string(tf.range(graph_tokenizer.vocab_size())).numpy()
    ]
    letter = next(i for i, piece in enumerate(pieces) if len(piece) == 1 and piece.isalnum())
    letter_bytes = len(pieces[letter].encode())
    puts_space_first = pieces[graph_tokenizer.tokenize(pieces[letter])[0]].startswith(_SPACE)
    # The bytes to take away, by the first id.
    taken = [letter_bytes + (puts_space_first and piece.startswith(_SPACE)) for piece in pieces]

    def detokenize(ids: tf.Tensor) -> tf.Tensor:
        text = graph_tokenizer.detokenize(tf.pad(ids, [[0, 0], [1, 0]], constant_values=letter))
        # Not ids[:, 0], which an empty batch does not have.
        first = tf.reduce_max(ids[:, :1], axis=1)
        start = tf.gather(tf.constant(taken, tf.int32), first)
        return tf.strings.substr(text, start, tf.strings.length(text) - start)

    return detokenize
