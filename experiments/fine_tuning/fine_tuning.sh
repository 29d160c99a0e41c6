#!/usr/bin/env bash
# A model of Tatoeba and Europarl learns LibreOffice's help from 500 to 20,000 pairs: what it gains
# there and loses on Tatoeba; alone, with as much of the old text, and by LoRA. fine_tuning.py
# draws the figures.
#
#   experiments/fine_tuning/fine_tuning.sh DATA runs/fine_tuning
set -euo pipefail
here=$(realpath "$(dirname "$0")") data=$(realpath "$1") out=$2
mkdir -p "$out/text" && cd "$out"
for code in en de; do
    ln -sf "$data/tatoeba/train.en-de.$code" text/tatoeba.$code
    ln -sf "$data/europarl/europarl20k.en-de.$code" text/europarl.$code
    ln -sf "$data/tatoeba/dev.en-de.$code" text/dev.old.$code
    ln -sf "$data/libreoffice_help/dev.en-de.$code" text/dev.new.$code
    for size in 500 2000 8000 20000; do
        head -$size "$data/libreoffice_help/train.en-de.$code" >text/help$size.$code
    done
done

languages="source_language=en,target_language=de"
data_of() { # data_of <folder> <settings>
    [ -e "data/$1/parallel_text/manifest.json" ] || t2t-datagen --problem=parallel_text --tmp_dir=text --data_dir="data/$1" \
        --problem_config="$languages,$2" --norecommend
}
train() { # train <data> <run> <settings> <flags>...
    t2t-trainer --problem=parallel_text --data_dir="data/$1" --output_dir="runs/$2" \
        --problem_config="$languages,$3" --hparams_set=transformer_cpu --save_checkpoints_secs=30 \
        --eval_secs=0 "${@:4}"
}
model=schedule=cosine,compute_dtype=bfloat16
old="train=[tatoeba, europarl],dev=dev.old,vocab_size=8000"
data_of old "$old"
train old old "$old" --train_steps=6000 --hparams=$model,learning_rate=0.002,warmup_steps=300
[ -e runs/old.mean/run.json ] || t2t-avg-all --model_dir=runs/old --output_dir=runs/old.mean --n=5

score() { # score <run>
    for domain in old new; do
        [ -e "runs/$1/$domain.score" ] || t2t-decoder --output_dir="runs/$1" \
            --decode_from_file=text/dev.$domain.en --decode_to_file="runs/$1/$domain.de" \
            --decode_reference=text/dev.$domain.de >"runs/$1/$domain.score.part"
        [ -e "runs/$1/$domain.score" ] || mv "runs/$1/$domain.score.part" "runs/$1/$domain.score"
    done
}
score old.mean
for size in 500 2000 8000 20000; do
    # A pass over 2,000 pairs is about 61 steps: from some 20 passes over 500 to 2 over 20,000.
    steps=$((300 + size / 20))
    new="dev=dev.new,vocab_file=runs/old.mean/vocab.model"
    data_of help$size "train=help$size,$new"
    data_of both$size "train=[help$size, tatoeba, europarl],$new"
    start="--warm_start_from=runs/old.mean --train_steps=$steps"
    train help$size alone$size "train=help$size,$new" $start \
        --hparams=$model,learning_rate=0.001,warmup_steps=50
    score alone$size
    # Twice the steps: as many with the new text.
    train both$size mixed$size "train=[help$size, tatoeba, europarl],$new,\
mix={help$size: 0.5, tatoeba: 0.25, europarl: 0.25}" ${start/$steps/$((2 * steps))} \
        --hparams=$model,learning_rate=0.001,warmup_steps=50
    score mixed$size
    train help$size lora$size "train=help$size,$new" $start \
        --hparams=$model,learning_rate=0.004,warmup_steps=50,lora_rank=16
    score lora$size
done
for size in 500 2000 8000 20000; do
    for domain in new old; do
        t2t-compare --reference=text/dev.$domain.de --source=text/dev.$domain.en \
            --translations="runs/alone$size/$domain.de,runs/mixed$size/$domain.de,\
runs/lora$size/$domain.de,runs/old.mean/$domain.de"
    done
done
python "$here/fine_tuning.py" runs fine_tuning.svg
