"""The signatures of an export: graphs from strings to strings."""

import contextlib
from typing import Any

import keras
import tensorflow as tf

from t2t_keras.decoding.translator import Translator
from t2t_keras.serving import messages
from t2t_keras.serving.detokenizer import graph_detokenizer
from t2t_keras.serving.stored_weights import StoredWeight
from t2t_keras.serving.warmup import warmup_texts

# What `str.strip` counts as space, so that the same lines are blank here and in `Translator`.
BLANK = r"[\t-\r\x1c-\x1f\x{85}\p{Z}]*"


class TranslationModule(tf.Module):
    """A translator as graphs.

    Args:
      translator: the model, the vocabulary and the settings.
      dtype: how the weights are stored, one of `STORED_DTYPES`.
    """

    def __init__(self, translator: Translator, dtype: str = "float32"):
        super().__init__()
        # The model must not be an attribute: TensorFlow would export its `call` as well, and fail.
        # The weights must be, to be saved; the translator is no object that TensorFlow looks into.
        self._translator = translator
        self.weights = [StoredWeight(weight.numpy(), dtype) for weight in translator.model.weights]
        self._tokenizer = translator.tokenizer.graph_tokenizer()
        self._detokenize = graph_detokenizer(self._tokenizer)

    def signatures(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """Returns the functions to export, by the names of their signatures."""
        return {"serving_default": self.translate}

    def warmup_inputs(self) -> dict[str, list[dict[str, Any]]]:
        """Returns requests of all shapes that matter: their inputs, by signature."""
        texts = [
            messages.string_tensor(batch) for batch in warmup_texts(self._translator.tokenizer)
        ]
        return {"serving_default": [{"text": text} for text in texts]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def translate(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates strings [B] to "translation", strings [B], with "score", float32 [B].

        A blank string gives a blank one, with score 0.
        """
        source, rows = self._source(text)
        with self._stored_weights():
            found = self._translator.search.python_function(source)
        translation = self._detokenize(found.ids[:, 0])
        size = tf.shape(text)
        return {
            "translation": tf.tensor_scatter_nd_update(tf.fill(size, ""), rows, translation),
            "score": tf.tensor_scatter_nd_update(tf.fill(size, 0.0), rows, found.scores[:, 0]),
        }

    def _source(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids [b, S] of what is not blank, and where it stands, int64 [b, 1]."""
        text = _checked_utf8(text, "text")
        rows = tf.where(~tf.strings.regex_full_match(text, BLANK))
        return self._tokenizer.tokenize(tf.gather_nd(text, rows)).to_tensor(), rows

    def _stored_weights(self) -> contextlib.AbstractContextManager:
        """While it lasts, the model reads the stored weights."""
        pairs = zip(self._translator.model.weights, self.weights, strict=True)
        return keras.StatelessScope([(weight, stored.value()) for weight, stored in pairs])


def _checked_utf8(text: tf.Tensor, name: str) -> tf.Tensor:
    """Returns strings [B]; at run time INVALID_ARGUMENT where one is not UTF-8."""
    replaced = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
    wrong = tf.where(replaced != text)[:, 0]
    check = tf.debugging.Assert(
        tf.size(wrong) == 0, [f"'{name}' is not UTF-8 at these places (from 0):", wrong]
    )
    with tf.control_dependencies([check]):
        return tf.identity(text)
