"""Makes the tests' `marian_trained`: a small model that Marian itself trained, with its answers.

    python experiments/importing_models/train_marian.py

Needs `pymarian` in the environment that benchmarks/peers/run.py makes. Marian learns the pieces,
trains the model, translates 50 lines, greedily and with a beam of 4, and scores its translations.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from train_with_toolkits import FIXTURES, PEERS, write_text

_MODEL = (
    "--type transformer --enc-depth 2 --dec-depth 1 --dim-emb 32 --transformer-dim-ffn 48"
    " --transformer-heads 4 --transformer-ffn-activation relu --tied-embeddings-all"
    " --dim-vocabs 90 90 --seed 1"
)
_PIECES = "--normalization_rule_name=identity --hard_vocab_limit=false --minloglevel=2"
_TRAINING = "--after 300u --mini-batch 64 --learn-rate 0.004 --workspace 128 --overwrite"
_NUM_LINES = 50


def _marian(folder: Path, *options: str, text: str = "") -> str:
    """Runs a command of Marian in the folder, and returns what it prints."""
    command = [
        PEERS / "marian" / "bin" / "python",
        "-m",
        "pymarian",
        *options,
        "--cpu-threads",
        "1",
    ]
    process = subprocess.run(
        command, cwd=folder, input=text, capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise SystemExit(process.stderr)
    return process.stdout


def main() -> None:
    """Trains, translates and scores."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "text"
        write_text(folder)
        files = ["--train-sets", "train.en", "train.de"]
        vocabularies = ["--vocabs", "joint.spm", "joint.spm"]
        training = [*files, *vocabularies, *_MODEL.split(), *_TRAINING.split()]
        _marian(folder, "train", *training, "--sentencepiece-options", _PIECES)
        lines = (folder / "train.en").read_text(encoding="utf-8").splitlines()[:_NUM_LINES]
        answers: dict[str, list] = {"lines": lines}
        for name, size in (("greedy", "1"), ("beam", "4")):
            options = ["--models", "model.npz", *vocabularies, "--beam-size", size, "--quiet"]
            text = "".join(f"{line}\n" for line in lines)
            answers[name] = _marian(folder, "decode", *options, text=text).splitlines()
        (folder / "lines.en").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        greedy = "".join(f"{line}\n" for line in answers["greedy"])
        (folder / "lines.de").write_text(greedy, encoding="utf-8")
        pairs = ["--train-sets", "lines.en", "lines.de", "--quiet"]
        scores = _marian(folder, "score", "--model", "model.npz", *vocabularies, *pairs)
        answers["log_probs"] = [float(line) for line in scores.split()]
        fixture = FIXTURES / "marian_trained"
        shutil.rmtree(fixture, ignore_errors=True)
        fixture.mkdir()
        for name in ("model.npz", "model.npz.decoder.yml", "joint.spm"):
            shutil.copy(folder / name, fixture)
        content = json.dumps(answers, ensure_ascii=False, indent=1)
        (fixture / "answers.json").write_text(f"{content}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
