"""Translates sentences with an exported model; needs only TensorFlow and TensorFlow Text.

python translate_with_savedmodel.py EXPORT_DIR/VERSION "A sentence." "Another one."
"""

import sys

import tensorflow as tf
import tensorflow_text  # noqa: F401 - gives TensorFlow the operators of the vocabulary


def main(model_dir: str, *sentences: str) -> None:
    """Prints the translation and the score of each sentence."""
    translate = tf.saved_model.load(model_dir).signatures["serving_default"]
    result = translate(text=tf.constant(sentences))
    for sentence, translation, score in zip(
        sentences, result["translation"].numpy(), result["score"].numpy(), strict=True
    ):
        print(f"{sentence}\n  -> {translation.decode()}  ({score:.3f})")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
