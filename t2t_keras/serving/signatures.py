"""The signatures of an export: graphs that map text or ids to text, ids, scores or attention."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.keras_engine import Ensemble
from t2t_keras.decoding.search import Hypotheses
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.serving.formats import check_backend, check_dtype
from t2t_keras.special_ids import EOS_ID, PADDING_ID
from t2t_keras.text.files import INVISIBLE

# In RE2's syntax, so that the same lines are blank here and in `Translator`.
_INVISIBLE = "".join(char if char == "-" else rf"\x{{{ord(char):x}}}" for char in INVISIBLE)
BLANK = rf"[\t-\r\p{{Z}}{_INVISIBLE}]*"

_ALPHA = tf.TensorSpec([], tf.float32, name="alpha")
_IDS = tf.TensorSpec([None, None], tf.int32, name="ids")
_NUMBERS = tf.TensorSpec([None], tf.int32)
_TEXT = tf.TensorSpec([None], tf.string, name="text")
_PAIR = [_TEXT, tf.TensorSpec([None], tf.string, name="translation")]

# Signature -> inputs. The README has the docstring of its method of `TranslationModule`.
SIGNATURES = {
    "serving_default": [_TEXT],
    "nbest": [_TEXT, _ALPHA],
    "score": _PAIR,
    "tokens": [_IDS, _ALPHA],
    "attention": _PAIR,
}

_UNSUPPORTED_SETTINGS = {  # setting -> what to do instead
    "split_long": "split the text before sending it",
    "terms": "exports take no glossary, but a model trained with hints takes them in the text",
    "xla": "each new shape of a request would compile for seconds",
    "xla_for_one": "requests would compile for seconds",
    "check_placeholders": "check the translations in the client",
    "weights_dtype": "give --dtype=bfloat16 or --dtype=int8 for a smaller export",
}


def export_settings(translator: Translator, dtype: str) -> DecodeConfig:
    """Returns a translator's decoding settings, without a placeholder check that its problem set.

    Raises:
      UserError: exports do not support a setting, this dtype of the weights, or this backend.
    """
    check_backend()
    check_dtype("saved_model", dtype)
    config, default = translator.config, DecodeConfig()
    if translator.problem.decoding_defaults.get("check_placeholders"):
        config = dataclasses.replace(config, check_placeholders=False)
    for name, advice in _UNSUPPORTED_SETTINGS.items():
        if (value := getattr(config, name)) != getattr(default, name):
            raise UserError(
                f"An export does not support {name}={value}: leave it out of --decode_hparams; "
                f"{advice}.",
                code="not_supported",
            )
    return config


class TranslationModule(tf.Module):
    """A translator as graphs with weights stored as `dtype`, for `tf.saved_model.save`.

    Raises:
      UserError: as `export_settings`.
    """

    def __init__(self, translator: Translator, dtype: str = "float32"):
        super().__init__()
        self.config = export_settings(translator, dtype)
        # TensorFlow saves what it finds in attributes. It must find the stored weights, but not the
        # models, whose `call` it would export; it does not look into a translator.
        self._translator = translator
        self.weights = [StoredWeight(weight.numpy(), dtype) for weight in model_weights(translator)]
        self._tokenizer = translator.tokenizer.graph_tokenizer()
        self._source_tokenizer = translator.tokenizer.source.graph_tokenizer()
        # Graphs that several signatures use.
        self._search_best, self._search_all = map(self._search_graph, (False, True))

    def signatures(self) -> dict[str, Any]:
        """Returns the functions to export; `attention` is missing for an ensemble."""
        # TensorFlow Serving reads the default, a constant of the graph, from the SignatureDef.
        alpha = tf.constant(self._translator.config.alpha, tf.float32)
        functions = {name: getattr(self, name) for name in SIGNATURES}
        functions["nbest"] = lambda text, alpha=alpha: self.nbest(text, alpha)
        functions["tokens"] = lambda ids, alpha=alpha: self.tokens(ids, alpha)
        if len(self._translator.models) > 1:
            del functions["attention"]
        return {
            name: tf.function(function, input_signature=SIGNATURES[name], autograph=False)
            for name, function in functions.items()
        }

    def serving_default(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates texts.

        `score` is the log-probability divided by the length penalty ((5 + tokens) / 6)^alpha; 0 is
        certain. `cut` is the number of tokens beyond max_input_length (see above), which are left
        out. A blank text gives a blank translation with score 0.
        """
        alpha = self._translator.config.alpha
        translations, scores, cut = self._translate(text, self._search_best, alpha)
        return {"translation": translations[:, 0], "score": scores[:, 0], "cut": cut}

    def nbest(self, text: tf.Tensor, alpha: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns several translations of each text, best first.

        Their number is the beam size or the number of samples; missing ones are "" with score -inf.
        Over gRPC `alpha` may be left out, for the value above; over REST, TensorFlow Serving
        requires every input.
        """
        outputs = self._translate(text, self._search_all, _checked_alpha(alpha))
        return dict(zip(("translations", "scores", "cut"), outputs, strict=True))

    def score(self, text: tf.Tensor, translation: tf.Tensor) -> dict[str, tf.Tensor]:
        """Scores given translations.

        Returns the natural logarithms of their probabilities, and their numbers of tokens, both
        including the end of sentence.
        """
        source, target = self._pair_ids(text, translation)
        with self._stored_weights():
            log_probs = Ensemble(self._translator.models).log_probs(source, target)
        return {
            "log_probability": tf.reduce_sum(log_probs, axis=1),
            "tokens": tf.math.count_nonzero(target != PADDING_ID, axis=1, dtype=tf.int32),
        }

    def tokens(self, ids: tf.Tensor, alpha: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates ids; each row ends with an end of sentence (1), then padding (0).

        Returns `ids` and `scores` of the best hypotheses, best first. Invalid rows are rejected
        with INVALID_ARGUMENT. For `alpha` see `nbest`.
        """
        ids = _checked_ids(ids, self._translator.tokenizer.source.vocab_size)
        ids = self._checked_lengths(ids, "a row of ids")
        hypotheses = self._search_all(ids, tf.range(tf.shape(ids)[0]), _checked_alpha(alpha))
        return {"ids": hypotheses.ids, "scores": hypotheses.scores}

    def attention(self, text: tf.Tensor, translation: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the attention weights of the model.

        `weights` are the decoder's weights over the text (batch, layer, head, piece of the
        translation, piece of the text); `encoder_weights` and `decoder_weights` are the weights of
        self-attention. Pieces after the end of a sentence are "".
        """
        source, target = self._pair_ids(text, translation)
        pair = {"source": source, "target": target}
        with self._stored_weights():
            weights = self._translator.models[0].attention_weights(pair)
        return {
            "weights": weights["cross"],
            "encoder_weights": weights["encoder"],
            "decoder_weights": weights["decoder"],
            "text_pieces": self._source_tokenizer.pieces(source),
            "translation_pieces": self._tokenizer.pieces(target),
        }

    def _search_graph(self, return_beams: bool) -> Callable[..., Hypotheses]:
        """Returns a graph function: ids [B, S], numbers [B], alpha [] -> `Hypotheses`."""
        exported_translator = self._translator
        config = dataclasses.replace(exported_translator.config, return_beams=return_beams)
        translator = Translator(
            exported_translator.models,
            exported_translator.tokenizer,
            config,
            exported_translator.forbidden,
            exported_translator.problem,
        )

        def search(source: tf.Tensor, numbers: tf.Tensor, alpha: tf.Tensor) -> Hypotheses:
            with self._stored_weights():
                return translator.search(source, numbers=numbers, alpha=alpha)

        return tf.function(search, input_signature=[_IDS, _NUMBERS, _ALPHA], autograph=False)

    def _translate(
        self, text: tf.Tensor, search: Callable[..., Hypotheses], alpha: float | tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns translations [B, N], scores [B, N], and numbers of tokens cut [B]."""
        text = _to_nfc(text, "text")
        not_blank = tf.cast(tf.where(~tf.strings.regex_full_match(text, BLANK))[:, 0], tf.int32)
        ids = self._source_tokenizer.tokenize(tf.gather(text, not_blank))
        max_tokens = self._translator.config.max_input_length
        cut = tf.maximum(tf.cast(ids.row_lengths(), tf.int32) - max_tokens, 0)
        source = ids[:, :max_tokens].to_tensor()
        # A cut text still ends with EOS.
        is_cut_end = (tf.range(tf.shape(source)[1]) == max_tokens - 1) & (cut > 0)[:, None]
        hypotheses = search(tf.where(is_cut_end, EOS_ID, source), not_blank, alpha)
        num_beams = hypotheses.ids.shape[1]
        # -1 would be ambiguous if the longest output has no token.
        flat_shape = [tf.size(not_blank) * num_beams, tf.shape(hypotheses.ids)[2]]
        translations = tf.reshape(
            self._tokenizer.detokenize(tf.reshape(hypotheses.ids, flat_shape)), [-1, num_beams]
        )
        return (
            _scatter(translations, not_blank, text),
            _scatter(hypotheses.scores, not_blank, text),
            _scatter(cut, not_blank, text),
        )

    def _pair_ids(self, text: tf.Tensor, translation: tf.Tensor) -> list[tf.Tensor]:
        """Returns ids [B, S] and [B, T]."""
        sizes = tf.stack([tf.size(text), tf.size(translation)])
        text = _require(text, sizes[0] == sizes[1], "expected a translation per text, got", sizes)
        return [
            self._checked_lengths(tokenize(_to_nfc(texts, name)).to_tensor(), name)
            for texts, name, tokenize in (
                (text, "text", self._source_tokenizer.tokenize),
                (translation, "translation", self._tokenizer.tokenize),
            )
        ]

    def _checked_lengths(self, ids: tf.Tensor, name: str) -> tf.Tensor:
        length, max_tokens = tf.shape(ids)[1], self._translator.config.max_input_length
        message = f"{name} must have at most {max_tokens} tokens with its end, got"
        return _require(ids, length <= max_tokens, message, length)

    def _stored_weights(self) -> contextlib.AbstractContextManager:
        """Returns a context in which the models read the stored weights."""
        pairs = zip(model_weights(self._translator), self.weights, strict=True)
        return keras.StatelessScope([(weight, stored.value()) for weight, stored in pairs])


def _scatter(values: tf.Tensor, rows: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
    """Returns [B, ...]: values [b, ...] for `rows` [b], and zeros or "" for the other texts."""
    shape = tf.concat([tf.shape(text), tf.shape(values)[1:]], axis=0)
    scattered = tf.tensor_scatter_nd_update(tf.zeros(shape, values.dtype), rows[:, None], values)
    return tf.ensure_shape(scattered, [None, *values.shape[1:]])


def _require(tensor: tf.Tensor, condition: tf.Tensor, message: str, value: tf.Tensor) -> tf.Tensor:
    """Returns the tensor; before it is used, fails the request unless `condition` is true."""
    with tf.control_dependencies([tf.debugging.Assert(condition, [message, value], summarize=8)]):
        return tf.identity(tensor)


def _to_nfc(text: tf.Tensor, name: str) -> tf.Tensor:
    """Normalises text to NFC, like `Translator`; text that is not UTF-8 is an error."""
    replaced = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
    wrong_texts = tf.where(replaced != text)[:, 0]
    message = f"{name} is not UTF-8 at (from 0)"
    text = _require(text, tf.size(wrong_texts) == 0, message, wrong_texts)
    return tensorflow_text.normalize_utf8(text, "NFC")


def _checked_alpha(alpha: tf.Tensor) -> tf.Tensor:
    return _require(alpha, alpha >= 0, "alpha must be >= 0, got", alpha)


def _checked_ids(ids: tf.Tensor, vocab_size: int) -> tf.Tensor:
    """Returns int32 [B, S]: ids of the vocabulary, then one end of sentence, then padding."""
    wrong_ids = tf.boolean_mask(ids, (ids < 0) | (ids >= vocab_size))
    message = f"ids must be in the vocabulary, 0 to {vocab_size - 1}, got"
    ids = _require(ids, tf.size(wrong_ids) == 0, message, wrong_ids)
    is_end = tf.cast(ids == EOS_ID, tf.int32)
    after_end = tf.math.cumsum(is_end, axis=1, exclusive=True) > 0
    in_order = tf.reduce_all(after_end == (ids == PADDING_ID), axis=1)
    wrong_rows = tf.where(~in_order | (tf.reduce_sum(is_end, axis=1) != 1))[:, 0]
    message = f"each row needs ids, one {EOS_ID} (end), then {PADDING_ID}s; wrong rows (from 0):"
    return _require(ids, tf.size(wrong_rows) == 0, message, wrong_rows)


class StoredWeight(tf.Module):
    """A float32 weight of any shape, stored as one of `STORED_DTYPES`.

    "bfloat16" rounds. "int8" rounds weight / scale; for each index of the last axis, the scale
    makes the largest entry 127. Vectors stay float32.
    """

    def __init__(self, weight: np.ndarray, dtype: str):
        super().__init__()
        self.scale = None
        if dtype == "bfloat16":
            weight = weight.astype(tf.bfloat16.as_numpy_dtype)
        elif dtype == "int8" and weight.ndim > 1:
            largest = np.abs(weight).max(axis=tuple(range(weight.ndim - 1)))
            scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
            weight = np.round(weight / scale).astype(np.int8)
            self.scale = tf.Variable(scale, trainable=False)
        self.stored = tf.Variable(weight, trainable=False)

    def value(self) -> tf.Tensor:
        """Returns the weight, float32."""
        value = tf.cast(self.stored, tf.float32)
        return value if self.scale is None else value * self.scale


def model_weights(translator: Translator) -> list[keras.Variable]:
    """Returns the weights of all models of a translator."""
    return [weight for model in translator.models for weight in model.weights]


@contextlib.contextmanager
def rounded_weights(translator: Translator, dtype: str) -> Iterator[None]:
    """Rounds the models' weights to `dtype` inside the context."""
    weights = model_weights(translator)
    exact_values = [weight.numpy() for weight in weights]
    try:
        for weight, value in zip(weights, exact_values, strict=True):
            weight.assign(StoredWeight(value, dtype).value())
        yield
    finally:
        for weight, value in zip(weights, exact_values, strict=True):
            weight.assign(value)
