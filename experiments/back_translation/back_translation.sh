#!/usr/bin/env bash
# Back-translation on Multi30k EN-DE: 10,000 pairs and 19,000 German sentences alone: none, plain
# and tagged.
#
#   experiments/back_translation/back_translation.sh DATA runs/back_translation
set -euo pipefail
data=$(realpath "$1") out=$2
mkdir -p "$out/text" && cd "$out"
for code in en de; do
    head -10000 "$data/multi30k/train.$code" >text/pairs.$code
    cp "$data/multi30k/val.$code" text/dev.$code
    cp "$data/multi30k/test_2016_flickr.$code" text/test.$code
done
tail -n +10001 "$data/multi30k/train.de" >text/bt.de

train() { # train <name> <settings> <flags>...
    local config="dev=dev,$2" run=runs/$1
    [ -e "data/$1/parallel_text/manifest.json" ] || t2t-datagen --problem=parallel_text --tmp_dir=text --data_dir="data/$1" \
        --problem_config="$config" --norecommend
    t2t-trainer --problem=parallel_text --data_dir="data/$1" --output_dir="$run" \
        --problem_config="$config" --hparams_set=transformer_cpu --hparams=$model \
        --save_checkpoints_secs=15 --eval_secs=0 "${@:3}"
    [ -e "$run.mean/run.json" ] || t2t-avg-all --model_dir="$run" --output_dir="$run.mean" --n=5
}
model=num_layers=2,dropout=0.3,schedule=cosine,learning_rate=0.002,warmup_steps=300,compute_dtype=bfloat16
there="source_language=en,target_language=de"
vocabulary="vocab_file=data/none/parallel_text/vocab.model"
train none "$there,train=pairs,vocab_size=4000,vocab_symbols=<BT>" --train_steps=3500
train backward "source_language=de,target_language=en,train=pairs,$vocabulary" --train_steps=2500
[ -e text/bt.en ] || t2t-decoder --output_dir=runs/backward.mean --decode_from_file=text/bt.de \
    --decode_to_file=text/bt.en --decode_hparams="${DECODING:-samples=1,top_k=10}"
train plain "$there,train=[pairs, bt],$vocabulary" --train_steps=3500
train tagged "$there,train=[pairs, bt],$vocabulary,source_tokens={bt: <BT>}" --train_steps=3500
t2t-compare --runs=runs/none.mean,runs/plain.mean,runs/tagged.mean --split=test
t2t-compare --runs=runs/plain.mean,runs/tagged.mean --split=test
