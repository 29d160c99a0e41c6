"""Marian, from its wheel, on the CPU: training and decoding. Option: int8, in decoding.

Marian computes a batch on one core, so each core gets a part of it.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pymarian
import workload

args = workload.arguments("int8")
size, cores = args.size, 1 if args.mode == "decode1" else workload.THREADS
_TRAIN = (
    "train --type transformer --vocabs words words --train-sets source target --no-reload --seed 1"
    f" --enc-depth {size.num_layers} --dec-depth {size.num_layers} --dim-emb {size.d_model}"
    f" --transformer-dim-ffn {size.d_ff} --transformer-heads {size.num_heads} --workspace 2048"
    f" --transformer-dropout {workload.DROPOUT} --label-smoothing {workload.LABEL_SMOOTHING}"
    f" --optimizer-params {workload.BETA_1} {workload.BETA_2} {workload.EPSILON} --clip-norm 0"
    f" --learn-rate {workload.LEARNING_RATE} --transformer-ffn-activation relu --disp-freq 1"
    f" --tied-embeddings-all --cpu-threads {cores} --sync-sgd --optimizer-delay {1 / cores}"
    " --overwrite --shuffle none --maxi-batch 1"
)


def _run(options: str) -> str:
    """Runs a command of Marian and returns its log."""
    command = [sys.executable, "-m", "pymarian", *options.split()]
    return subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True).stderr


def _lines(batch: np.ndarray) -> list[str]:
    return [" ".join(str(piece) for piece in ids if piece > workload.BOS) for ids in batch]


def _updates(source: np.ndarray, _, target: np.ndarray, count: int = workload.PASSES):
    """Yields seconds and mean loss of each update of new, random weights with one batch."""
    for side, batch in (("source", source), ("target", target)):
        Path(side).write_text("\n".join([*_lines(batch) * count, ""]))
    log = _run(f"{_TRAIN} --mini-batch {len(source)} --after {count}u").replace(",", "")
    for loss, tokens, speed in re.findall(r"Cost (\S+) \* (\d+) .* (\S+) words/s", log):
        yield int(tokens) / float(speed), float(loss)


folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)
words = ["</s>", "<unk>", *map(str, range(2, size.vocab_size))]
Path("words").write_text("\n".join([*words, ""]))
if args.mode == "train":
    workload.time_updates(size, _updates)
    sys.exit()
list(_updates(*np.full((3, cores, 1), workload.BOS + 1), count=1))
weights = dict(np.load("model.npz"))
weights["decoder_ff_logit_out_b"][0, 0] = -1e9  # No output ends by itself.
np.savez("model.npz", **weights)
_run(f"convert --from model.npz --to model.bin{' --gemm-type intgemm8' * args.int8}")
options = f"--models model.bin --vocabs words words --cpu-threads {cores}"
options += f" --mini-batch {int(args.mode.removeprefix('decode')) // cores} --quiet"
options += f" --beam-size {workload.BEAM_SIZE} --normalize {workload.ALPHA}"
translator = pymarian.Translator(options)


def _translate(source: np.ndarray) -> list[list[str]]:
    lengths = np.count_nonzero(source, 1)
    # Each part has a longest sentence; a factor of its length bounds the outputs.
    parts = [source[np.argsort(lengths)][core::cores] for core in range(cores)]
    bound = {"max-length-factor": (workload.OUTPUT_LENGTH - 0.5) / lengths.max()}
    outputs = translator.translate(_lines(np.concatenate(parts)), **bound)
    return [output.split() for output in outputs]


workload.time_decoding(args, _translate)
