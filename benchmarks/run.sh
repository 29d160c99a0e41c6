#!/usr/bin/env bash
# Measures speed and memory. Not here: mutation.py, which is make mutate, and what needs flags of its
# own: step_profile.py, cold_start.py and server_load.py.
#
# TEXT is a folder of text (see datagen_scale.py).
# KIT is a folder with the kit that defines the work and runs other toolkits (its README says how to
# install them); PEERS are those to run, "all" for every one.
set -euo pipefail
cd "$(dirname "$0")/.."

kit=${KIT:-../shared/bench/peers}
[ -f "$kit/run.py" ] || echo "No kit in $kit: other toolkits are left out. KIT names its folder." >&2

python benchmarks/peak_memory.py
scale=$(mktemp -d)
trap 'rm -rf "$scale"' EXIT
python benchmarks/datagen_scale.py --text="${TEXT:-../shared/data}" --pairs=1500000,4500000 \
    --folder="$scale"
python benchmarks/peak_memory.py --lines=2000,20000,200000

[ -f "$kit/run.py" ] || exit 0
rounds=${ROUNDS:-3}
kit=$(cd "$kit" && pwd)
# oneDNN's matrix multiplication, as this package turns it on for itself, for every toolkit.
export TF_ENABLE_ONEDNN_OPTS=1
compare() { # compare <config> <mode> <options>...: each of the options takes its turn
    local command="$(command -v python) $PWD/benchmarks/peer_speed.py --kit=$kit"
    command+=" --config={config} --mode={mode}"
    local ours=() options
    for options in "${@:3}"; do
        ours+=(--ours "$command $options")
    done
    python "$kit/run.py" --config "$1" --mode "$2" --rounds "$rounds" --limit 900 \
        ${PEERS:+--peers "$PEERS"} "${ours[@]}"
}
compare tiny train "" --xla --compute_dtype=bfloat16 --cpu_replicas=2 \
    "--cpu_replicas=2 --compute_dtype=bfloat16"
compare base train "" --xla --compute_dtype=bfloat16
compare base decode32 "" --xla --batches_at_once=2 \
    "--batches_at_once=2 --compute_dtype=bfloat16" --export_dtype=int8 \
    "--batches_at_once=2 --export_dtype=int8"
compare base decode1 "" --xla --compute_dtype=bfloat16 --export_dtype=int8
