"""What the speed measurements share: the kit that defines the work, and models of its sizes.

The kit is a folder whose module `workload` has batches as arrays, the configurations `tiny` (4 + 4
layers, d_model 128, d_ff 256, 4 heads) and `base` (the paper's), and functions that time a training
step or a translation that is given to them, and print one JSON line.
"""

import sys
from pathlib import Path

from absl import flags

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

_KIT = flags.DEFINE_string("kit", "../shared/bench/peers", "Folder of the kit.")
CONFIG = flags.DEFINE_enum("config", "tiny", ["tiny", "base"], "Size of the model.")
DTYPE = flags.DEFINE_string(
    "compute_dtype", "float32", "Type of the matrix work; in decoding also of the weights."
)
XLA = flags.DEFINE_boolean("xla", False, "Compiles by XLA.")


def workload():
    """Returns the kit's module, after TensorFlow was told how many threads it allows."""
    sys.path.insert(0, str(Path(_KIT.value).resolve()))
    import tensorflow as tf
    import workload

    tf.config.threading.set_intra_op_parallelism_threads(workload.THREADS)
    return workload


def hparams(work, **changes):
    """Returns the hyperparameters of the configuration that the flags name."""
    from t2t_keras import registry

    size = work.config(CONFIG.value)
    return registry.hparams(
        "transformer_base",
        num_layers=size["layers"],
        d_model=size["d"],
        d_ff=size["ff"],
        num_heads=size["heads"],
        compute_dtype=DTYPE.value,
        **changes,
    )


def name() -> str:
    """Returns what the kit calls this side of the comparison."""
    return "ours" + "_xla" * XLA.value + f"_{DTYPE.value}" * (DTYPE.value != "float32")


def version() -> str:
    """Returns what it ran on."""
    import keras
    import tensorflow as tf

    return f"keras {keras.__version__}, tensorflow {tf.__version__}"
