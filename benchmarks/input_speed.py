"""Tokens a second that the input pipeline delivers with nothing behind it.

    python benchmarks/input_speed.py --data=data/translate_ende --seconds=20 --replicas=8

The data is what t2t-datagen has made. Batches are planned, split over the replicas, read and padded
as the training loop has it done, in one thread.
"""

import time
from pathlib import Path

from absl import app, flags

from t2t_keras.data.batches import TokenBatchSampler, make_batch, split_batch
from t2t_keras.data.dataset import Generated, read_manifest
from t2t_keras.data.problem import Problem

_DATA = flags.DEFINE_string("data", None, "Directory that t2t-datagen wrote.", required=True)
_SECONDS = flags.DEFINE_float("seconds", 20, "How long to measure.")
_REPLICAS = flags.DEFINE_integer("replicas", 8, "Replicas that a step is split over.")
_BATCH_TOKENS = flags.DEFINE_integer("batch_tokens", 25_000, "Tokens a side of a step.")
_MICROBATCH_TOKENS = flags.DEFINE_integer("microbatch_tokens", 4096, "Of a replica at once.")


def main(_) -> None:
    """Reads steps for a while, and says how many tokens came."""
    directory = Path(_DATA.value)
    store = Generated(Problem(), directory, read_manifest(directory)).store("train")
    batches = TokenBatchSampler(store.lengths, _BATCH_TOKENS.value, max_length=256, seed=1)
    started = time.perf_counter()
    batches.at(0)
    planning = time.perf_counter() - started
    tokens = step = 0
    started, busy = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < _SECONDS.value:
        parts = split_batch(
            store.lengths, batches.at(step), _MICROBATCH_TOKENS.value, _REPLICAS.value
        )
        for part in parts:
            for arrays in (make_batch(store, each) for each in part):
                tokens += int((arrays.source != 0).sum()) + arrays.target_tokens
        step += 1
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    print(f"{len(store):,} pairs; an epoch is planned in {planning:.1f} s")
    print(
        f"{tokens / seconds:,.0f} source and target tokens/s in {step:,} steps; "
        f"{tokens / busy:,.0f} for each second of processor time"
    )


if __name__ == "__main__":
    app.run(main)
