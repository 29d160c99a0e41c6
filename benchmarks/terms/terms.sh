#!/usr/bin/env bash
# Terms that no training hint ever had, kept by hints, by force, or not at all: docs/terms.md.
#
#   benchmarks/terms/terms.sh ../shared/data runs/terms
#
# SET is the folder of text there, LINES its first training pairs, STEPS and HPARAMS_SET the training.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
data=$(realpath "$1") out=$2
mkdir -p "$out/text" && cd "$out"
for code in en de; do
    head -"${LINES_READ:-300000}" "$data/${SET:-localisation}/train.en-de.$code" >text/train.$code
    cp "$data/${SET:-localisation}/dev.en-de.$code" text/all.$code
    head -1000 text/all.$code >text/dev.$code
done
base="source_language=en,target_language=de"
datagen="t2t-datagen --problem=parallel_text --tmp_dir=text --norecommend"
if ! [ -d test ]; then
    $datagen --data_dir=soft_data --problem_config=$base,terms=true,vocab_size=${VOCAB_SIZE:-8000}
    $datagen --data_dir=base_data \
        --problem_config=$base,vocab_file=soft_data/parallel_text/vocab.model
    python "$here/held_out.py" choose --data=soft_data/parallel_text --text=text/all \
        --languages=en,de --output=test
fi
train="t2t-trainer --problem=parallel_text --hparams_set=${HPARAMS_SET:-transformer_multi30k}"
train+=" --train_steps=${STEPS:-8000} --save_checkpoints_secs=120 --keep_checkpoint_max=5"
$train --data_dir=base_data --output_dir=base \
    --problem_config=$base,vocab_file=soft_data/parallel_text/vocab.model ${HPARAMS:+--hparams=$HPARAMS}
$train --data_dir=soft_data --output_dir=soft \
    --problem_config=$base,terms=true,vocab_size=${VOCAB_SIZE:-8000},augment=terms:${SHARE:-0.3} \
    ${HPARAMS:+--hparams=$HPARAMS}
decode() { # decode <run> <name> <flags>...
    rm -f "$2.de"
    t2t-decoder --output_dir="$1" --decode_from_file=test/source.txt --decode_to_file="$2.de" "${@:3}"
}
decode base base.none
decode base base.hard --glossary=test/glossary.tsv
decode soft soft.none
decode soft soft.soft --glossary=test/glossary.tsv
decode soft soft.hard --glossary=test/glossary.tsv --decode_hparams=terms=hard
systems=(base.none base.hard soft.none soft.soft soft.hard)
python "$here/held_out.py" count --test=test "${systems[@]/%/.de}" test/reference.txt
t2t-compare --reference=test/reference.txt --source=test/source.txt \
    --translations="$(IFS=,; echo "${systems[*]/%/.de}")"
