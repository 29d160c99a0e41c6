"""The wheel has problems, hparams and recipes as parts of the package, and nothing beside it."""

import configparser
import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import t2t_keras

LINKS = ["problems", "hparams", "recipes"]
BESIDE = ["CHANGELOG.md", "LICENSE", "README.md", "entry_points.txt"]


def run_outside(folder, *command, **environment):
    """Runs a command where the checkout cannot be imported, and returns what it prints."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=clean | environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture(scope="module")
def unpacked(root, tmp_path_factory):
    """The folder of what the wheel contains, which is built from the sdist, as by `make dist`."""
    # Built from a copy: a build leaves folders behind, and would pick up those of earlier builds.
    checkout = tmp_path_factory.mktemp("checkout") / "t2t_keras"
    ignore = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
    checkout.mkdir()
    for entry in ["t2t_keras", *LINKS, "tests"]:
        shutil.copytree(root / entry, checkout / entry, symlinks=True, ignore=ignore)
    for entry in ["setup.py", "pyproject.toml", "MANIFEST.in", *BESIDE]:
        shutil.copy(root / entry, checkout)
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys, setuptools.build_meta as backend; backend.build_sdist(sys.argv[1])"
    run_outside(checkout, sys.executable, "-c", build, folder)
    (sdist,) = folder.glob("*.tar.gz")
    pip_wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    run_outside(folder, *pip_wheel, sdist)
    (wheel,) = folder.glob("*.whl")
    with tarfile.open(sdist) as archive:
        names = {Path(name).name for name in archive.getnames() if name.count("/") == 1}
    assert names.issuperset(BESIDE)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def test_the_links_are_relative_and_lead_to_the_top_of_the_checkout(root):
    for link in LINKS:
        path = root / "t2t_keras" / link
        assert path.readlink() == Path("..") / link
        assert path.resolve() == root / link


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(root, unpacked):
    names = {path.name for path in unpacked.iterdir()}
    assert names == {"t2t_keras", f"t2t_keras-{t2t_keras.__version__}.dist-info"}
    files, packed = (
        {
            file.relative_to(folder): file.read_bytes()
            for top in ("t2t_keras", *(f"t2t_keras/{link}" for link in LINKS))
            for file in (folder / top).rglob("*")
            if file.suffix in (".py", ".html", ".css", ".js", ".tsv", ".yaml")
            or file.name in ("Snakefile", "py.typed")
        }
        for folder in (root, unpacked)
    )
    assert packed == files


def test_sets_and_problems_are_found_in_what_is_installed(unpacked, tmp_path):
    code = "import t2t_keras.registry as r\nprint(r.__file__, *r.HPARAMS_SETS, *r.PROBLEMS)"
    actual = run_outside(tmp_path, sys.executable, "-c", code, PYTHONPATH=str(unpacked)).split()
    assert actual[0].startswith(str(unpacked))
    assert {"transformer_base", "translate_ende"} <= set(actual)


def test_every_module_of_a_command_is_a_console_script(root, unpacked):
    entry_points = configparser.ConfigParser()
    entry_points.read(next(unpacked.glob("*.dist-info/entry_points.txt")))
    packages = "bin", "*/bin", "recipes"
    modules = {
        ".".join(path.relative_to(root).with_suffix("").parts)
        for package in packages
        for path in (root / "t2t_keras").glob(f"{package}/t2t_*.py")
    }
    assert len(modules) == 19
    assert dict(entry_points["console_scripts"]) == {
        module.rpartition(".")[2].replace("_", "-"): f"{module}:run" for module in modules
    }


def test_images_are_built_with_all_that_setup_reads(root):
    needed = re.findall(r'ROOT / "([\w.]+)"\)\.read_text', (root / "setup.py").read_text())
    assert len(needed) == 2
    for file in (root / "docker").glob("*.Dockerfile"):
        copied = re.findall(r"^COPY (setup\.py .*) \./$", file.read_text(), re.MULTILINE)
        assert [name for names in copied for name in needed if name not in names.split()] == []


def test_the_version_is_the_same_wherever_it_stands(root):
    version = t2t_keras.__version__
    assert f'    version = "{version}",\n' in (root / "MODULE.bazel").read_text()
    assert f"\n## [{version}] - " in (root / "CHANGELOG.md").read_text()
    assert yaml.safe_load((root / "CITATION.cff").read_text())["version"] == version


def test_the_documentation_names_every_extra(root, unpacked):
    (metadata,) = unpacked.glob("*.dist-info/METADATA")
    extras = email.message_from_string(metadata.read_text()).get_all("Provides-Extra")
    text = (root / "docs" / "start.md").read_text()
    first_cells = re.findall(r"^\| (`.+?`) \|", text, flags=re.MULTILINE)
    assert sorted(re.findall("`(.+?)`", " ".join(first_cells))) == sorted(extras)
