#!/usr/bin/env bash
# BPE-dropout on the first 10,000 pairs of Multi30k EN-DE, three seeds.
#
#   experiments/subword_sampling/subword_sampling.sh DATA runs/subword_sampling
#
# STEPS of 1,024 tokens, SEEDS.
set -euo pipefail
data=$(realpath "$1") out=$2
mkdir -p "$out/text" && cd "$out"
for code in en de; do
    head -10000 "$data/multi30k/train.$code" >text/train.$code
    cp "$data/multi30k/val.$code" text/dev.$code
    cp "$data/multi30k/test_2016_flickr.$code" text/test.$code
done
config="source_language=en,target_language=de,vocab_size=4000"
model=num_layers=2,dropout=0.3,schedule=cosine,learning_rate=0.002,warmup_steps=300,compute_dtype=bfloat16
[ -e data/parallel_text/manifest.json ] || t2t-datagen --problem=parallel_text --tmp_dir=text --data_dir=data \
    --problem_config=$config --norecommend
for seed in ${SEEDS:-1 2 3}; do
    for share in 0 0.1; do
        run=runs/seed$seed.sampling$share
        t2t-trainer --problem=parallel_text --data_dir=data --output_dir=$run --random_seed=$seed \
            --problem_config=$config --hparams_set=transformer_cpu --train_steps=${STEPS:-3000} \
            --hparams=$model,subword_sampling=$share --save_checkpoints_secs=15 \
            --eval_secs=0
        [ -e $run.mean/run.json ] || t2t-avg-all --model_dir=$run --output_dir=$run.mean --n=5
        t2t-decoder --output_dir=$run.mean --eval_use_test_set --disturb=typos | tee $run.scores
    done
    t2t-compare --runs=runs/seed$seed.sampling0.mean,runs/seed$seed.sampling0.1.mean --split=test
    typos=decodes/parallel_text.test.beam4.alpha0.6.decodes.typos
    t2t-compare --reference=runs/seed$seed.sampling0.mean/$typos.reference --names=without,with \
        --translations="$(printf ",runs/seed$seed.sampling%s.mean/$typos" 0 0.1 | cut -c2-)"
done
