"""Compares the speed of toolkits: all do the same work in turns.

    python benchmarks/peers/run.py --size=base --mode=decode32 --toolkits=t2t_keras,ctranslate2:int8

README.md lists the toolkits and their options. Makes each toolkit's environment in build/peers if
it is missing. Prints the result of every turn, then a table of medians.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from absl import app, flags

_MODES = ["train", "decode32", "decode1"]
_SIZE = flags.DEFINE_enum("size", "tiny", ["tiny", "base"], "Size of the model.")
_MODE = flags.DEFINE_enum("mode", "train", _MODES, "Training, or sentences decoded in a batch.")
_TOOLKITS = flags.DEFINE_list("toolkits", "t2t_keras,pytorch", "Toolkits, as name:option:option.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Number of rounds; the medians count.", 1)
_THREADS = flags.DEFINE_integer("threads", 2, "Threads of a toolkit.", 1)
_LIMIT = flags.DEFINE_integer("limit", 900, "Longest turn, in seconds.", 1)

_HERE = Path(__file__).resolve().parent
_FOLDER = _HERE.parents[1] / "build" / "peers"
_TORCH = "torch==2.13.0"
# Arguments of successive calls of `pip install`, by environment.
_REQUIREMENTS = {
    "torch": [f"{_TORCH} numpy sentencepiece transformers==5.23.0 ctranslate2==4.8.5"],
    "keras": ["tensorflow-cpu==2.21.0 keras==3.15.1 keras-hub==0.32.0 jax==0.10.2"],
    "opennmt_tf": ["OpenNMT-tf[tensorflow]==2.32.0"],
    # Later versions of pip refuse omegaconf 2.0, which fairseq needs.
    "fairseq": ["pip<24.1", f"{_TORCH} numpy<1.24 fairseq==0.12.2"],
    "joeynmt": [f"{_TORCH} joeynmt==2.3.0 importlib_metadata"],
    "marian": ["pymarian==1.12.42 numpy"],
}
_ENVIRONMENTS = dict(pytorch="torch", transformers="torch", ctranslate2="torch", keras_hub="keras")
_TRAIN_ONLY, _DECODE_ONLY = ("joeynmt", "keras_hub", "pytorch"), ("ctranslate2", "marian:int8")
_SETTINGS = {
    # glibc returns the memory of large tensors at once; keeping it made PyTorch 1.4 times as fast.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "2000000000",
    "MALLOC_TOP_PAD_": "67108864",
    # As this library sets it for itself.
    "TF_ENABLE_ONEDNN_OPTS": "1",
}


def main(_) -> None:
    """Runs the rounds and prints the table."""
    excluded = _DECODE_ONLY if _MODE.value == "train" else _TRAIN_ONLY
    results: dict[str, list[dict[str, float]]] = {}
    for toolkit in _TOOLKITS.value:
        name = toolkit.split(":")[0]
        if not (_HERE / f"with_{name}.py").exists():
            raise app.UsageError(f"There is no toolkit '{name}'. README.md lists them.")
        if name not in excluded and toolkit not in excluded:
            results[toolkit] = []
    for _ in range(_ROUNDS.value):
        for toolkit in [*results]:
            try:
                results[toolkit].append(_turn(toolkit))
                print(toolkit, json.dumps(results[toolkit][-1]), flush=True)
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                print(f"{toolkit} is left out: {error}", flush=True)
                del results[toolkit]
    print(f"\n{_SIZE.value}, {_MODE.value}, {_ROUNDS.value} rounds:\n")
    _print_table(results)


def _print_table(results: dict[str, list[dict[str, float]]]) -> None:
    print("| toolkit | tokens/s | from | to | of the fastest | GFLOP/s | warm-up, s |")
    print("|---|---|---|---|---|---|---|")
    speeds = {name: [turn["tokens_per_s"] for turn in turns] for name, turns in results.items()}
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    for name in sorted(medians, key=medians.__getitem__, reverse=True):
        columns = [
            f"{speed:,.0f}" for speed in (medians[name], min(speeds[name]), max(speeds[name]))
        ]
        columns.append(f"{medians[name] / max(medians.values()):.2f}")
        for fact in ("gflops", "warm_up_s"):
            columns.append(f"{statistics.median(turn.get(fact, 0) for turn in results[name]):.0f}")
        print(f"| {name} | {' | '.join(columns)} |")


def _turn(toolkit: str) -> dict[str, float]:
    """Returns the result that a toolkit's script prints last."""
    name, *options = toolkit.split(":")
    script = [_python(name), _HERE / f"with_{name}.py", _SIZE.value, _MODE.value]
    command = [*script, *(f"--{option}" for option in options)]
    threads = dict.fromkeys(["OMP_NUM_THREADS", "MKL_NUM_THREADS"], str(_THREADS.value))
    settings = dict(env=os.environ | _SETTINGS | threads, timeout=_LIMIT.value, text=True)
    process = subprocess.run(command, check=False, capture_output=True, **settings)
    if process.returncode:
        raise RuntimeError(process.stderr.strip().rpartition("\n")[2])
    return json.loads(process.stdout.strip().rpartition("\n")[2])


def _python(toolkit: str) -> str | Path:
    """Returns the Python of a toolkit's environment; makes the environment if it is missing."""
    if toolkit == "t2t_keras":
        return sys.executable
    name = _ENVIRONMENTS.get(toolkit, toolkit)
    python, is_installed = _FOLDER / name / "bin" / "python", _FOLDER / name / "installed"
    if not is_installed.exists():
        print(f"Installing {_FOLDER / name} ...", flush=True)
        subprocess.run(["python3.11", "-m", "venv", "--clear", _FOLDER / name], check=True)
        for requirements in _REQUIREMENTS[name]:
            install = [python, "-m", "pip", "install", "--quiet", *requirements.split()]
            subprocess.run(install, check=True)
        is_installed.touch()
    return python


if __name__ == "__main__":
    app.run(main)
