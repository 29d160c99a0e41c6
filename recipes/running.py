"""How a recipe is started: with Snakemake, from the folder of its configuration."""

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any, NoReturn

from t2t_keras.errors import UserError
from t2t_keras.interop.importers.files import read_file, read_yaml
from t2t_keras.io.files import locked_directory

_FOLDER = Path(__file__).parent
# Hours that a command takes until it has loaded TensorFlow and a model.
_START = 10 / 3600
# A job in the plan that Snakemake prints, in the order of the jobs.
_JOB = re.compile(r"^(?:local)?rule (\w+):\n(?: +(?!output).*\n)* +output: (.*)$", re.MULTILINE)


def run_recipe(
    name: str, config: str | Path, cores: int | None = None, profile: str = ""
) -> NoReturn:
    """Runs a recipe, or what is left of it: Snakemake takes this process.

    Args:
      name: of the recipe, a folder beside this file.
      config: its configuration, YAML.
      cores: how many to use; None = all, or what the profile says.
      profile: a profile of Snakemake, or the name of one of the recipe's where there is no file or
        folder of this name; "" = this machine.

    Raises:
      UserError: Snakemake is missing, there is no such recipe or file, the configuration is wrong,
        or the recipe is running already.
    """
    plan, flags = _plan(name, config), []
    if cores or not profile:
        # With a cluster, they would limit the threads of its jobs.
        flags += ["--cores", str(cores or "all")]
    if profile:
        own = _FOLDER / name / profile
        is_own = own.is_dir() and Path(profile).name == profile and not Path(profile).exists()
        flags += ["--profile", str(own if is_own else profile)]
    with locked_directory(Path(config).parent / plan.work, "t2t-recipe") as lock:
        # Snakemake's own lock outlives a process that is killed. Signals, as of Ctrl-C, reach it.
        os.set_inheritable(lock.fileno(), True)
        os.execve(sys.executable, [*_snakemake(name, config), *flags], _paths())


def describe(name: str, config: str | Path) -> str:
    """Returns what is left to do of a recipe, with estimates of the hours that it takes here.

    Raises:
      UserError: as `run_recipe`; or hyperparameters or settings of decoding are wrong.
    """
    from t2t_keras.training.backends.base import plan_devices

    plan = _plan(name, config)
    hours = plan.hours(_seconds_of_a_product(bool(plan_devices().gpus)))
    command = [*_snakemake(name, config), "--cores", "1", "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UserError(
            f"Snakemake cannot plan: {done.stdout}{done.stderr.strip()}", code="recipe_failed"
        )
    left = [(rule, *files.split(", ")) for rule, files in _JOB.findall(done.stdout + done.stderr)]
    left = [
        (_START + hours.get(files[-1], 0.0), rule, files[-1])
        for rule, *files in left
        if rule != "text"
    ]
    lines = [f"{each:8.2f} h  {rule:<15} {file}" for each, rule, file in left]
    total = sum(each for each, *_ in left)
    return "\n".join([*lines, f"{total:8.2f} h  in all, estimated for this machine"])


def _seconds_of_a_product(gpu: bool) -> float:
    """Returns the seconds of a multiplication with an addition in a product of matrices.

    It is the least of ten tries: what else runs slows single ones.
    """
    from keras import ops

    side, products = (4096 if gpu else 512), 4  # A GPU is busy only with large ones.
    matrix, tries = ops.ones((side, side)), []
    for _ in range(10):
        began = time.monotonic()
        for _ in range(products):
            product = ops.matmul(matrix, matrix)
        float(product[0, 0])  # Waits for all.
        tries.append(time.monotonic() - began)
    return min(tries) / products / side**3


def example(name: str) -> str:
    """Returns an example of a recipe's configuration."""
    return (_folder(name) / "config.yaml").read_text(encoding="utf-8")


def _folder(name: str) -> Path:
    if not (_FOLDER / name / "Snakefile").is_file():
        known = sorted(path.parent.name for path in _FOLDER.glob("*/Snakefile"))
        raise UserError(
            f"There is no recipe '{name}'. There is {', '.join(known)}.", code="unknown_name"
        )
    return _FOLDER / name


def _snakemake(name: str, config: str | Path) -> list[str]:
    """Returns the beginning of the command."""
    config = Path(config).absolute()
    return [
        *(sys.executable, "-m", "snakemake"),
        *("--snakefile", str(_FOLDER / name / "Snakefile")),
        *("--configfile", str(config), "--directory", str(config.parent)),
        *("--rerun-incomplete", "--rerun-triggers", "mtime", "params", "input"),
        *("--scheduler", "greedy", "--nolock"),
        # What was copied or downloaded again, and is the same, makes nothing anew.
        *("--max-checksum-file-size", "1TB"),
    ]


def _paths() -> dict[str, str]:
    """Returns the environment with this Python's commands, also where it is not activated."""
    own = sysconfig.get_path("scripts")
    return os.environ | {"PATH": os.pathsep.join([own, os.environ.get("PATH", "")])}


def _plan(name: str, config: str | Path) -> Any:
    """Returns the plan of a recipe, checked."""
    _folder(name)
    if not importlib.util.find_spec("snakemake"):
        raise UserError(
            "Recipes need Snakemake: pip install 't2t-keras[recipe]'.", code="missing_package"
        )
    content = read_yaml(read_file(Path(config)), str(config))
    package = f"t2t_keras.recipes.{name}"
    plan = importlib.import_module(f"{package}.plan").Plan(content, Path(config).parent)
    importlib.import_module(f"{package}.checks").check(plan)
    return plan
