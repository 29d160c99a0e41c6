"""Installed packages that announce entries of a `Registry`, each of which a module has."""

import pytest


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """installed(package, group, source, *names): installs a package of one module."""

    def install(package, group, source, *names):
        folder = tmp_path / "installed"
        points = "".join(f"{name} = {package}:{name}\n" for name in names)
        metadata = folder / f"{package}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Name: {package}\nVersion: 1.0\n", encoding="utf-8")
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{points}", encoding="utf-8")
        (folder / f"{package}.py").write_text(source, encoding="utf-8")
        monkeypatch.syspath_prepend(folder)

    return install
