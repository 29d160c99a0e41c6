#!/usr/bin/env bash
# ssh.sh HOST...: start one worker on each host over ssh; the first is the chief.
# All hosts have t2t-trainer in the same place as this one and share the working directory (NFS).
#   ./ssh.sh gpu01 gpu02 gpu03 gpu04
# Exits when all workers have, with the highest of their exit statuses. Ctrl-C or SIGTERM saves and
# stops all of them after the same step.
set -uo pipefail
[ $# -ge 2 ] || { echo "expected at least two hosts, got $#" >&2; exit 2; }

port=2222
trainer=$(command -v t2t-trainer) || { echo "t2t-trainer is not on the PATH." >&2; exit 2; }
list=""
for host in "$@"; do
    list+="${list:+, }\"$host:$port\""
done

mkdir -p logs
workers=()
index=0
for host in "$@"; do
    config="{\"cluster\": {\"worker\": [$list]}, \"task\": {\"type\": \"worker\", \"index\": $index}}"
    # shellcheck disable=SC2029 # The directory and the configuration are those of this machine.
    ssh "$host" "cd '$PWD' && echo \$\$ > logs/worker-$index.pid && export TF_CONFIG='$config' && \
        exec '$trainer' --problem=translate_ende --hparams_set=transformer_big \
        --data_dir=data --output_dir=runs/ende_big" > "logs/worker-$index.log" 2>&1 < /dev/null &
    workers+=($!)
    index=$((index + 1))
done
# All, since a worker that still waits for others to start cannot pass the signal on.
stop() {
    local index=0 host
    for host in "$@"; do
        ssh "$host" "kill -TERM \$(cat '$PWD/logs/worker-$index.pid')"
        index=$((index + 1))
    done
}
trap 'stop "$@"' INT TERM

status=0
for worker in "${workers[@]}"; do
    while :; do
        wait "$worker"
        ended=$?
        # A signal to this script interrupts the wait, not the worker.
        kill -0 "$worker" 2> /dev/null || break
    done
    [ "$ended" -le "$status" ] || status=$ended
done
tail -n 3 logs/worker-*.log
exit "$status"
