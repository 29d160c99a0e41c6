"""Starts recipes with Snakemake, in the folder of their configuration."""

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from t2t_keras.errors import UserError, missing_package, translated_errors, unknown_name
from t2t_keras.io.files import locked_directory
from t2t_keras.text.files import check_readable

if TYPE_CHECKING:
    from t2t_keras.recipes.student.plan import Plan

_FOLDER = Path(__file__).parent
# Hours in which a command loads TensorFlow and a model.
_STARTUP_HOURS = 10 / 3600
# A job in the plan that Snakemake prints; the plan lists the jobs in their order.
_JOB = re.compile(r"^(?:local)?rule (\w+):\n(?: +(?!output).*\n)* +output: (.*)$", re.MULTILINE)


def run_recipe(
    name: str, config: str | Path, cores: int | None = None, profile: str = ""
) -> NoReturn:
    """Runs a recipe, or continues one: replaces this process by Snakemake.

    Args:
      name: name of the recipe, a folder next to this file.
      config: its configuration, in YAML.
      cores: number of cores to use; None = all, or the number in the profile.
      profile: a profile of Snakemake, or the name of one in the recipe's folder, unless a file or
        folder of that name is in the working directory; "" = this machine.

    Raises:
      UserError: Snakemake is missing, there is no such recipe or file, the configuration is wrong,
        or the recipe is running already.
    """
    plan, flags = _load_plan(name, config), []
    if cores or not profile:
        # On a cluster, --cores would limit the threads of jobs.
        flags += ["--cores", str(cores or "all")]
    if profile:
        built_in = _FOLDER / name / profile
        is_name = Path(profile).name == profile and not Path(profile).exists()
        flags += ["--profile", str(built_in if built_in.is_dir() and is_name else profile)]
    # Finds this Python's commands even if its environment is not activated.
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    with locked_directory(Path(config).parent / plan.work, "t2t-recipe") as lock:
        # Snakemake's own lock would outlive a killed process. `execve` lets signals reach it.
        os.set_inheritable(lock.fileno(), True)
        command = [*_snakemake(name, config), *flags]
        os.execve(sys.executable, command, os.environ | {"PATH": path})


def describe(name: str, config: str | Path) -> str:
    """Returns a recipe's remaining jobs, with estimates of their hours on this machine.

    Raises:
      UserError: as `run_recipe`; or hyperparameters or decoding settings are wrong.
    """
    from t2t_keras.training.backends.base import plan_devices

    plan = _load_plan(name, config)
    hours = plan.hours(_seconds_per_product(bool(plan_devices().gpus)))
    command = [*_snakemake(name, config), "--cores", "1", "--dry-run"]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise UserError(
            f"Snakemake cannot plan: {process.stdout}{process.stderr.strip()}", code="recipe_failed"
        )
    lines, total = [], 0.0
    for rule, files in _JOB.findall(process.stdout + process.stderr):
        if rule != "text":
            last_file = files.split(", ")[-1]
            estimate = _STARTUP_HOURS + hours.get(last_file, 0.0)
            total += estimate
            lines.append(f"{estimate:8.2f} h  {rule:<15} {last_file}")
    return "\n".join([*lines, f"{total:8.2f} h  in all, estimated for this machine"])


def _seconds_per_product(gpu: bool) -> float:
    """Returns the seconds per multiply-add in a product of matrices.

    Takes the smallest of ten measurements, as other processes slow some down.
    """
    from keras import ops

    side, num_products = (4096 if gpu else 512), 4  # Only large products keep a GPU busy.
    matrix, seconds = ops.ones((side, side)), []
    for _ in range(10):
        start = time.monotonic()
        for _ in range(num_products):
            product = ops.matmul(matrix, matrix)
        float(product[0, 0])  # Waits for all products.
        seconds.append(time.monotonic() - start)
    return min(seconds) / num_products / side**3


def example(name: str) -> str:
    """Returns an example of a recipe's configuration."""
    _check_name(name)
    return (_FOLDER / name / "config.yaml").read_text(encoding="utf-8")


def _check_name(name: str) -> None:
    if not (_FOLDER / name / "Snakefile").is_file():
        known = sorted(path.parent.name for path in _FOLDER.glob("*/Snakefile"))
        raise unknown_name("recipe", name, known)


def _snakemake(name: str, config: str | Path) -> list[str]:
    """Returns the command that starts Snakemake, without the flags of a run."""
    config = Path(config).absolute()
    return [
        *(sys.executable, "-m", "snakemake"),
        *("--snakefile", str(_FOLDER / name / "Snakefile")),
        *("--configfile", str(config), "--directory", str(config.parent)),
        *("--rerun-incomplete", "--rerun-triggers", "mtime", "params", "input"),
        *("--scheduler", "greedy", "--nolock"),
        # Unchanged files that are copied or downloaded again do not restart jobs.
        *("--max-checksum-file-size", "1TB"),
    ]


def _load_plan(name: str, config: str | Path) -> "Plan":
    """Returns the checked plan of a recipe."""
    _check_name(name)
    if not importlib.util.find_spec("snakemake"):
        raise missing_package("A recipe", "Snakemake", "recipe")
    from snakemake.common.configfile import load_configfile
    from snakemake.exceptions import WorkflowError

    check_readable(Path(config))
    kinds = WorkflowError, ValueError  # ValueError: it is not UTF-8.
    with translated_errors(kinds, f"{config} is not YAML", code="bad_configuration"):
        content = load_configfile(str(config))
    package = f"t2t_keras.recipes.{name}"
    plan = importlib.import_module(f"{package}.plan").Plan(content, Path(config).parent)
    importlib.import_module(f"{package}.checks").check(plan)
    return plan
