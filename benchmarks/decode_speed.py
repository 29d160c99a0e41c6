"""Decoding speed on a kit of batches, as one JSON line that the kit compares with other toolkits.

    python benchmarks/decode_speed.py --kit=../shared/bench/peers --config=base --mode=decode32
        [--xla] [--compute_dtype=bfloat16]

The kit is a folder whose module `workload` defines the work: padded batches of 32 sentences or one,
and `decode`, which times a function from a batch to 50 ids a sentence. Weights are random; beam 4,
alpha 0.6, and the end of sentence is forced to be the last of 50 symbols.
"""

import sys
from pathlib import Path

from absl import app, flags

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

_KIT = flags.DEFINE_string("kit", "../shared/bench/peers", "Folder of the kit.")
_CONFIG = flags.DEFINE_enum("config", "base", ["tiny", "base"], "Size of the model.")
_MODE = flags.DEFINE_enum("mode", "decode32", ["decode32", "decode1"], "Sentences at once.")
_DTYPE = flags.DEFINE_string("compute_dtype", "float32", "Type of the matrix work.")
_XLA = flags.DEFINE_boolean("xla", False, "Compiles the search by XLA.")


def main(_) -> None:
    """Times the translator's search on the kit's batches."""
    sys.path.insert(0, str(Path(_KIT.value).resolve()))
    import keras
    import numpy as np
    import tensorflow as tf
    import workload

    from t2t_keras import registry
    from t2t_keras.data.tokenizer import EOS_ID
    from t2t_keras.decoding.config import DecodeConfig
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.models.transformer import Transformer

    tf.config.threading.set_intra_op_parallelism_threads(workload.THREADS)
    size = workload.config(_CONFIG.value)
    hparams = registry.hparams(
        "transformer_base",
        num_layers=size["layers"],
        d_model=size["d"],
        d_ff=size["ff"],
        num_heads=size["heads"],
        compute_dtype=_DTYPE.value,
    )
    keras.utils.set_random_seed(1)
    config = DecodeConfig(
        beam_size=workload.BEAM,
        alpha=workload.ALPHA,
        min_length=workload.STEPS,
        max_length=workload.STEPS,
        xla=_XLA.value,
    )
    translator = Translator(Transformer.from_hparams(hparams, size["vocab"]), None, config)

    def translate(source):
        # The kit's end of sentence is another id than ours.
        source = np.where(source == workload.EOS, EOS_ID, source)
        return translator.search(source).ids.numpy()[:, 0].tolist()

    suffix = "_xla" * _XLA.value + f"_{_DTYPE.value}" * (_DTYPE.value != "float32")
    workload.decode(
        f"ours{suffix}",
        _CONFIG.value,
        int(_MODE.value.removeprefix("decode")),
        translate,
        warm_all=_XLA.value,
        version=f"keras {keras.__version__}, tensorflow {tf.__version__}",
    )


if __name__ == "__main__":
    app.run(main)
