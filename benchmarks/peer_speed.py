"""Speed on a kit of batches, as one JSON line that the kit compares with other toolkits.

    python benchmarks/peer_speed.py --kit=../shared/bench/peers --config=tiny --mode=train [--xla]
        [--compute_dtype=bfloat16] [--cpu_replicas=2]
    python benchmarks/peer_speed.py --config=base --mode=decode32 [--batches_at_once=2] [--xla]
    python benchmarks/peer_speed.py --config=base --mode=decode32 --export_dtype=int8

The kit is a folder whose module `workload` has batches as arrays, the configurations `tiny` (4 + 4
layers, d_model 128, d_ff 256, 4 heads) and `base` (the paper's), and functions that time a training
step or a translation that is given to them. The step is the trainer's own. The search is the
translator's own, with random weights, beam 4, alpha 0.6 and 50 symbols for each sentence; with
--export_dtype, that of the engine ctranslate2.
"""

import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from absl import app, flags
from measuring import new_step, random_translator

_KIT = flags.DEFINE_string("kit", "../shared/bench/peers", "Folder of the kit.")
_CONFIG = flags.DEFINE_enum("config", "tiny", ["tiny", "base"], "Size of the model.")
_MODE = flags.DEFINE_enum("mode", "train", ["train", "decode32", "decode1"], "What to time.")
_DTYPE = flags.DEFINE_string(
    "compute_dtype", "float32", "Type of the matrix products; in decoding also of the weights."
)
_XLA = flags.DEFINE_boolean("xla", False, "Compile with XLA.")
_CPU_REPLICAS = flags.DEFINE_integer("cpu_replicas", 1, "Replicas that train.", 1)
_EXPORT_DTYPE = flags.DEFINE_string("export_dtype", "", "Of weights exported for CTranslate2.")
_BATCHES_AT_ONCE = flags.DEFINE_integer("batches_at_once", 1, "Batches decoded in parallel.", 1)


def main(_) -> None:
    """Times the trainer's step or the translator's search on the kit's batches."""
    sys.path.insert(0, str(Path(_KIT.value).resolve()))
    import keras
    import tensorflow as tf
    import workload

    from t2t_keras import hyperparameters

    tf.config.threading.set_intra_op_parallelism_threads(workload.THREADS)
    size = workload.config(_CONFIG.value)
    hparams = hyperparameters.hparams(
        "transformer_base",
        num_layers=size["layers"],
        d_model=size["d"],
        d_ff=size["ff"],
        num_heads=size["heads"],
        compute_dtype=_DTYPE.value,
        dropout=workload.DROPOUT,
        label_smoothing=workload.LABEL_SMOOTHING,
    )
    name = "ours" + "_xla" * _XLA.value + f"_{_DTYPE.value}" * (_DTYPE.value != "float32")
    version = f"keras {keras.__version__}, tensorflow {tf.__version__}"
    time_mode = _train if _MODE.value == "train" else _decode
    if _EXPORT_DTYPE.value:
        time_mode = _decode_exported
    time_mode(workload, name, hparams, size["vocab"], version)


def _train(workload, name: str, hparams, vocab_size: int, version: str) -> None:
    import tensorflow as tf

    from t2t_keras.data.batches import Batch

    replicas = _CPU_REPLICAS.value
    step = new_step(hparams, vocab_size, xla=_XLA.value, cpu_replicas=replicas)
    # The kit fixes Adam's rate instead of following the schedule.
    step.schedule = lambda _: tf.constant(workload.ADAM["lr"])
    numbers = itertools.count()

    def train(source, _, target) -> float:
        parts = [
            Batch(source[replica::replicas], target[replica::replicas])
            for replica in range(replicas)
        ]
        sums = step.update(next(numbers), [parts])
        return float(sums["loss"]) / float(sums["tokens"])

    name += f"_{replicas}_replicas" * (replicas > 1)
    parameters = step.model.count_params()
    workload.train(name, _CONFIG.value, train, parameters=parameters, version=version)


def _decode(workload, name: str, hparams, vocab_size: int, version: str) -> None:
    translator = random_translator(
        hparams,
        vocab_size,
        _DTYPE.value,
        beam_size=workload.BEAM,
        alpha=workload.ALPHA,
        min_length=workload.STEPS,
        max_length=workload.STEPS,
        xla=_XLA.value,
        batches_at_once=_BATCHES_AT_ONCE.value,
    )

    def search(source):
        return translator.search(source).ids.numpy()[:, 0].tolist()

    _time_search(workload, name, search, version)


def _decode_exported(workload, name: str, hparams, vocab_size: int, version: str) -> None:
    import ctranslate2
    import keras

    from t2t_keras.decoding.config import DecodeConfig
    from t2t_keras.interop.engines.ctranslate2 import CTranslate2Engine
    from t2t_keras.interop.exporters.ctranslate2 import write_model
    from t2t_keras.models.transformer import Transformer

    keras.utils.set_random_seed(1)
    model, names = Transformer.from_hparams(hparams, vocab_size), [*map(str, range(vocab_size))]
    # Here the end is none of the kit's symbols.
    limits = dict(min_length=workload.STEPS + 1, max_length=workload.STEPS + 1)
    config = DecodeConfig(batches_at_once=_BATCHES_AT_ONCE.value, **limits)
    with tempfile.TemporaryDirectory() as folder:
        write_model(model, (names, names), Path(folder), _EXPORT_DTYPE.value, 100)
        engine = CTranslate2Engine(Path(folder), config, _EXPORT_DTYPE.value, 0)

    def search(source):
        rows = [row[row > 0] for row in source]
        # The search alone: scores of outputs that end otherwise than by themselves cost more.
        hypotheses_by_row = engine._search(rows, [[]] * len(rows), limits["max_length"])
        return [[int(name) for name in hypotheses[0].tokens] for hypotheses in hypotheses_by_row]

    name = f"ours_ctranslate2_{_EXPORT_DTYPE.value}"
    _time_search(workload, name, search, f"{version}, ctranslate2 {ctranslate2.__version__}")


def _time_search(workload, name: str, search: Callable, version: str) -> None:
    import numpy as np

    from t2t_keras.decoding.engine import parallel_batches
    from t2t_keras.special_ids import EOS_ID

    at_once, sentences = _BATCHES_AT_ONCE.value, int(_MODE.value.removeprefix("decode"))

    def translate(source):
        # The kit's end of sentence is another id than ours.
        source = np.where(source == workload.EOS, EOS_ID, source)
        results = parallel_batches(search, np.array_split(source, at_once), at_once)
        return [ids for _, batch in results for ids in batch]

    name += f"_{at_once}_at_once" * (at_once > 1)
    xla = _XLA.value
    workload.decode(name, _CONFIG.value, sentences, translate, warm_all=xla, version=version)


if __name__ == "__main__":
    app.run(main)
