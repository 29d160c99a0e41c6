"""Requests that are run while a model is loaded, so that no user waits for it.

What is made at the first request of a kind, such as kernels and buffers, is then there.
https://www.tensorflow.org/tfx/serving/saved_model_warmup
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.serving import messages

WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"

# Texts of a request, and tokens of each: alone and several, short and long. The graph takes any
# shape; a batch of one, though, takes other paths through kernels than one of several.
_SHAPES = ((1, 6), (1, 40), (8, 20))


def warmup_texts(tokenizer: Tokenizer, most: int) -> list[list[str]]:
    """Returns the texts of each request: pieces of the vocabulary, the same for each export.

    Args:
      tokenizer: the vocabulary.
      most: the most tokens that a text may have, its end counted. TensorFlow Serving does not load
        a model that refuses one of these requests.
    """
    random = np.random.default_rng(0)
    # The first half holds the bytes and, as it were, the letters.
    first = tokenizer.vocab_size // 2
    batches = [
        [
            _fitting_text(tokenizer, ids, most)
            for ids in random.integers(first, tokenizer.vocab_size, shape)
        ]
        for shape in _SHAPES
    ]
    # What is blank is not translated: a batch without any text to translate.
    return [*batches, [""]]


def _fitting_text(tokenizer: Tokenizer, ids: Sequence[int], most: int) -> str:
    """Returns the text of as many of the ids as become no more than `most` when it is read."""
    for length in range(min(len(ids), most - 1), 0, -1):
        (text,) = tokenizer.decode([ids[:length]])
        # Pieces side by side may be read as others.
        if len(tokenizer.encode([text])[0]) <= most:
            return text
    return ""


def write_warmup(
    directory: Path, signatures: Mapping[str, Sequence[Mapping[str, Any]]], servable_name: str
) -> None:
    """Writes the requests into an export.

    Args:
      directory: of the version.
      signatures: the inputs of each request, `TensorProto`s by name, by signature.
      servable_name: the model's name, as the requests state it.

    Raises:
      tf.errors.OpError: they cannot be written.
    """
    path = directory / WARMUP_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, requests in signatures.items():
            for inputs in requests:
                request = messages.predict_request(servable_name, signature, **inputs)
                log = messages.PredictionLog()
                log.predict_log.request.CopyFrom(request)
                writer.write(log.SerializeToString())


def read_warmup(directory: Path) -> Iterator[tuple[str, dict[str, tf.Tensor]]]:
    """Yields the signature and the inputs of each request of an export.

    Args:
      directory: of the version.

    Raises:
      tf.errors.OpError: they are not there, or cannot be read.
    """
    for record in tf.data.TFRecordDataset(str(directory / WARMUP_FILE)).as_numpy_iterator():
        request = messages.PredictionLog.FromString(record).predict_log.request
        yield (
            request.model_spec.signature_name,
            {name: _tensor(value) for name, value in request.inputs.items()},
        )


def _tensor(value) -> tf.Tensor:
    official = tensor_pb2.TensorProto.FromString(value.SerializeToString())
    return tf.constant(tf.make_ndarray(official))
