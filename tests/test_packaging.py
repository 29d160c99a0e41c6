"""The wheel holds `problems/` and `hparams/` as parts of the package, and nothing else on top."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import t2t_keras

LINKS = ["problems", "hparams"]


def run_outside(folder, *command):
    """Runs a command where neither the checkout nor an installed copy of it can be imported."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=clean, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    # Built from a copy: a build leaves folders behind, and would pick up those of earlier builds.
    checkout = tmp_path_factory.mktemp("checkout") / "t2t_keras"
    ignore = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
    checkout.mkdir()
    for entry in ["t2t_keras", "problems", "hparams", "tests"]:
        shutil.copytree(root / entry, checkout / entry, symlinks=True, ignore=ignore)
    for entry in ["setup.py", "pyproject.toml", "README.md", "LICENSE"]:
        shutil.copy(root / entry, checkout)
    folder = tmp_path_factory.mktemp("wheel")
    pip_wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    run_outside(checkout, *pip_wheel, "--wheel-dir", folder, ".")
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A clean virtual environment that holds the wheel alone, without its dependencies."""
    folder = tmp_path_factory.mktemp("clean") / "environment"
    run_outside(folder.parent, sys.executable, "-m", "venv", "--without-pip", folder)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    run_outside(folder, *pip, "install", "--no-deps", "--no-index", wheel)
    return folder


@pytest.mark.parametrize("link", LINKS)
def test_the_links_are_relative_and_lead_to_the_top_of_the_checkout(root, link):
    path = root / "t2t_keras" / link
    assert path.readlink() == Path("..") / link
    assert path.resolve() == root / link


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(root, wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    version = wheel.name.split("-")[1]
    assert version == t2t_keras.__version__
    assert {name.split("/")[0] for name in packed} == {
        "t2t_keras",
        f"t2t_keras-{version}.dist-info",
    }
    top = [root / "t2t_keras", *(root / "t2t_keras" / link for link in LINKS)]
    suffixes = (".py", ".html", ".css", ".js", ".tsv")
    files = {
        str(file.relative_to(root)): file.read_bytes()
        for folder in top
        for file in folder.rglob("*")
        if file.suffix in suffixes
    }
    assert {name: packed[name] for name in packed if name.endswith(suffixes)} == files


def test_problems_and_hparams_import_from_the_installed_wheel(environment):
    # The dependencies come from this environment, appended without reading the .pth files that
    # an editable install of the checkout works by.
    dependencies = importlib.metadata.distribution("numpy").locate_file("")
    code = """
import importlib.util, json, pkgutil, sys
found = {}
on_top = [name for name in ("problems", "hparams", "tests") if importlib.util.find_spec(name)]
sys.path.append(sys.argv[1])
for name in ("t2t_keras.problems", "t2t_keras.hparams"):
    package = importlib.import_module(name)
    for module in pkgutil.iter_modules(package.__path__, f"{name}."):
        found[module.name] = importlib.import_module(module.name).__file__
print(json.dumps([found, on_top]))
"""
    python = environment / "bin" / "python"
    found, on_top = json.loads(run_outside(environment, python, "-c", code, dependencies))
    assert {"t2t_keras.hparams.transformer", "t2t_keras.problems.parallel_text"} <= set(found)
    assert all(Path(file).is_relative_to(environment) for file in found.values())
    assert on_top == []


def test_every_module_of_a_command_is_a_console_script(root, environment):
    (site,) = environment.glob("lib/python*/site-packages")
    (distribution,) = importlib.metadata.distributions(path=[str(site)])
    scripts = distribution.entry_points.select(group="console_scripts")
    modules = [path.stem for path in (root / "t2t_keras" / "bin").glob("t2t_*.py")]
    assert len(modules) == 13
    assert {script.name: script.value for script in scripts} == {
        module.replace("_", "-"): f"t2t_keras.bin.{module}:run" for module in modules
    }
    assert {path.name for path in (environment / "bin").iterdir()} >= scripts.names
