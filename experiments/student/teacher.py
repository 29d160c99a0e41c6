"""Trains the teacher of student.yaml on one GPU with JAX, without TensorFlow, and averages it.

    python experiments/student/teacher.py --data_dir=work/data/teacher --output_dir=teacher
        [--steps=10300]

Prints seconds and the loss on the dev set over time, also as JSON, to OUTPUT_DIR.json; the mean of
the last five checkpoints is in OUTPUT_DIR.mean. The last line shows the command that measures BLEU.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from absl import app, flags

from t2t_keras.data.dataset import read_manifest
from t2t_keras.environment import installed_versions
from t2t_keras.settings import as_assignments

_DATA = flags.DEFINE_string("data_dir", None, "Data of the recipe's teacher.", required=True)
_RUN = flags.DEFINE_string("output_dir", "teacher", "Directory of the run.")
_STEPS = flags.DEFINE_integer("steps", 0, "Steps; 0 = as in student.yaml.")
_PROBLEM = "parallel_text"


def main(_) -> None:
    """Trains, averages the last checkpoints, and prints the losses."""
    config = yaml.safe_load(Path(__file__).with_name("student.yaml").read_text("utf-8"))
    made_with, run = read_manifest(Path(_DATA.value) / _PROBLEM)["config"], _RUN.value
    teacher, start = config["teachers"], time.perf_counter()
    steps = _STEPS.value or teacher["train_steps"]
    _run(
        "t2t_trainer",
        problem=_PROBLEM,
        problem_config=as_assignments(made_with),
        data_dir=_DATA.value,
        output_dir=run,
        hparams_set=teacher["hparams_set"],
        hparams=as_assignments(teacher["hparams"]),
        train_steps=steps,
        local_eval_frequency=max(steps // 10, 1),
        eval_secs=0,
        save_checkpoints_secs=config["save_checkpoints_secs"],
        keep_checkpoint_max=5,
    )
    seconds = time.perf_counter() - start
    _run("t2t_avg_all", model_dir=run, output_dir=f"{run}.mean", n=5)
    lines = Path(run, "eval", "scalars.jsonl").read_text("utf-8").splitlines()
    evaluations = [json.loads(line) for line in lines]
    report = dict(seconds=seconds, steps=steps, evaluations=evaluations)
    content = json.dumps(report | dict(versions=installed_versions()), indent=1)
    Path(f"{run}.json").write_text(f"{content}\n", encoding="utf-8")
    print(f"\n{seconds:.0f} s\n\n| steps | seconds of training | loss on dev |\n|---|---|---|")
    for row in evaluations:
        print("| {step:,} | {training_seconds:.0f} | {loss:.4f} |".format(**row))
    print(f"\nBLEU: t2t-compare --runs={run}.mean --source=DEV.en --reference=DEV.de")


def _run(name: str, **values: Any) -> None:
    assignments = [f"--{flag}={value}" for flag, value in values.items()]
    command = [sys.executable, "-m", f"t2t_keras.bin.{name}", *assignments]
    subprocess.run(command, env=os.environ | {"KERAS_BACKEND": "jax"}, check=True)


if __name__ == "__main__":
    app.run(main)
