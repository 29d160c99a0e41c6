"""Does t2t-filter find pairs that do not belong together? See learned_filter.sh.

python experiments/learned_filter/learned_filter.py --text=text/noisy --folder=filtered
    --forward=runs/en-de --backward=runs/de-en

The German sides of 30 % of the lines, drawn at random, change places; as many pairs
are dropped, by the models of both directions and by each alone.
"""

import argparse
import random
from pathlib import Path

from t2t_keras.decoding.translator import Translator
from t2t_keras.lab.filtering import filter_pairs
from t2t_keras.text.files import read_text


def main() -> None:
    """Prints precision and recall."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("text", "folder", "forward", "backward"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--engine", default="keras")
    parser.add_argument("--share", type=float, default=0.3)
    flags = parser.parse_args()
    models = {
        name: Translator.from_run(getattr(flags, name), engine=flags.engine)
        for name in ("forward", "backward")
    }
    codes = models["forward"].problem.languages()
    sides = [read_text(Path(f"{flags.text}.{code}")) for code in codes]
    wrong = _shuffled(sides[1], flags.share)
    folder = Path(flags.folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"shuffled.{code}" for code in codes]
    for file, lines in zip(files, sides, strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for names in (("forward", "backward"), ("forward",), ("backward",)):
        judges = {name: models[name] for name in names}
        output = folder / f"by_{'_and_'.join(names)}"
        filter_pairs(*files, output, **judges, keep=1 - flags.share)
        kept = set(zip(*(read_text(Path(f"{output}.{code}")) for code in codes), strict=True))
        dropped = {n for n, pair in enumerate(zip(*sides, strict=True)) if pair not in kept}
        found = len(dropped & wrong)
        print(
            f"{' and '.join(names)}: {len(dropped):,} dropped, precision "
            f"{found / len(dropped):.3f}, recall {found / len(wrong):.3f}"
        )


def _shuffled(lines: list[str], share: float) -> set[int]:
    """Moves a share of the lines, in place, and returns which have another text now."""
    generator = random.Random(1)
    chosen = sorted(generator.sample(range(len(lines)), round(share * len(lines))))
    before, others = list(lines), chosen[:]
    generator.shuffle(others)
    for number, other in zip(chosen, others, strict=True):
        lines[number] = before[other]
    return {number for number in chosen if lines[number] != before[number]}


if __name__ == "__main__":
    main()
