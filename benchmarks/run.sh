#!/usr/bin/env bash
# Measures speed and memory. Leaves out mutation.py, which is make mutate, gpu.py, which needs a GPU,
# and step_profile.py, which needs flags. TEXT is a folder of text (see datagen_scale.py), PEERS are
# the toolkits to compare with (see peers/README.md), and ROUNDS is the number of their turns.
set -euo pipefail
cd "$(dirname "$0")/.."

python benchmarks/peak_memory.py
scale=$(mktemp -d)
trap 'rm -rf "$scale"' EXIT
python experiments/data_speed/datagen_scale.py --text="${TEXT:-../shared/data}" \
    --pairs=1500000,4500000 --folder="$scale"
python benchmarks/peak_memory.py --lines=2000,20000,200000

peers=pytorch,transformers,fairseq,joeynmt,opennmt_tf,keras_hub,keras_hub:xla
peers=${PEERS:-$peers,ctranslate2,ctranslate2:int8,marian,marian:int8}
compare() { # compare <size> <mode> <toolkits>...: each takes its turn
    local toolkits=$(IFS=,; echo "$peers,${*:3}")
    python benchmarks/peers/run.py --size="$1" --mode="$2" --rounds="${ROUNDS:-3}" \
        --toolkits="$toolkits"
}
ours=t2t_keras
compare tiny train $ours $ours:xla $ours:bfloat16 $ours:replicas=2 $ours:replicas=2:bfloat16
compare base train $ours $ours:xla $ours:bfloat16
compare base decode32 $ours $ours:xla $ours:at_once=2 $ours:at_once=2:bfloat16 $ours:int8 \
    $ours:at_once=2:int8
compare base decode1 $ours $ours:xla $ours:bfloat16 $ours:int8
