"""Draws what fine_tuning.sh has measured: python fine_tuning.py runs fine_tuning.svg."""

import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt

KINDS = {"alone": "new text alone", "mixed": "half old text", "lora": "new text alone, LoRA"}
SIZES = 500, 2000, 8000, 20000


def bleu(path: Path) -> float:
    """Returns what `t2t-decoder` printed."""
    return float(re.search(r"^BLEU[^=]* = ([0-9.]+) ", path.read_text(), re.MULTILINE)[1])


def main(runs: str, picture: str) -> None:
    """Draws BLEU of both domains over the size of the new text."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for axis, domain, title in zip(
        axes, ("new", "old"), ("LibreOffice help", "Tatoeba"), strict=True
    ):
        before = bleu(Path(runs, "old.mean", f"{domain}.score"))
        axis.axhline(before, color="grey", linestyle=":", label="before")
        for kind, label in KINDS.items():
            found = [bleu(Path(runs, f"{kind}{size}", f"{domain}.score")) for size in SIZES]
            axis.plot(SIZES, found, marker="o", label=label)
        axis.set(xscale="log", xlabel="pairs of the new text", ylabel="BLEU", title=title)
    axes[0].legend()
    figure.savefig(picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
