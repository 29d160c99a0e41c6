#!/usr/bin/env bash
# The main job from end to end on a CPU: data, training, score, average, export, serving.
# Every line below is a command that you can run on your own text as well.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=${1:-runs/demo}
problem=translate_ende_toy

# What an earlier demo has made is made again; anything else stays.
if [ ! -e "$runs/.demo" ] && [ -n "$(ls -A "$runs" 2>/dev/null)" ]; then
    echo "Expected an empty folder or that of a demo, got $runs. Remove it, or name another." >&2
    exit 2
fi
rm -rf "$runs"
mkdir -p "$runs"
touch "$runs/.demo"

say() { printf '\n== %s\n' "$*"; }

say "1. Data: an EN-DE grammar makes 80,000 sentence pairs; none of the test set is among them."
t2t-datagen --problem=$problem --data_dir="$runs/data" --num_workers=2 --norecommend

say "2. Training, a checkpoint every 15 seconds."
t2t-trainer --problem=$problem --data_dir="$runs/data" --output_dir="$runs/model" \
    --hparams_set=transformer_tiny --local_eval_frequency=300 --save_checkpoints_secs=15

say "3. The mean of the last checkpoints; the dev loss decides how many (section 6.1 of the paper)."
t2t-avg-all --model_dir="$runs/model" --output_dir="$runs/averaged"

say "4. The test set, translated with beam 4 and scored."
t2t-decoder --output_dir="$runs/averaged" --eval_use_test_set \
    --decode_to_file="$runs/test.translations.txt"

say "A dozen of its translations, each above its reference:"
paste -d '\n' <(head -12 "$runs/test.translations.txt") \
    <(head -12 "$runs/data/$problem/test.target.txt") | sed 'n;s/^/    /'

say "5. Export: a SavedModel that takes text and gives text."
t2t-exporter --output_dir="$runs/averaged" --export_dir="$runs/export"

say "6. A fresh process with TensorFlow and TensorFlow Text only translates a sentence."
# TensorFlow's own lines are shown only if it fails.
python examples/translate_with_savedmodel.py "$runs"/export/*/ \
    "The clever student buys two red books because she likes to read." 2>"$runs/serving.log" || {
    cat "$runs/serving.log" >&2
    exit 1
}
