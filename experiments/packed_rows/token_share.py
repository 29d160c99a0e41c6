"""Prints which share of a training step's positions are tokens, where shapes are fixed.

python token_share.py FOLDER...    # folders of generated data, as data/translate_ende_multi30k
"""

import sys
import time
import types
from pathlib import Path

from t2t_keras.data.batches import TokenBatchSampler
from t2t_keras.data.dataset import Generated, read_manifest

print("| data | batch_tokens | batching | microbatch | tokens | planning an epoch, s |")
print("|---|---|---|---|---|---|")
for folder in map(Path, sys.argv[1:]):
    lengths = Generated(None, folder, read_manifest(folder)).open_examples("train").lengths
    for batch_tokens in (4096, 25_000):
        for batching in ("rows", "length"):
            start = time.perf_counter()
            sampler = TokenBatchSampler(lengths, batch_tokens, 256, seed=1, batching=batching)
            sampler.epoch(1)
            seconds = time.perf_counter() - start
            step = types.SimpleNamespace(num_replicas=1, fixed_shapes=True, packs_rows=True)
            rows = sampler.rows_for(step, batch_tokens if batching == "rows" else 4 * batch_tokens)
            share = sampler.token_share(rows, 1)
            columns = [batching, f"{rows.count} x {rows.length}", f"{share:.1%}", f"{seconds:.1f}"]
            print(f"| {folder.name} | {batch_tokens:,} | {' | '.join(columns)} |", flush=True)
