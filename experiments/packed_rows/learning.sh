#!/usr/bin/env bash
# learning.sh DATA RUNS: trains with batches by length and by rows, three seeds each, one core for a
# run. DATA holds the data of translate_ende_multi30k. The same command continues what was stopped.
set -euo pipefail
data=$1 runs=$2
for seed in 1 2 3; do
  for batching in length rows; do
    t2t-trainer --problem=translate_ende_multi30k --data_dir="$data" \
      --output_dir="$runs/$batching$seed" --hparams_set=transformer_multi30k \
      --hparams="train_steps=1500,batching=$batching" --random_seed="$seed" \
      --local_eval_frequency=250 --eval_secs=0 --keep_checkpoint_max=1
  done
done
python - "$runs" <<'END'
import json, statistics, sys
from pathlib import Path

from t2t_keras.training.cost import read_costs

print("| batching | step | dev loss of seeds 1, 2, 3 | mean |")
print("|---|---|---|---|")
for batching in ("length", "rows"):
    folders = [Path(sys.argv[1], f"{batching}{seed}") for seed in (1, 2, 3)]
    runs = [[*map(json.loads, (folder / "evaluations.json").open())] for folder in folders]
    tokens = statistics.mean(max(read_costs(folder).items())[1].target_tokens for folder in folders)
    for points in zip(*runs, strict=True):
        step, losses = points[0]["step"], [point["loss"] for point in points]
        text = ", ".join(f"{loss:.3f}" for loss in losses)
        print(f"| {batching} | {step:,} | {text} | {statistics.mean(losses):.3f} |")
    print(f"{batching}: {tokens:,.0f} target tokens", file=sys.stderr)
END
