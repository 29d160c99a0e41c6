#!/usr/bin/env bash
# Models of messages of free software: with protected placeholders (base), the same one trained further
# with hints (soft), and one with neither (plain): then terms that no hint ever had, kept by hints, by
# force, or not at all.
# The models are also those of experiments/documents. Some hours on two cores.
#
#   experiments/terms/terms.sh DATA runs/localisation
#
# STEPS of 3,072 tokens, MORE of them for soft, FLAGS of t2t-trainer. ONLY=data makes the data and
# stops, and then ONLY=base, ONLY=soft and ONLY=plain one model each, so that two of them can be trained
# at the same time; soft needs base.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
data=$(realpath "$1") out=$2
mkdir -p "$out/text" && cd "$out"
for code in en de; do
    ln -sf "$data/localisation/train.en-de.$code" text/train.$code
    ln -sf "$data/localisation/dev.en-de.$code" text/all.$code
    head -1000 text/all.$code >text/dev.$code
done
config="source_language=en,target_language=de"
soft="$config,transforms=[placeholders, terms],vocab_size=8000"
vocabulary=vocab_file=soft_data/parallel_text/vocab.model
base=$config,transforms=placeholders,$vocabulary plain=$config,$vocabulary
datagen="t2t-datagen --problem=parallel_text --tmp_dir=text --norecommend"
if ! [ -d test ]; then
    $datagen --data_dir=soft_data --problem_config="$soft"
    $datagen --data_dir=base_data --problem_config=$base
    $datagen --data_dir=plain_data --problem_config=$plain
    python "$here/held_out.py" choose --data=soft_data/parallel_text --text=text/all \
        --languages=en,de --output=test
fi
train() { # train <name> <settings> <hyperparameters> <flags>...
    t2t-trainer --problem=parallel_text --data_dir="$1_data" --output_dir="$1" \
        --problem_config="$2" --hparams_set=transformer_small --hparams=$model,$3 \
        --save_checkpoints_secs=60 --eval_secs=0 ${FLAGS:-} "${@:4}"
    [ -e "$1.mean/run.json" ] || t2t-avg-all --model_dir="$1" --output_dir="$1.mean" --n=5
    [ -e "$1.int8/t2t_keras.json" ] || t2t-exporter --output_dir="$1.mean" --export_dir="$1.int8" \
        --format=ctranslate2 --dtype=int8
}
model=batch_tokens=3072,num_layers=3,schedule=cosine,compute_dtype=bfloat16
new="learning_rate=0.0016,warmup_steps=400 --train_steps=${STEPS:-3000}"
further="learning_rate=0.001,warmup_steps=100 --train_steps=${MORE:-1600} --warm_start_from=base.mean"
wanted() { [ "${ONLY:-$1}" = "$1" ]; }
if wanted base; then train base $base $new; fi
if wanted soft; then train soft "$soft,augment={terms: 0.5}" $further; fi
if wanted plain; then train plain $plain $new; fi
[ -z "${ONLY:-}" ] || exit 0
decode() { # decode <run> <name> <flags>...
    rm -f "$2.de"
    t2t-decoder --output_dir="$1.mean" --decode_from_file=test/source.txt \
        --decode_to_file="$2.de" "${@:3}"
}
decode base base.none
decode base base.hard --glossary=test/glossary.tsv
decode soft soft.none
decode soft soft.soft --glossary=test/glossary.tsv
decode soft soft.hard --glossary=test/glossary.tsv --decode_hparams=terms=hard
systems=(base.none base.hard soft.none soft.soft soft.hard)
python "$here/held_out.py" count --test=test "${systems[@]/%/.de}" test/reference.txt
for first in base.none soft.none; do
    t2t-compare --reference=test/reference.txt --source=test/source.txt \
        --translations="$first.de,$(IFS=,; echo "${systems[*]/%/.de}" | sed "s/$first.de,//")"
done
