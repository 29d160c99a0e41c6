#!/usr/bin/env bash
# Rows of Table 3 at the size of Multi30k: one run each, of equal steps and tokens, scored on the
# dev and test set. DATA holds what t2t-datagen made of translate_ende_multi30k; runs that are
# finished are not repeated, interrupted ones go on.
#
#   DATA=data RUNS=runs/ablations experiments/ablations/ablations.sh [row ...]
set -euo pipefail

data=${DATA:-data}
runs=${RUNS:-runs/ablations}
steps=${STEPS:-2000}

# What each row changes. Attention over parameters keeps the number of weights, but for biases:
# 4 heads of 128 pairs and two projections have as many as d_ff 256. Dropout is that of the paper's
# base, not of the set: what more of it helps shows only in many more steps.
declare -A change=(
    [base]="dropout=0.1"
    [h1]="dropout=0.1,num_heads=1"
    [dr0]="dropout=0"
    [ls0]="dropout=0.1,label_smoothing=0"
    [l2]="dropout=0.1,num_layers=2"
    [learned_positions]="dropout=0.1,positions=learned"
    [parameter_attention]="dropout=0.1,d_ff=128,feed_forward=parameter_attention,parameter_attention_heads=4"
    [pre_norm]="dropout=0.1,pre_norm=true"
)
rows=(base h1 dr0 ls0 l2 learned_positions parameter_attention pre_norm)
[ $# -eq 0 ] || rows=("$@")

for row in "${rows[@]}"; do
    run=$runs/$row
    [ ! -e "$run/scored" ] || continue
    t2t-trainer --problem=translate_ende_multi30k --data_dir="$data" --output_dir="$run" \
        --hparams_set=transformer_multi30k --hparams="${change[$row]}" \
        --train_steps="$steps" --local_eval_frequency=500
    for split in "" --eval_use_test_set; do
        t2t-decoder --output_dir="$run" $split --results_file="$runs/results.jsonl"
    done
    touch "$run/scored"
done
