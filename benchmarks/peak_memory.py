"""Peak memory of training steps beside its estimate, and of translating files of several lengths.

    python benchmarks/peak_memory.py [--only=base]
    python benchmarks/peak_memory.py --lines=2000,20000,200000 [--output_dir=RUN]

The estimate of a step is that of `t2t-trainer --dry_run`. Each step runs in a process of its own.
"counted" is the estimate; "allocated" is the most that TensorFlow's allocator gave out at once,
from memory in one piece, as on a GPU. "process" is the peak of the whole process, minus the peak
with a negligible model; it includes what the allocator wastes and, under XLA, what compiling takes.
The tokens shown for a split step are each microbatch's. With --lines each file is translated, with
word alignments, in a process of its own; without --output_dir, by a very small model with random
weights. Megabytes are 10^6 bytes.
"""

import itertools
import tempfile
from pathlib import Path
from typing import NamedTuple

from absl import app, flags
from measuring import in_own_process, new_step, peak_bytes, random_translator

_ONLY = flags.DEFINE_string("only", "", "Part of the sets' names to measure; default: all.")
_LINES = flags.DEFINE_list("lines", [], "Lines of files to translate, instead of training steps.")
_RUN = flags.DEFINE_string("output_dir", "", "Run that translates.")
# Number of floats; the system gives memory only when it is written to.
_ONE_PIECE = 1 << 30


class _Case(NamedTuple):
    hparams_set: str
    vocab_size: int
    tokens: int
    length: int
    changes: str = ""
    microbatches: int = 1
    xla: bool = False


_BASE, _MULTI30K = ("transformer_base", 37_000), ("transformer_multi30k", 10_000, 4096, 128)
_HALF, _RECOMPUTE = "compute_dtype=bfloat16", "recompute=true"
_CASES = [
    *(_Case(*_BASE, 1024, length) for length in (32, 256)),
    *(_Case(*_BASE, 2048, 64, changes) for changes in ("", _RECOMPUTE, _HALF)),
    _Case("transformer_multi30k", 10_000, 2048, 32),
    *(_Case(*_MULTI30K, changes) for changes in ("", _HALF, _RECOMPUTE, f"{_HALF},{_RECOMPUTE}")),
    *(_Case(*_MULTI30K, "", *split) for split in ((2, False), (1, True), (2, True))),
]


def main(_) -> None:
    """Measures every case."""
    if _LINES.value:
        print("| lines | megabytes |\n|---|---|")
        for lines in map(int, _LINES.value):
            megabytes = in_own_process(_megabytes_to_translate, lines, _RUN.value)
            print(f"| {lines:,} | {megabytes:,.0f} |", flush=True)
        return
    negligible = _Case("transformer_tiny", 8, 8, 4, "num_layers=1,d_model=8,d_ff=8")
    *_, baseline = in_own_process(_measure_step, negligible)
    print(f"a process with a negligible model: {baseline:,.0f} MB\n")
    print("| set | tokens x length | counted | allocated | off by | process | off by |")
    print("|---|---|---|---|---|---|---|")
    for case in (case for case in _CASES if _ONLY.value in case.hparams_set):
        counted, allocated, process = in_own_process(_measure_step, case)
        parts = case.hparams_set, case.changes, "--xla" * case.xla
        title = [f"`{part}`" for part in parts if part]
        title += [f"{case.microbatches} microbatches"] * (case.microbatches > 1)
        columns = [", ".join(title), f"{case.tokens:,} x {case.length}", f"{counted:,.0f}"]
        for megabytes in (allocated, process - baseline):
            columns += [f"{megabytes:,.0f}", f"{counted / megabytes - 1:+.0%}"]
        print(f"| {' | '.join(columns)} |", flush=True)


def _measure_step(case: _Case) -> tuple[float, float, float]:
    """Returns the megabytes counted, allocated, and of the process."""
    import numpy as np
    import tensorflow as tf

    from t2t_keras import hyperparameters
    from t2t_keras.data.batches import Batch
    from t2t_keras.training.memory import step_memory

    hparams = hyperparameters.hparams(case.hparams_set, case.changes)
    step = new_step(hparams, case.vocab_size, xla=case.xla)
    shape = case.tokens // case.length, case.length
    ids = np.random.default_rng(0).integers(3, case.vocab_size, shape, np.int32)
    # On a CPU the allocator's memory grows in pieces, and a block takes a whole piece if less than
    # 128 MB would be left. On a GPU all memory is one piece from the start; make it so here.
    one_piece = tf.raw_ops.Empty(shape=[_ONE_PIECE], dtype=tf.float32)
    del one_piece
    # The first, tiny step traces and sets up everything.
    for number, arrays in enumerate([Batch(ids[:1, :2], ids[:1, :2]), Batch(ids, ids)]):
        tf.config.experimental.reset_memory_stats("CPU:0")
        float(step.update(number, [[arrays]] * case.microbatches)["loss"])
    split = case.microbatches > 1
    counted = step_memory(hparams, (case.vocab_size, None), ids.size, case.length, split)["at most"]
    allocated = tf.config.experimental.get_memory_info("CPU:0")["peak"]
    return counted / 1e6, allocated / 1e6, peak_bytes() / 1e6


def _megabytes_to_translate(lines: int, run: str) -> float:
    from t2t_keras import hyperparameters
    from t2t_keras.data.problem import make_problem
    from t2t_keras.decoding.file_job import translate_file
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.text.tokenizer import SentencePieceTokenizer

    toy = [source for source, _ in make_problem("translate_ende_toy").examples("dev")]
    if run:
        translator = Translator.from_run(run)
    else:
        tokenizer = SentencePieceTokenizer.train(toy[:500], 500)
        sizes = dict(num_layers=2, d_model=16, d_ff=16, num_heads=2)
        hparams, settings = hyperparameters.hparams("transformer_tiny", sizes), dict(beam_size=2)
        settings |= dict(tokenizer=tokenizer, extra_length=2)
        translator = random_translator(hparams, tokenizer.vocab_size, **settings)
    with tempfile.TemporaryDirectory() as folder:
        source, target, alignments = (Path(folder) / name for name in "abc")
        with source.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in itertools.islice(itertools.cycle(toy), lines))
        translate_file(translator, source, target, provenance={}, alignments=alignments)
        return peak_bytes() / 1e6


if __name__ == "__main__":
    app.run(main)
