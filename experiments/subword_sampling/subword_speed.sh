#!/usr/bin/env bash
# Tokens a second with and without drawn subwords, in turns.
#
#   experiments/subword_sampling/subword_speed.sh runs/subword_sampling
#
# The folder is that of subword_sampling.sh. ROUNDS of 400 steps; the first 100 compile.
set -euo pipefail
cd "$1"
config="source_language=en,target_language=de,vocab_size=4000"
model=num_layers=2,dropout=0.3,schedule=cosine,learning_rate=0.002,warmup_steps=300,compute_dtype=bfloat16
[ -e unigram/parallel_text/manifest.json ] || t2t-datagen --problem=parallel_text --tmp_dir=text \
    --data_dir=unigram --problem_config=$config,vocab_kind=unigram --norecommend
for _ in $(seq "${ROUNDS:-3}"); do
    for way in data:0 data:0.1 unigram:0 unigram:0.1 unigram:0.1,subword_nbest=64; do
        data=${way%%:*} kind=bpe
        [ "$data" = data ] || kind=unigram
        rm -rf runs/speed
        t2t-trainer --problem=parallel_text --data_dir="$data" --output_dir=runs/speed \
            --problem_config=$config,vocab_kind=$kind --hparams_set=transformer_cpu \
            --train_steps=400 --hparams="$model,subword_sampling=${way#*:}" --schedule=train |
            sed -n "s/^step \([2-4]00\).*  \(.*tok.s\).*/$kind ${way#*:}: step \1, \2/p"
    done
done
