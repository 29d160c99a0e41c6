"""The signatures of an export: graphs that take and give text, or ids."""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from t2t_keras.data.tokenizer import EOS_ID, PADDING_ID
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.loop import Hypotheses
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.serving import messages
from t2t_keras.serving.detokenizer import graph_detokenizer
from t2t_keras.serving.graph_checks import (
    checked_alpha,
    checked_ids,
    checked_lengths,
    checked_utf8,
    same_size,
)
from t2t_keras.serving.stored_weights import StoredWeight
from t2t_keras.serving.warmup import warmup_texts

# What `str.strip` counts as space, so that the same lines are blank here and in `Translator`.
BLANK = r"[\t-\r\x1c-\x1f\x{85}\p{Z}]*"

_IDS = tf.TensorSpec([None, None], tf.int32, name="ids")
_NUMBERS = tf.TensorSpec([None], tf.int32)
_ALPHA = tf.TensorSpec([], tf.float32, name="alpha")
_TEXT = tf.TensorSpec([None], tf.string, name="text")
_TRANSLATION = tf.TensorSpec([None], tf.string, name="translation")


def check_settings(config: DecodeConfig) -> None:
    """Raises `UserError` where decoding settings ask for what an export cannot do."""
    if config.split_long:
        raise UserError(
            "An export cannot split long lines into sentences: leave split_long out of "
            "--decode_hparams, and split the text before it is sent."
        )
    if config.xla:
        raise UserError(
            "An export cannot have its search compiled by XLA: that would be done anew for each "
            "shape of a request, some seconds each, while whoever asked waits. Leave xla out of "
            "--decode_hparams."
        )
    if config.weights_dtype != "float32":
        raise UserError(
            f"An export takes the run's own weights, and --dtype says how it stores them: leave "
            f"weights_dtype={config.weights_dtype} out of --decode_hparams, and give "
            f"--dtype=bfloat16 or --dtype=int8 for a smaller export."
        )


class TranslationModule(tf.Module):
    """A translator as graphs; `signatures` says which.

    Args:
      translator: the models, the vocabulary and the settings.
      dtype: how the weights are stored, one of `STORED_DTYPES`.

    Raises:
      UserError: the settings ask for what a graph cannot do.
    """

    def __init__(self, translator: Translator, dtype: str = "float32"):
        super().__init__()
        check_settings(translator.config)
        # The models must not be attributes: TensorFlow would export their `call` as well, and
        # fail. The weights must be, to be saved; the translator is no object that it looks into.
        self._translator = translator
        self._model_weights = _Hidden(
            [weight for model in translator.models for weight in model.weights]
        )
        self.weights = [StoredWeight(each.numpy(), dtype) for each in self._model_weights.values]
        self._tokenizer = translator.tokenizer.graph_tokenizer()
        self._detokenize = graph_detokenizer(self._tokenizer)
        # Graphs that several signatures share.
        self._best = self._search(return_beams=False)
        self._all = self._search(return_beams=True)

    def signatures(self) -> dict[str, Any]:
        """Returns the functions to export, by the names of their signatures.

        Attention is that of one model, so an ensemble has no signature for it.
        """
        # SignatureDef's defaults are constants of the graph; TensorFlow Serving fills them in.
        alpha = tf.constant(self._translator.config.alpha, tf.float32)
        functions = {
            "serving_default": (lambda text: self.translate(text), [_TEXT]),
            "nbest": (lambda text, alpha=alpha: self.n_best(text, alpha), [_TEXT, _ALPHA]),
            "score": (
                lambda text, translation: self.score(text, translation),
                [_TEXT, _TRANSLATION],
            ),
            "tokens": (lambda ids, alpha=alpha: self.translate_ids(ids, alpha), [_IDS, _ALPHA]),
            "attention": (
                lambda text, translation: self.attention(text, translation),
                [_TEXT, _TRANSLATION],
            ),
        }
        if len(self._translator.models) > 1:
            del functions["attention"]
        return {
            name: tf.function(function, input_signature=specs, autograph=False)
            for name, (function, specs) in functions.items()
        }

    def warmup_inputs(self) -> dict[str, list[Mapping[str, Any]]]:
        """Returns requests of all shapes that matter: their inputs, by signature."""
        tokenizer, config = self._translator.tokenizer, self._translator.config
        batches = warmup_texts(tokenizer, config.max_input_length)
        alpha = messages.float_tensor(config.alpha)
        texts = [{"text": messages.string_tensor(batch)} for batch in batches]
        pairs = [{**text, "translation": text["text"]} for text in texts]
        # Their rows have the same length only one by one.
        ids = [
            {"ids": messages.int_tensor([row.tolist()]), "alpha": alpha}
            for batch in batches[:2]
            for row in tokenizer.encode(batch[:1])
        ]
        inputs = {
            "serving_default": texts,
            "nbest": [{**text, "alpha": alpha} for text in texts],
            "score": pairs,
            "tokens": ids,
            "attention": pairs,
        }
        return {name: inputs[name] for name in self.signatures()}

    def translate(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates strings [B].

        Returns:
          "translation", strings [B]; "score", float32 [B]; "cut", int32 [B], how many tokens of a
          text were left out because it is too long. A blank string gives a blank one, with 0.
        """
        source, rows, cut = self._source(text)
        found = self._best(source, rows, self._translator.config.alpha)
        return {
            "translation": _in_place(self._detokenize(found.ids[:, 0]), rows, text),
            "score": _in_place(found.scores[:, 0], rows, text),
            "cut": _in_place(cut, rows, text),
        }

    def n_best(self, text: tf.Tensor, alpha: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates strings [B] under a length penalty with exponent alpha [].

        Returns:
          "translations", strings [B, N], "scores", float32 [B, N], best first: as many as the beam
          is wide, or samples are drawn; "" with -inf where there are fewer. And "cut", int32 [B].
        """
        source, rows, cut = self._source(text)
        found = self._all(source, rows, checked_alpha(alpha))
        places = found.ids.shape[1]
        # Not -1 rows, of which there may be any number where the longest output has no token.
        flat = [tf.size(rows) * places, tf.shape(found.ids)[2]]
        translations = self._detokenize(tf.reshape(found.ids, flat))
        return {
            "translations": _in_place(tf.reshape(translations, [-1, places]), rows, text),
            "scores": _in_place(found.scores, rows, text),
            "cut": _in_place(cut, rows, text),
        }

    def score(self, text: tf.Tensor, translation: tf.Tensor) -> dict[str, tf.Tensor]:
        """Scores translations [B] of strings [B].

        Returns:
          "log_probability", float32 [B], natural, the end of sentence included; "tokens", int32
          [B], of how many tokens of the translation, its end counted.
        """
        source, target = self._pairs(text, translation)
        with self._stored_weights():
            log_probs = Ensemble(self._translator.models).log_probs(source, target)
        return {
            "log_probability": tf.reduce_sum(log_probs, axis=1),
            "tokens": tf.math.count_nonzero(target != PADDING_ID, axis=1, dtype=tf.int32),
        }

    def translate_ids(self, ids: tf.Tensor, alpha: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates ids [B, S], each row with its end of sentence, then padding.

        Returns:
          "ids", int32 [B, N, L], the same way, and "scores", float32 [B, N], best first.
        """
        ids = checked_ids(ids, self._translator.tokenizer.vocab_size)
        ids = checked_lengths(ids, self._translator.config.max_input_length, "a row of ids")
        found = self._all(ids, tf.range(tf.shape(ids)[0]), checked_alpha(alpha))
        return {"ids": found.ids, "scores": found.scores}

    def attention(self, text: tf.Tensor, translation: tf.Tensor) -> dict[str, tf.Tensor]:
        """Tells where the model looks for strings [B] and their translations [B].

        Returns:
          "weights", float32 [B, layers, heads, T, S], of the decoder over the source, row i for
          token i of the translation; "encoder_weights" [B, layers, heads, S, S] and
          "decoder_weights" [B, layers, heads, T, T]; the pieces they belong to, "text_pieces",
          strings [B, S], and "translation_pieces", strings [B, T], "" behind the end.
        """
        source, target = self._pairs(text, translation)
        with self._stored_weights():
            found = self._translator.models[0].attention_weights(
                {"source": source, "target": target}
            )
        return {
            "weights": found["cross"],
            "encoder_weights": found["encoder"],
            "decoder_weights": found["decoder"],
            "text_pieces": self._pieces(source),
            "translation_pieces": self._pieces(target),
        }

    def _search(self, return_beams: bool):
        """Returns a graph function: ids [B, S], numbers [B], alpha [] -> `Hypotheses`."""
        translator = self._translator
        translator = Translator(
            translator.models,
            translator.tokenizer,
            dataclasses.replace(translator.config, return_beams=return_beams),
            translator.forbidden,
            translator.problem,
        )

        def search(source: tf.Tensor, numbers: tf.Tensor, alpha: tf.Tensor) -> Hypotheses:
            with self._stored_weights():
                return translator.search(source, numbers=numbers, alpha=alpha)

        return tf.function(search, input_signature=[_IDS, _NUMBERS, _ALPHA], autograph=False)

    def _source(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns ids [b, S] of what is not blank, where it stands [b], how much is cut [b]."""
        text = checked_utf8(text, "text")
        rows = tf.cast(tf.where(~tf.strings.regex_full_match(text, BLANK))[:, 0], tf.int32)
        ids = self._tokenizer.tokenize(tf.gather(text, rows))
        most = self._translator.config.max_input_length
        cut = tf.maximum(tf.cast(ids.row_lengths(), tf.int32) - most, 0)
        source = ids[:, :most].to_tensor()
        # The end of sentence takes the last place.
        last = (tf.range(tf.shape(source)[1]) == most - 1) & (cut > 0)[:, None]
        return tf.where(last, EOS_ID, source), rows, cut

    def _pairs(self, text: tf.Tensor, translation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids [B, S] and [B, T]."""
        most = self._translator.config.max_input_length
        text = same_size(text, translation)
        return tuple(
            checked_lengths(
                self._tokenizer.tokenize(checked_utf8(each, name)).to_tensor(), most, name
            )
            for name, each in (("text", text), ("translation", translation))
        )

    def _pieces(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.where(ids == PADDING_ID, "", self._tokenizer.id_to_string(ids))

    def _stored_weights(self) -> contextlib.AbstractContextManager:
        """While it lasts, the models read the stored weights."""
        pairs = zip(self._model_weights.values, self.weights, strict=True)
        return keras.StatelessScope([(weight, stored.value()) for weight, stored in pairs])


@dataclasses.dataclass(frozen=True)
class _Hidden:
    """Keeps values from TensorFlow's search for what to save."""

    values: list


def _in_place(found: tf.Tensor, rows: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
    """Returns [B, ...]: what was found for `rows` [b], and zeros or "" for the others."""
    shape = tf.concat([tf.shape(text), tf.shape(found)[1:]], axis=0)
    scattered = tf.tensor_scatter_nd_update(tf.zeros(shape, found.dtype), rows[:, None], found)
    return tf.ensure_shape(scattered, [None, *found.shape[1:]])
