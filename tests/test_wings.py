"""The core does without any wing: it is tested where the folders of wings are left out."""

import ast
import graphlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

WINGS = ("interop", "lab", "workbench")
LINKS = ("problems", "hparams", "recipes")
# Every test of the core, every module of it, and what it would ask a wing for. Virtual devices, of
# the tests in training, are made before any tensor.
PROGRAM = """
import pkgutil, pytest, t2t_keras
assert pytest.main("-q --collect-only tests/core/training tests/core".split()) == 0
for module in pkgutil.walk_packages(t2t_keras.__path__, "t2t_keras."):
    if not module.name.startswith("t2t_keras.recipes."):  # They use commands of all wings.
        __import__(module.name)
from t2t_keras.registry import ENGINES, EXPORT_FORMATS, LINE_STAGES, PAIR_TRANSFORMS, registry_help
from t2t_keras.bin import t2t_decoder
registry_help()
t2t_decoder.run(["t2t-decoder", "--help"])
print(*(list(each) for each in (ENGINES, EXPORT_FORMATS, LINE_STAGES, PAIR_TRANSFORMS)), sep="\\n")
"""


@pytest.fixture
def copy(root, tmp_path):
    """copy(*wings): a checkout without these wings, which do not announce anything either."""

    def copy(*wings):
        checkout = tmp_path / "_".join(["without", *wings])
        ignored = shutil.ignore_patterns("__pycache__", *wings)
        for name in ("t2t_keras", *LINKS, "tests", "examples", "docs"):
            shutil.copytree(root / name, checkout / name, symlinks=True, ignore=ignored)
        for name in ("pyproject.toml", "CONTRIBUTING.md"):
            shutil.copy(root / name, checkout)
        points = (root / "entry_points.txt").read_text("utf-8")
        for wing in wings:
            points = re.sub(rf".* = t2t_keras\.{wing}\..*\n", "", points)
        # What is installed, as Python sees it.
        (checkout / "t2t_keras.egg-info").mkdir()
        (checkout / "t2t_keras.egg-info" / "PKG-INFO").write_text("Name: t2t-keras\n")
        for folder in (checkout, checkout / "t2t_keras.egg-info"):
            (folder / "entry_points.txt").write_text(points, encoding="utf-8")
        return checkout

    return copy


def run(checkout, *command):
    """Runs a command in a checkout, and returns what it prints."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PYTHONPATH": str(checkout), "PATH": path}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"[-4000:]
    return done.stdout


def test_the_core_is_imported_without_wings(copy):
    checkout = copy(*WINGS)
    shown = run(checkout, sys.executable, "-W", "error::ImportWarning", "-c", PROGRAM)
    assert int(re.search(r"(\d+)(?:/\d+)? tests collected", shown)[1]) > 2000
    assert shown.splitlines()[-4:] == ["['keras']", "[]", "[]", "[]"]
    assert not re.search("^ *--glossary", shown, re.M)


def imports(file, modules):
    """The modules that a file imports, those for type checkers and within functions included."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from modules.intersection(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{name.name}" for name in node.names} & modules
            yield from names or {node.module} & modules


def test_modules_do_not_import_each_other_in_circles(root):
    files = {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file
        for top in ("t2t_keras", *(f"t2t_keras/{link}" for link in LINKS))
        for file in (root / top).rglob("*.py")
    }
    modules = set(files)
    graph = {module: {*imports(file, modules)} for module, file in files.items()}
    assert sum(map(len, graph.values())) > 1000
    assert list(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.slow
@pytest.mark.parametrize("wing", WINGS)
def test_the_core_passes_its_tests_without_a_wing(copy, wing):
    checkout = copy(wing)
    options = "-q -x --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder"
    run(checkout, sys.executable, "-m", "pytest", *options.split(), "tests/core")
    run(checkout, "bash", "examples/demo.sh")
