"""Does the recipe go on where it was? A small one with all steps, killed again and again.

    python benchmarks/training_text/recipe_kills.py --folder=runs/recipe_kills [--kills=10]

It is run once without a stop, and once killed by kill -9, all its programs at once, each time after
5 to 60 seconds, and started again. Then all texts, scores, ids and exported weights must be the
same, byte for byte. Some 15 minutes on two cores.
"""

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import yaml

from t2t_keras import registry

_MODEL = {
    "hparams_set": "transformer_cpu",
    "hparams": "num_layers=1,d_model=64,d_ff=128,batch_tokens=1024,compute_dtype=float32",
    "train_steps": 400,
}
_CONFIG = {
    "source_language": "en",
    "target_language": "de",
    "corpora": {"toy": "text/train"},
    "noisy": {"web": ["text/web", 0.8]},
    "monolingual": {"news": "text/news"},
    "back_translation": {"decode_hparams": "beam_size=2"},  # Samples would be drawn anew.
    "dev": {"toy": "text/dev"},
    "vocab_size": 400,
    "backward": _MODEL,
    "teachers": _MODEL,
    "student": _MODEL,
    "average": 1,  # Which checkpoints come before the last is a matter of time.
    "save_checkpoints_secs": 5,
    "trainer_flags": "--cpu_replicas=1",
}
_MADE = (
    *("text/*.en", "text/*.de", "text/*.scores", "translated/*"),
    *("data/*/*/*.npy", "data/*/*/*.model", "exports/*/model.bin"),
)


def main() -> None:
    """Runs both, and compares them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--kills", type=int, default=10)
    flags = parser.parse_args()
    whole, killed = (_prepared(flags.folder / name) for name in ("whole", "killed"))
    subprocess.run(_command(whole), check=True)
    seconds, count = random.Random(1), 0
    for _ in range(flags.kills):
        with subprocess.Popen(_command(killed), start_new_session=True) as process:
            try:
                process.wait(timeout=seconds.uniform(5, 60))
                break
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                count += 1
    subprocess.run(_command(killed), check=True)
    made = [_made(folder / "work") for folder in (whole, killed)]
    different = sorted(name for name in made[0] | made[1] if made[0].get(name) != made[1].get(name))
    print(f"{count} kills, {len(made[0])} files, {len(different)} of them different: {different}")
    sys.exit(bool(different))


def _command(folder: Path) -> list[str]:
    return ["t2t-recipe", "student", str(folder / "config.yaml")]


def _prepared(folder: Path) -> Path:
    (folder / "text").mkdir(parents=True, exist_ok=True)
    problem = registry.problem("translate_ende_toy")
    pairs = list(itertools.islice(problem.examples("train"), 4_700))
    texts = dict(train=pairs[:3_000], web=pairs[3_000:4_000], news=pairs[4_000:4_500])
    for name, some in (texts | {"dev": pairs[4_500:]}).items():
        for code, side in zip(("en", "de"), zip(*some, strict=True), strict=True):
            path = folder / "text" / f"{name}.{code}"
            path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    (folder / "config.yaml").write_text(yaml.safe_dump(_CONFIG), encoding="utf-8")
    return folder


def _made(folder: Path) -> dict[str, bytes]:
    files = [file for pattern in _MADE for file in folder.glob(pattern)]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


if __name__ == "__main__":
    main()
