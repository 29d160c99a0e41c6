"""This library: the trainer's step and the translator's search.

Options: xla; bfloat16 (matrix products, in decoding also weights); replicas=2 (in training);
at_once=2 (batches decoded in parallel); int8 (export for CTranslate2, which decodes).
"""

import itertools
import sys
import tempfile
from pathlib import Path

import numpy as np
import workload

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tensorflow as tf
from measuring import new_step, random_translator

from t2t_keras import hyperparameters
from t2t_keras.data.batches import Batch
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import parallel_batches
from t2t_keras.interop.exporters.ctranslate2 import write_model
from t2t_keras.models.transformer import Transformer

tf.config.threading.set_intra_op_parallelism_threads(workload.THREADS)
args = workload.arguments("xla", "bfloat16", "replicas", "at_once", "int8")
xla, replicas, at_once = bool(args.xla), args.replicas or 1, args.at_once or 1
dtype, vocab_size = "bfloat16" if args.bfloat16 else "float32", args.size.vocab_size
sizes = {name: getattr(args.size, name) for name in ("num_layers", "d_model", "d_ff", "num_heads")}
sizes |= dict(dropout=workload.DROPOUT, label_smoothing=workload.LABEL_SMOOTHING)
hparams = hyperparameters.hparams("transformer_base", compute_dtype=dtype, **sizes)


def _training_step():
    step, numbers = new_step(hparams, vocab_size, xla=xla, cpu_replicas=replicas), itertools.count()
    step.schedule = lambda _: tf.constant(workload.LEARNING_RATE)

    def train(source, _, target) -> float:
        parts = [Batch(source[i::replicas], target[i::replicas]) for i in range(replicas)]
        sums = step.update(next(numbers), [parts])
        return float(sums["loss"]) / float(sums["tokens"])

    return train


def _search(length: int):
    config = dict(beam_size=workload.BEAM_SIZE, alpha=workload.ALPHA, xla=xla)
    config |= dict(min_length=length, max_length=length, batches_at_once=at_once)
    translator = random_translator(hparams, vocab_size, dtype, **config)
    return lambda source: translator.search(source).ids.numpy()[:, 0].tolist()


def _exported_search(length: int):
    from t2t_keras.interop.engines.ctranslate2 import CTranslate2Engine

    model, names = Transformer.from_hparams(hparams, vocab_size), [*map(str, range(vocab_size))]
    config = DecodeConfig(min_length=length, max_length=length, batches_at_once=at_once)
    with tempfile.TemporaryDirectory() as folder:
        write_model(model, (names, names), Path(folder), "int8", 100)
        engine = CTranslate2Engine(Path(folder), config, "int8", 0)

    def search(source):
        rows = [ids[ids != workload.PADDING] for ids in source]
        # Not `__call__`, which scores outputs without an end again.
        return [best.tokens for best, *_ in engine._search(rows, [[]] * len(rows), length)]

    return search


if args.mode == "train":
    workload.time_training(args.size, _training_step())
else:
    # The engine counts the end of sentence.
    length = workload.OUTPUT_LENGTH
    search = _exported_search(length + 1) if args.int8 else _search(length)

    def _translate(source):
        results = parallel_batches(search, np.array_split(source, at_once), at_once)
        return [ids for _, batch in results for ids in batch]

    workload.time_decoding(args, _translate, warm_all=xla)
