"""Requests that TensorFlow Serving runs while it loads a model, so that no user waits for kernels.

https://www.tensorflow.org/tfx/serving/saved_model_warmup
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.translator import Translator
from t2t_keras.serving import messages
from t2t_keras.text.tokenizer import Tokenizer

WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"

# (texts, words of each): one text uses other kernels than several.
_SHAPES = ((1, 6), (1, 40), (8, 20))


def warmup_texts(tokenizer: Tokenizer, max_tokens: int) -> list[list[str]]:
    """Returns the texts of each request; the last is a blank, of which nothing is translated.

    No text has more than `max_tokens` with its end: TensorFlow Serving does not load a model that
    refuses one of these requests.
    """

    def text(words: int) -> str:
        letters = "a " * words
        while len(tokenizer.encode([letters])[0]) > max_tokens:
            letters = letters[: len(letters) // 2]
        return letters

    return [*([text(words)] * count for count, words in _SHAPES), [""]]


def write_warmup(
    directory: Path, signatures: Iterable[str], translator: Translator, servable_name: str
) -> None:
    """Writes the requests for the named signatures into an export.

    Raises:
      tf.errors.OpError: they cannot be written.
    """
    tokenizer, alpha = translator.tokenizer, translator.config.alpha
    batches = warmup_texts(tokenizer, translator.config.max_input_length)
    pairs = [{"text": batch, "translation": batch} for batch in batches]
    inputs = {
        "serving_default": [{"text": batch} for batch in batches],
        "nbest": [{"text": batch, "alpha": alpha} for batch in batches],
        "score": pairs,
        "tokens": [{"ids": np.stack(tokenizer.encode(batch)), "alpha": alpha} for batch in batches],
        "attention": pairs,
    }
    path = directory / WARMUP_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature in signatures:
            for each in inputs[signature]:
                tensors = {name: tf.make_tensor_proto(value) for name, value in each.items()}
                request = messages.predict_request(servable_name, signature, **tensors)
                log = messages.PredictionLog(predict_log={"request": request})
                writer.write(log.SerializeToString())


def read_warmup(directory: Path) -> Iterator[tuple[str, dict[str, tf.Tensor]]]:
    """Yields the signature and the inputs of each request of an export.

    Raises:
      tf.errors.OpError: the file is missing or damaged.
    """
    for record in tf.data.TFRecordDataset(str(directory / WARMUP_FILE)).as_numpy_iterator():
        request = messages.PredictionLog.FromString(record).predict_log.request
        inputs = {
            each.key: tf.io.parse_tensor(each.value.SerializeToString(), each.value.dtype)
            for each in request.inputs
        }
        yield request.model_spec.signature_name, inputs
