"""Training speed on a kit of batches, as one JSON line that the kit compares with other toolkits.

    python benchmarks/train_speed.py --kit=../shared/bench/peers --config=tiny [--xla]
        [--compute_dtype=bfloat16]

The kit is a folder whose module `workload` defines the work: batches as arrays, the configurations
`tiny` (4+4 layers, d_model 128, d_ff 256, 4 heads) and `base` (the paper's), and `train`, which
times a step that is given to it. The step here is the trainer's own.
"""

import sys
from pathlib import Path

from absl import app, flags

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

_KIT = flags.DEFINE_string("kit", "../shared/bench/peers", "Folder of the kit.")
_CONFIG = flags.DEFINE_enum("config", "tiny", ["tiny", "base"], "Size of the model.")
_DTYPE = flags.DEFINE_string("compute_dtype", "float32", "Type of the matrix work.")
_XLA = flags.DEFINE_boolean("xla", False, "Compiles the step by XLA.")


def main(_) -> None:
    """Times the trainer's step on the kit's batches."""
    sys.path.insert(0, str(Path(_KIT.value).resolve()))
    import keras
    import tensorflow as tf
    import workload

    from t2t_keras import registry
    from t2t_keras.data.batches import TokenArrays
    from t2t_keras.models.transformer import Transformer
    from t2t_keras.training.tensorflow_step import TensorFlowStep

    tf.config.threading.set_intra_op_parallelism_threads(workload.THREADS)
    size = workload.config(_CONFIG.value)
    hparams = registry.hparams(
        "transformer_base",
        num_layers=size["layers"],
        d_model=size["d"],
        d_ff=size["ff"],
        num_heads=size["heads"],
        dropout=workload.DROPOUT,
        label_smoothing=workload.LABEL_SMOOTHING,
        compute_dtype=_DTYPE.value,
    )
    step = TensorFlowStep(
        lambda: Transformer.from_hparams(hparams, size["vocab"]),
        hparams,
        tf.distribute.MirroredStrategy(["/cpu:0"]),
        seed=1,
        xla=_XLA.value,
    )
    # The kit fixes Adam's rate instead of following the schedule.
    step.schedule = lambda _: tf.constant(workload.ADAM["lr"])
    done = 0

    def train(source, _, target) -> float:
        nonlocal done
        sums = step.update(done, [[TokenArrays(source, target)]])
        done += 1
        return float(sums["loss"]) / float(sums["tokens"])

    suffix = "_xla" * _XLA.value + f"_{_DTYPE.value}" * (_DTYPE.value != "float32")
    workload.train(
        f"ours{suffix}",
        _CONFIG.value,
        train,
        parameters=step.model.count_params(),
        version=f"keras {keras.__version__}, tensorflow {tf.__version__}",
    )


if __name__ == "__main__":
    app.run(main)
