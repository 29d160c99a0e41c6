"""Translate sentences with an exported model; needs only TensorFlow and TensorFlow Text.

python translate_with_savedmodel.py EXPORT_DIR/VERSION "A sentence." "Another one."
"""

import sys

import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the operators of the vocabulary


def main(model_dir: str, *sentences: str) -> None:
    """Prints the translation and the score of each sentence."""
    model = tf.saved_model.load(model_dir)
    translate = model.signatures.get("serving_default")
    if not translate or not {"translation", "score"} <= set(translate.structured_outputs):
        sys.exit(f"{model_dir} has no signature serving_default with translation and score.")
    result = translate(text=tf.constant(sentences))
    for sentence, translation, score in zip(
        sentences, result["translation"].numpy(), result["score"].numpy(), strict=True
    ):
        print(f"{sentence}\n  -> {translation.decode()}  ({score:.3f})")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
