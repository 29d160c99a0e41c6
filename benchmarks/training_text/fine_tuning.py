"""Draws what fine_tuning.sh has measured: python fine_tuning.py scores.tsv fine_tuning.svg."""

import csv
import sys
from pathlib import Path

import matplotlib.pyplot as plt

KINDS = {"alone": "new text alone", "mixed": "half old text", "lora": "new text alone, LoRA"}


def main(scores: str, picture: str) -> None:
    """Draws BLEU of both domains over the size of the new text."""
    with Path(scores).open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    before = {domain: float(score) for kind, _, domain, score in rows if kind == "none"}
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for axis, domain, title in zip(
        axes, ("new", "old"), ("LibreOffice help", "Tatoeba"), strict=True
    ):
        axis.axhline(before[domain], color="grey", linestyle=":", label="before")
        for kind, label in KINDS.items():
            found = [
                (int(size), float(score)) for k, size, d, score in rows if (k, d) == (kind, domain)
            ]
            axis.plot(*zip(*sorted(found), strict=True), marker="o", label=label)
        axis.set(xscale="log", xlabel="pairs of the new text", ylabel="BLEU", title=title)
    axes[0].legend()
    figure.savefig(picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
