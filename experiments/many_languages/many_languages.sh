#!/usr/bin/env bash
# One model for EN-DE and EN-FR beside two, and FR-DE that no model has seen, on Multi30k.
#
#   experiments/many_languages/many_languages.sh DATA runs/many_languages
set -euo pipefail
data=$(realpath "$1") out=$2
mkdir -p "$out/text" && cd "$out"
for pair in en-de en-fr de-en fr-en fr-de; do
    for code in ${pair/-/ }; do
        for split in train:train val:dev test_2016_flickr:test; do
            ln -sf "$data/multi30k/${split%:*}.$code" "text/${split#*:}.$pair.$code"
        done
    done
done

train() { # train <name> <problem> <settings> <steps>
    local run=runs/$1
    [ -e "data/$1/$2/manifest.json" ] || t2t-datagen --problem="$2" --tmp_dir=text --data_dir="data/$1" \
        --problem_config="$3" --norecommend
    t2t-trainer --problem="$2" --data_dir="data/$1" --output_dir="$run" --problem_config="$3" \
        --hparams_set=transformer_cpu --hparams=$model --train_steps="$4" \
        --save_checkpoints_secs=20 --eval_secs=0
    [ -e "$run.mean/run.json" ] || t2t-avg-all --model_dir="$run" --output_dir="$run.mean" --n=5
}
model=num_layers=3,schedule=cosine,learning_rate=0.002,warmup_steps=300,compute_dtype=bfloat16
for target in de fr; do
    train en-$target parallel_text "source_language=en,target_language=$target,vocab_size=8000,\
train=train.en-$target,dev=dev.en-$target,test=test.en-$target" 3000
done
pairs() { local found; found=$(printf "+$1.%s" "${@:2}"); echo "${found#+}"; }
train two multilingual_text "target_language=de,vocab_size=12000,\
train=$(pairs train en-de en-fr),dev=$(pairs dev en-de en-fr)" 6000
# To translate from French at all, a model must have read it.
train four multilingual_text "target_language=de,vocab_size=12000,\
train=$(pairs train en-de en-fr de-en fr-en),dev=$(pairs dev en-de en-fr)" 4000

translate() { # translate <run> <source> <target> <tag>
    sed "s/^/$4/" "text/test.$2-$3.$2" >"$1.$2-$3.$2"
    t2t-decoder --output_dir="runs/$1.mean" --decode_from_file="$1.$2-$3.$2" \
        --decode_to_file="$1.$2-$3.$3" --decode_reference="text/test.$2-$3.$3"
}
for target in de fr; do
    translate en-$target en $target ""
    translate two en $target "<2$target> "
    translate four en $target "<2$target> "
    t2t-compare --reference="text/test.en-$target.$target" \
        --translations=en-$target.en-$target.$target,two.en-$target.$target,four.en-$target.$target
done
translate two fr de "<2de> "
translate four fr de "<2de> "
t2t-compare --reference=text/test.fr-de.de --translations=two.fr-de.de,four.fr-de.de
