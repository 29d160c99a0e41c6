#!/usr/bin/env bash
# Four machines with eight GPUs each: sbatch slurm.sh
# The working directory and what is named below must be on a file system that all of them see.
#SBATCH --job-name=t2t-trainer
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=16
#SBATCH --time=24:00:00
# SIGTERM to every task five minutes before the time is over: all save after the same step.
#SBATCH --signal=TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
set -uo pipefail

# Slurm says who the workers are; nothing else is needed. A task that ends with an error does not
# take the others with it: each says itself, in its log, which worker was the cause.
srun --kill-on-bad-exit=0 --label --cpus-per-task="$SLURM_CPUS_PER_TASK" \
    t2t-trainer --problem=translate_ende \
    --hparams_set=transformer_big --data_dir=data --output_dir=runs/ende_big
status=$?

# The highest status of all tasks. 2: something must be changed first. Others, as 75 (a worker was
# killed, stopped or missing), 143 (SIGTERM, as before the time is over) or 139 (a fault in a
# library), continue from the newest checkpoint; not for ever, should it never get further.
if [ "$status" -ne 0 ] && [ "$status" -ne 2 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 20 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
