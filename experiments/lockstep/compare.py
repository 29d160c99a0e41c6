"""Prints how far each side of a lockstep is from PyTorch's.

python compare.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(sys.argv[1])

print("| side | updates | a loss, at most | a weight after the last, at most | on average |")
print("|---|---|---|---|---|")
for path in sorted(FOLDER.glob("*/losses.npy")):
    side = path.parent
    if side.name == "torch":
        continue
    losses = np.load(path)
    losses = np.abs(losses - np.load(FOLDER / "torch" / path.name)[: len(losses)])
    for updates in (1, 10, 100, 200, 1000):
        if updates > len(losses):
            break
        ours, theirs = (np.load(folder / f"{updates}.npz") for folder in (side, FOLDER / "torch"))
        apart = [np.abs(ours[name] - theirs[name]) for name in theirs]
        weights = max(array.max() for array in apart), np.mean([array.mean() for array in apart])
        columns = [f"{value:.1e}" for value in (losses[:updates].max(), *weights)]
        print(f"| {side.name} | {updates:,} | {' | '.join(columns)} |")
    rates, peer_rates = (np.load(folder / "rates.npy") for folder in (side, FOLDER / "torch"))
    print(f"learning rates: {np.abs(rates / peer_rates[: len(rates)] - 1).max():.1e}, relative")
