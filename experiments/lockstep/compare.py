"""Prints how far each side of a lockstep is from PyTorch's.

python compare.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(sys.argv[1])


def weights_of(side: str, number: int) -> dict[str, np.ndarray]:
    """Returns the weights of a side after an update."""
    with np.load(FOLDER / side / f"{number}.npz") as arrays:
        return dict(arrays)


print("| side | losses | losses of updates 1 to 100 | learning rates | weights, 100 | all |")
print("|---|---|---|---|---|---|")
for path in sorted(FOLDER.glob("*/losses.npy")):
    side = path.parent.name
    peer = "torch_float64" if side.endswith("_float64") else "torch"
    if side == peer:
        continue
    losses, rates = (np.load(FOLDER / side / f"{kind}.npy") / 1.0 for kind in ("losses", "rates"))
    peer_losses, peer_rates = (
        np.load(FOLDER / peer / f"{kind}.npy") for kind in ("losses", "rates")
    )
    count = min(len(losses), len(peer_losses))
    apart = np.abs(losses[:count] - peer_losses[:count])
    rate = np.abs(rates[:count] / peer_rates[:count] - 1).max()
    largest = {}
    for file in (FOLDER / side).glob("[0-9]*.npz"):
        number = int(file.stem)
        if number > count or not (FOLDER / peer / file.name).exists():
            continue
        ours, theirs = weights_of(side, number), weights_of(peer, number)
        largest[number] = max(np.abs(ours[name] - theirs[name]).max() for name in theirs)
    first = max(value for number, value in largest.items() if number <= 100)
    columns = [apart.max(), apart[:100].max(), rate, first, max(largest.values())]
    print(f"| {side} | {' | '.join(f'{value:.1e}' for value in columns)} |")
