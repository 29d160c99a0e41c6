#!/usr/bin/env bash
# A file in a hundred parts, up to twenty at a time, with a GPU each: sbatch slurm_translate.sh
# The working directory must be on a file system that all machines share.
#SBATCH --job-name=t2t-decoder
#SBATCH --array=1-100%20
#SBATCH --ntasks=1
#SBATCH --gpus=1
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
# SIGTERM a minute before the time limit: the next start continues behind the last lines.
#SBATCH --signal=TERM@60
#SBATCH --requeue
#SBATCH --open-mode=append
set -uo pipefail

# As many as the array has. SLURM_ARRAY_TASK_COUNT would be less with sbatch --array=3,17, which
# starts some parts again.
parts=100
printf -v part 'news.de-%05d-of-%05d' "$SLURM_ARRAY_TASK_ID" "$parts"
if [ -e "$part" ]; then
    echo "$part is complete."
    exit 0
fi

srun --cpus-per-task="$SLURM_CPUS_PER_TASK" \
    t2t-decoder --output_dir=runs/averaged --decode_from_file=news.en --decode_to_file=news.de \
    --shard="$SLURM_ARRAY_TASK_ID/$parts"
status=$?

# 2: something must be changed first. All others continue, at most 20 times.
if [ "$status" -ne 0 ] && [ "$status" -ne 2 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 20 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
