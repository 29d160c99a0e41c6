"""What OpenNMT-tf does for `opennmt_tf.py`, run by the Python of its own environment.

with_opennmt_tf.py main ARGUMENTS    as onmt-main
with_opennmt_tf.py answer CONFIG LINES MAX_LENGTH LOGITS OUTPUT.npz
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import opennmt
import tensorflow as tf

_END = opennmt.constants.END_OF_SENTENCE_ID
_IDS = tf.TensorSpec([None, None], tf.int64)


def _answer(config, lines, max_length, with_logits, output):
    config = opennmt.config.load_config([config])
    data = config["data"]
    # Without it, predictions are pieces.
    del data["target_tokenization"]
    model = opennmt.config.load_model(config["model_dir"])
    model.initialize(data, {"maximum_decoding_length": int(max_length)})
    checkpoint = opennmt.utils.checkpoint.Checkpoint.from_config(config, model)
    checkpoint.restore()
    model.create_variables()
    words = opennmt.data.Vocab.from_file(data["target_vocabulary"])

    def search(beam_size):
        @tf.function(input_signature=[_IDS])
        def searched(ids):
            model.params["beam_width"] = beam_size
            _, found = model({"ids": ids, "length": tf.shape(ids)[1:]})
            return found["tokens"][0, 0], found["length"][0, 0]

        return searched

    @tf.function(input_signature=[_IDS, _IDS])
    def logits(source, target):
        shifted = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=1)
        labels = {"ids": shifted, "ids_out": target, "length": tf.shape(target)[1:]}
        outputs, _ = model({"ids": source, "length": tf.shape(source)[1:]}, labels)
        return outputs["logits"][0]

    searches, found = {"greedy": search(1), "beam": search(4)}, {}
    for number, line in enumerate(Path(lines).read_text(encoding="utf-8").split("\n")[:-1]):
        features = model.features_inputter.make_features(tf.constant(line))
        source = features["ids"][: features["length"]][None]
        found[f"source_{number}"] = source[0].numpy()
        for name, searched in searches.items():
            tokens, length = searched(source)
            ids = [
                words.lookup(token.decode(), default=words.size)
                for token in tokens.numpy()[:length]
            ]
            # One that is cut has no end.
            ids = [*ids, _END] if length < int(max_length) else ids[:-1]
            found[f"{name}_{number}"] = np.array(ids, np.int64)
        if number < int(with_logits):
            target = found[f"greedy_{number}"][None]
            found[f"logits_{number}"] = logits(source, tf.constant(target)).numpy()
    np.savez_compressed(output, **found)


if __name__ == "__main__":
    if sys.argv.pop(1) == "answer":
        _answer(*sys.argv[1:])
        print(opennmt.__version__)
    else:
        from opennmt.bin.main import main

        main()
