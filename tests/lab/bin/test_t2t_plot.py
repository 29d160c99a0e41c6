"""Plots of runs from the command line, with and without matplotlib."""

import sys
from pathlib import Path

import pytest

from t2t_keras.lab.bin import t2t_plot
from t2t_keras.training.progress import JsonCurves


@pytest.fixture
def runs(tmp_path):
    """Two directories of runs with a curve."""
    for name in ("one", "two"):
        JsonCurves(tmp_path / name).write("train", 100, {"loss": 3.5, "accuracy": 0.5})
        (tmp_path / name / "run.json").touch()
    return [str(tmp_path / name) for name in ("one", "two")]


def plot(*arguments):
    t2t_plot.run(["t2t-plot", *map(str, arguments)])


def test_flags_may_stand_anywhere(runs, capsys):
    plot(runs[0], "--curves=accuracy", runs[1])
    out = capsys.readouterr().out
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [
        ["one", "train"],
        ["two", "train"],
    ]
    plot("--help")
    assert "\n  runs   " in capsys.readouterr().out


@pytest.mark.parametrize("suffix", ["png", "SVG"])
def test_a_picture(runs, tmp_path, capsys, suffix):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    plot(*runs, f"--plot_file={tmp_path / 'new' / f'plot.{suffix}'}")
    assert f"plot.{suffix}: loss " in capsys.readouterr().out
    Path(runs[1]).rename(tmp_path / "漢")
    plot(tmp_path / "漢", f"--plot_file={tmp_path / 'new' / f'plot.{suffix}'}")
    assert "lacks 漢," in capsys.readouterr().out
    content = (tmp_path / "new" / f"plot.{suffix}").read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")


def test_without_matplotlib_it_is_text(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as stop:
        plot(*runs, f"--plot_file={tmp_path / 'plot.png'}")
    assert (stop.value.code, stop.value.__cause__.code) == (2, "missing_package")
    printed = capsys.readouterr()
    assert "one  train" in printed.out
    assert "pip install -e '.[plot]'" in printed.err
