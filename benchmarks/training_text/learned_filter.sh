#!/usr/bin/env bash
# Two small models, one of each direction and trained alike on Tatoeba and half of Europarl, look
# for shuffled lines in the other half. docs/translated_text.md has the figures.
#
#   benchmarks/training_text/learned_filter.sh ../shared/data runs/learned_filter
set -euo pipefail
here=$(realpath "$(dirname "$0")") data=$(realpath "$1") out=$2
mkdir -p "$out/text" && cd "$out"
for code in en de; do
    ln -sf "$data/tatoeba/train.en-de.$code" text/tatoeba.$code
    head -10000 "$data/europarl/europarl20k.en-de.$code" >text/europarl.$code
    tail -10000 "$data/europarl/europarl20k.en-de.$code" >text/noisy.$code
    cp "$data/tatoeba/dev.en-de.$code" text/dev.$code
done

train() { # train <source> <target> <vocabulary>
    local name=$1-$2 config="source_language=$1,target_language=$2,train=tatoeba+europarl,$3"
    [ -e "data/$name/parallel_text/manifest.json" ] || t2t-datagen --problem=parallel_text --tmp_dir=text \
        --data_dir="data/$name" --problem_config="$config" --norecommend
    t2t-trainer --problem=parallel_text --data_dir="data/$name" --output_dir="runs/$name" \
        --problem_config="$config,mix=tatoeba:0.5+europarl:0.5" --hparams_set=transformer_cpu \
        --hparams=$model --train_steps=2500 --save_checkpoints_secs=20 --eval_secs=0
    [ -e "runs/$name.mean/run.json" ] || t2t-avg-all --model_dir="runs/$name" \
        --output_dir="runs/$name.mean" --n=5
}
model=schedule=cosine,learning_rate=0.002,warmup_steps=300,compute_dtype=bfloat16
train en de vocab_size=8000
train de en vocab_file=data/en-de/parallel_text/vocab.model
python "$here/learned_filter.py" --text=text/noisy --folder=filtered \
    --forward=runs/en-de.mean --backward=runs/de-en.mean
