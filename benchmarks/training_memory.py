"""What `t2t-trainer --dry_run` counts of a step's memory beside what the step takes on a CPU.

    python benchmarks/training_memory.py

Each step runs in a process of its own. "allocated" is the most that TensorFlow's allocator gave out
at once, from memory in one piece, as a GPU's is; "process" the peak of the whole process, less that
of one whose model is as good as nothing, so that it shows what the allocator loses besides; under
XLA, also what compiling took. Of a step that is split, the tokens are those of each of its
microbatches. Megabytes are 10^6 bytes.
"""

import json
import subprocess
import sys

from absl import app, flags
from peak_memory import peak_bytes

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

_CASE = flags.DEFINE_string("case", "", "A case, as JSON, to measure in this process.")
_NOTHING = dict(
    hparams_set="transformer_tiny", changes="num_layers=1,d_model=8,d_ff=8", vocab_size=8
)
# Floats; no memory is taken from the system before it is written to.
_ONE_PIECE = 1 << 30
_CASES = [
    dict(hparams_set=name, changes=changes, vocab_size=vocab_size, tokens=tokens, length=length)
    for name, vocab_size, tokens, length, changes in (
        ("transformer_base", 37_000, 1024, 32, ""),
        ("transformer_base", 37_000, 1024, 256, ""),
        ("transformer_base", 37_000, 2048, 64, ""),
        ("transformer_base", 37_000, 2048, 64, "recompute=true"),
        ("transformer_base", 37_000, 2048, 64, "compute_dtype=bfloat16"),
        ("transformer_multi30k", 10_000, 2048, 32, ""),
        ("transformer_multi30k", 10_000, 4096, 128, ""),
        ("transformer_multi30k", 10_000, 4096, 128, "compute_dtype=bfloat16"),
        ("transformer_multi30k", 10_000, 4096, 128, "recompute=true"),
        ("transformer_multi30k", 10_000, 4096, 128, "compute_dtype=bfloat16,recompute=true"),
    )
]
_MULTI30K = dict(
    hparams_set="transformer_multi30k", changes="", vocab_size=10_000, tokens=4096, length=128
)
_CASES += [
    dict(_MULTI30K, microbatches=2),
    dict(_MULTI30K, xla=True),
    dict(_MULTI30K, microbatches=2, xla=True),
]


def main(_) -> None:
    """Measures every case in a child, or the one that is given in this process."""
    if _CASE.value:
        print(json.dumps(_measured(**json.loads(_CASE.value))))
        return
    itself = _in_a_child(dict(_NOTHING, tokens=8, length=4))["process"]
    print(f"a process whose model is as good as nothing: {itself:,.0f} MB\n")
    print("| set | tokens x length | counted | allocated | off by | process | off by |")
    print("|---|---|---|---|---|---|---|")
    for case in _CASES:
        found = _in_a_child(case)
        counted, process = found["counted"], found["process"] - itself
        how = [f"`{case['hparams_set']}`"]
        how += [f"`{case['changes']}`"] if case["changes"] else []
        how += ["`--xla`"] if case.get("xla") else []
        how += [f"{case['microbatches']} microbatches"] if "microbatches" in case else []
        off_by = [f"{counted / each - 1:+.0%}" for each in (found["allocated"], process)]
        print(
            f"| {', '.join(how)} | {case['tokens']:,} x {case['length']} "
            f"| {counted:,.0f} | {found['allocated']:,.0f} | {off_by[0]} "
            f"| {process:,.0f} | {off_by[1]} |",
            flush=True,
        )


def _in_a_child(case: dict) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, f"--case={json.dumps(case)}"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _measured(
    hparams_set: str,
    changes: str,
    vocab_size: int,
    tokens: int,
    length: int,
    microbatches: int = 1,
    xla: bool = False,
) -> dict[str, float]:
    """Returns megabytes: counted, allocated, and of the process."""
    import numpy as np
    import tensorflow as tf

    from t2t_keras import registry
    from t2t_keras.data.batches import TokenArrays
    from t2t_keras.models.transformer import Transformer
    from t2t_keras.training.memory import step_memory
    from t2t_keras.training.tensorflow_step import TensorFlowStep

    hparams = registry.hparams(hparams_set, changes)
    step = TensorFlowStep(
        lambda: Transformer.from_hparams(hparams, vocab_size),
        hparams,
        tf.distribute.OneDeviceStrategy("/cpu:0"),
        seed=1,
        xla=xla,
    )
    ids = np.random.default_rng(0).integers(3, vocab_size, (tokens // length, length), np.int32)
    # On a CPU the allocator's memory grows in pieces, and a block gets all of a piece of which less
    # than 128 MB would be left. On a GPU all memory is one piece from the beginning, and here too.
    one_piece = tf.raw_ops.Empty(shape=[_ONE_PIECE], dtype=tf.float32)
    del one_piece
    # Everything is traced and set up by a step of almost nothing.
    for number, arrays in enumerate([TokenArrays(ids[:1, :2], ids[:1, :2]), TokenArrays(ids, ids)]):
        tf.config.experimental.reset_memory_stats("CPU:0")
        float(step.update(number, [[arrays]] * microbatches)["loss"])
    weights = step.model.count_params()
    split = microbatches > 1
    counted = step_memory(hparams, vocab_size, weights, ids.size, length, split).together
    allocated = tf.config.experimental.get_memory_info("CPU:0")["peak"]
    return dict(counted=counted / 1e6, allocated=allocated / 1e6, process=peak_bytes() / 1e6)


if __name__ == "__main__":
    app.run(main)
