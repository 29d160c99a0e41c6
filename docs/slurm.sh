#!/usr/bin/env bash
# Four machines with eight GPUs each: sbatch slurm.sh
# The working directory and the folders below must be on a file system that all machines share.
#SBATCH --job-name=t2t-trainer
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=16
#SBATCH --time=24:00:00
# SIGTERM to every task five minutes before the time limit: all save after the same step.
#SBATCH --signal=TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
set -uo pipefail

# Slurm's variables name the workers. The tasks end each other when one fails, and each says in its
# log which one it was, so Slurm must not kill them first.
srun --kill-on-bad-exit=0 --label --cpus-per-task="$SLURM_CPUS_PER_TASK" \
    t2t-trainer --problem=translate_ende \
    --hparams_set=transformer_big --data_dir=data --output_dir=runs/ende_big
status=$?

# The highest status of all tasks. 2: something must be changed first. Others, such as 75 (a worker
# was lost or did not start), 143 (SIGTERM) or 139 (a crash in a library), continue from the newest
# checkpoint; at most 20 times, in case the run makes no progress.
if [ "$status" -ne 0 ] && [ "$status" -ne 2 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 20 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
