"""Makes the tests' `fairseq` and `opennmt_tf`: small models that the toolkits trained and saved.

    python experiments/importing_models/train_with_toolkits.py

from the top of the checkout, with the toolkits that benchmarks/peers/run.py has installed. Each
model comes with the toolkit's answers, `answers.npz` (see comparing.py).
"""

import argparse
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FIXTURES = ROOT / "tests" / "interop" / "importers" / "fixtures"
PEERS = ROOT / "build" / "peers"
SAVE_AGAIN = """import sys
import opennmt
from opennmt.utils.checkpoint import Checkpoint
config = opennmt.config.load_config([sys.argv[1]])
model = opennmt.config.load_model(config["model_dir"])
model.initialize(config["data"])
trained = Checkpoint.from_config(config, model)
trained.restore()
model.create_variables()
Checkpoint(model, model_dir=sys.argv[2]).save(trained.last_saved_step)
"""
NOUNS = {"man": "Mann", "dog": "Hund", "boy": "Junge", "cook": "Koch", "horse": "Hengst"}
VERBS = {"sees": "sieht", "calls": "ruft", "finds": "findet", "likes": "mag"}
ENDS = {"today": "heute", "here": "hier", "at 5": "um 5", "at 30": "um 30"}


def write_text(folder: Path) -> None:
    """Writes sentences by the names that the comparisons look for."""
    pairs = [
        (
            f"The {noun} {verb} a {other} {end}.",
            f"Der {NOUNS[noun]} {VERBS[verb]} {ENDS[end]} einen {NOUNS[other]}.",
        )
        for noun, verb, other, end in itertools.product(NOUNS, VERBS, NOUNS, ENDS)
    ]
    random.Random(1).shuffle(pairs)
    folder.mkdir()
    for side, code in enumerate(("en", "de")):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        for name in ("train", "test_2016_flickr"):
            (folder / f"{name}.{code}").write_text(lines, encoding="utf-8")


def check(toolkit: str) -> None:
    """Trains small models with the comparison of a toolkit."""
    sizes = ["--width=16", "--layers=1", "--pieces=50", "--first_steps=300", "--steps=150"]
    text = [
        "--text=.",
        "--normalization=identity",
        "--lines=8",
        "--lines_with_logits=3",
    ]
    program = [sys.executable, HERE / f"from_{toolkit}.py", f"--work_dir={toolkit}"]
    subprocess.run([*program, "--only=shared,many", *sizes, *text], check=True)


def copy_fairseq() -> None:
    """Copies what fairseq made; the first model once more as older versions have saved it."""
    to = FIXTURES / "fairseq"
    for kind, number, data in (("shared", 0, "joined"), ("many", 5, "separate")):
        (to / kind).mkdir(parents=True)
        made = Path("fairseq") / f"model_{number}"
        shutil.copy(made / "checkpoint_last.pt", to / kind / "checkpoint.pt")
        shutil.copy(made / "answers.npz", to / kind)
        for code in ("en", "de"):
            shutil.copy(Path("fairseq") / data / f"dict.{code}.txt", to / kind)
    shutil.copy(Path("fairseq") / "spm.model", to)
    old = [to / "shared" / "checkpoint.pt", to / "shared" / "old.pt"]
    python = PEERS / "fairseq" / "bin" / "python"
    subprocess.run([python, HERE / "save_as_old_fairseq.py", *old], check=True)


def copy_opennmt_tf() -> None:
    """Copies what OpenNMT-tf made, without the optimizer's state."""
    to = FIXTURES / "opennmt_tf"
    for kind, number in (("shared", 0), ("many", 3)):
        made = Path("opennmt_tf") / f"model_{number}"
        python = PEERS / "opennmt_tf" / "bin" / "python"
        subprocess.run([python, "-c", SAVE_AGAIN, made / "data.yml", to / kind], check=True)
        shutil.copy(made / "trained" / "model_description.py", to / kind)
        shutil.copy(made / "answers.npz", to / kind)
        folder = f"{Path('opennmt_tf').resolve()}{os.sep}"
        config = (made / "data.yml").read_text(encoding="utf-8").replace(folder, "")
        data = yaml.safe_load(config)["data"]
        data = {name: value for name, value in data.items() if "train" not in name}
        (to / f"{kind}.yml").write_text(yaml.safe_dump({"data": data}), encoding="utf-8")
    for name in ("spm.model", "joint.vocab"):
        shutil.copy(Path("opennmt_tf") / name, to)
    shutil.copy(Path("opennmt_tf") / "lines.en", FIXTURES)


def main() -> None:
    """Makes all of them anew."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    os.environ["PYTHONPATH"] = str(ROOT)
    for name in ("fairseq", "opennmt_tf"):
        shutil.rmtree(FIXTURES / name, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_text(Path("multi30k"))
        check("fairseq")
        copy_fairseq()
        check("opennmt_tf")
        copy_opennmt_tf()


if __name__ == "__main__":
    main()
