#!/usr/bin/env bash
# Two small models, one of each direction, look for shuffled lines of Europarl: those of the recipe of
# student.sh, which have also read the other half of it.
#
#   experiments/learned_filter/learned_filter.sh DATA runs/learned_filter runs/student
set -euo pipefail
here=$(realpath "$(dirname "$0")") data=$(realpath "$1") out=$2 recipe=$(realpath "$3")/work
mkdir -p "$out/text" && cd "$out"
for code in en de; do
    for corpus in tatoeba libreoffice_help debian_descriptions localisation; do
        ln -sf "$recipe/text/$corpus.$code" text/
    done
    head -10000 "$data/europarl/europarl20k.en-de.$code" >text/europarl.$code
    tail -10000 "$data/europarl/europarl20k.en-de.$code" >text/noisy.$code
    cp "$data/tatoeba/dev.en-de.$code" text/dev.$code
done

train() { # train <source> <target> <first> <steps>
    local name=$1-$2 config="source_language=$1,target_language=$2,vocab_file=$vocabulary,\
train=[tatoeba, libreoffice_help, debian_descriptions, localisation, europarl]"
    [ -e "data/$name/parallel_text/manifest.json" ] || t2t-datagen --problem=parallel_text \
        --tmp_dir=text --data_dir="data/$name" --problem_config="$config" --norecommend
    t2t-trainer --problem=parallel_text --data_dir="data/$name" --output_dir="runs/$name" \
        --problem_config="$config,mix={tatoeba: 0.3, libreoffice_help: 0.1, \
debian_descriptions: 0.1, localisation: 0.2, europarl: 0.3}" --warm_start_from="$recipe/models/$3" --hparams_set=auto \
        --hparams=$model --train_steps="$4" --save_checkpoints_secs=40 --eval_secs=0 \
        --cpu_replicas=1
    [ -e "runs/$name.mean/run.json" ] || t2t-avg-all --model_dir="runs/$name" \
        --output_dir="runs/$name.mean" --n=5
}
vocabulary=$recipe/data/forward/parallel_text/vocab.model
model=schedule=cosine,learning_rate=0.001,warmup_steps=100
# The recipe's backward model has a quarter of the steps of its teacher.
train en de teacher1 800
train de en backward 1600
python "$here/learned_filter.py" --text=text/noisy --folder=filtered \
    --forward=runs/en-de.mean --backward=runs/de-en.mean
