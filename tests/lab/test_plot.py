"""Curves as they were written, over steps and hours, as text and as a picture."""

import re

import numpy as np
import pytest
from refusals import refused

from t2t_keras.lab.plot import read_curves, run_curves, text_plot, write_plot
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.progress import JsonCurves, TensorBoardCurves

LOSSES = {100 * number: 10.0 - number for number in range(1, 11)}


@pytest.fixture
def make_run(tmp_path):
    """make_run(name, kind={curve: {step: value}}): a run with these curves; its path."""

    def make(name, writer=JsonCurves, **kinds):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").touch()
        curves = writer(tmp_path / name)
        for kind, by_name in kinds.items():
            for curve, points in by_name.items():
                for step, value in points.items():
                    curves.write(kind, step, {curve: value})
        curves.close()
        return tmp_path / name

    return make


@pytest.mark.parametrize(
    ("writer", "torn"), [(TensorBoardCurves, b"\x09\x00"), (JsonCurves, b'{"step": 300, "loss": 9')]
)
def test_the_later_value_of_a_step_counts(make_run, writer, torn):
    run = make_run("run", writer, train={"loss": {100: 7.5, 200: 6.0, 250: 5.5, 270: np.inf}})
    again = writer(run)
    for step, loss in ((200, 5.0), (300, 4.0), (210, 4.5)):
        again.write("train", step, {"loss": loss, "accuracy": 0.5})
    again.close()
    with max((run / "train").iterdir()).open("ab") as file:
        file.write(torn)
    actual = read_curves(run / "train")
    # By step, whenever they were written.
    assert list(actual["loss"].items()) == [(100, 7.5), (200, 5), (210, 4.5), (250, 5.5), (300, 4)]
    assert actual["accuracy"] == {200: 0.5, 210: 0.5, 300: 0.5}
    assert read_curves(run / "eval") == {}


def test_hours_are_of_training_and_known_at_checkpoints_too(make_run):
    train = {"training_seconds": {100: 360, 200: 1080}, "loss": {100: 3, 200: 2}}
    run = make_run("run", train=train, eval={"loss": {50: 4, 150: 3}}, eval_dev={"bleu": {400: 9}})
    cost = dict(target_tokens=1, seconds=7200.0, hardware="")
    Checkpoints(run, {"model": {}}, 1).save(400, {"cost": cost})
    curves = run_curves([run], over="hours")
    hours = {(name, line.kind): line.x.tolist() for name, lines in curves.items() for line in lines}
    assert hours == {
        ("loss", "eval"): pytest.approx([0.05, 0.2]),
        ("loss", "train"): pytest.approx([0.1, 0.3]),
        ("bleu", "eval_dev"): [2.0],
    }
    other = make_run("other", eval={"loss": {100: 1}})
    with refused("not_recorded", other, "--over=steps"):
        run_curves([other], over="hours")


def test_names_of_curves_and_runs(make_run):
    runs = [
        make_run(f"{name}/run", train={"loss": LOSSES, "gradient_norm": LOSSES}) for name in "ab"
    ]
    assert list(run_curves(runs)) == ["loss"], "others are shown on request"
    unusual = make_run("unusual", train={"gradient_norm": LOSSES})
    assert list(run_curves([unusual])) == ["gradient_norm"]
    (lines,) = run_curves([*runs, runs[0]], ["gradient_norm"]).values()
    assert [line.run for line in lines] == list(map(str, runs))
    (line,) = run_curves(runs[:1])["loss"]
    assert (line.run, line.y.tolist()) == ("run", list(LOSSES.values()))
    with refused("unknown_name", "'los'", "'loss'", "gradient_norm, loss"):
        run_curves(runs, ["loss", "los"])


def test_text_has_common_axes(make_run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "45")
    runs = make_run("\x1b", train={"loss": LOSSES}), make_run("b", eval={"loss": {1000: 9.0}})
    assert text_plot(run_curves(runs), "steps").splitlines() == [
        "loss, 100 to 1,000 steps",
        r"  \x1b  train  ██▇▆▅▄▃▂▁▁  9 to 0",
        r"  b  eval               █  9 to 9",
    ]
    # Of a perplexity, the logarithm falls as evenly.
    run = make_run("p", train={"perplexity": {step: 2**loss for step, loss in LOSSES.items()}})
    assert text_plot(run_curves([run]), "steps").endswith("  p  train  ██▇▆▅▄▃▂▁▁  512 to 1")
    # 0 has no logarithm, and is drawn lowest.
    run = make_run("z", train={"perplexity": {100: 512.0, 1000: 0.0}})
    assert text_plot(run_curves([run]), "steps").endswith("  z  train  █        ▁  512 to 0")


@pytest.mark.parametrize(("over", "label"), [("steps", "steps"), ("hours", "hours of training")])
def test_a_picture_of_a_single_point_has_a_mark_and_its_axis_a_label(
    make_run, tmp_path, over, label
):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    train = {"loss": {100: 8.0}, "training_seconds": {100: 360}}
    write_plot(tmp_path / "p.svg", run_curves([make_run("a", train=train)], ["loss"], over), over)
    text = (tmp_path / "p.svg").read_text()
    # A mark is a shape that is used where its point is; those of the axes have no fill of a run.
    assert re.search(r"<use [^>]*style=\"fill: #(?!000000)\w+", text)
    assert [line for line in re.findall("<!-- (.*?) -->", text) if line.startswith(label)]


def test_rates_are_drawn_from_zero_and_losses_are_not(make_run, tmp_path):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    points = {100: 700.0, 200: 800.0}
    for name, zeros in (("learning_rate", 1), ("tokens_per_second", 1), ("loss", 0)):
        run = make_run(name, train={name: points})
        write_plot(tmp_path / "p.svg", run_curves([run]), "steps")
        assert (tmp_path / "p.svg").read_text().count("<!-- 0 -->") == zeros, name


@pytest.mark.parametrize(("count", "size"), [(1, (5.2, 3.4)), (2, (10.4, 3.4)), (5, (10.4, 8.6))])
def test_the_size_of_a_picture(make_run, tmp_path, count, size):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    names = ("loss", "perplexity", "accuracy", "bleu", "gradient_norm")[:count]
    run = make_run("a", train={name: {100: 2.0, 200: 1.0} for name in names})
    write_plot(tmp_path / "p.svg", run_curves([run], names), "steps")
    outputs = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', (tmp_path / "p.svg").read_text())
    assert [float(points) / 72 for points in outputs.groups()] == pytest.approx(size, abs=0.01)


def test_a_picture_has_a_panel_for_each_curve_and_a_colour_for_each_run(make_run, tmp_path):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    falling = {100: 8.0, 200: 4.0, 400: 2.0}
    runs = [make_run("_$a$", train={"loss": falling, "perplexity": falling})]
    runs += [make_run("b", eval={"loss": falling, "bleu": falling})]
    assert write_plot(tmp_path / "plot.svg", run_curves(runs), "steps") == ""
    text = (tmp_path / "plot.svg").read_text()
    assert set(re.findall(r'id="(axes_\d)"', text)) == {"axes_1", "axes_2", "axes_3"}
    names = {"_$a$", "b", "BLEU", "steps", "loss (nats a token)", "dev set, while training"}
    assert names <= set(re.findall("<!-- (.*?) -->", text))
    # The lines of three points: their path, as "M x y L x y L x y", and their colour.
    line = re.compile(r'd="M ([\d.]+) ([\d.]+) \nL (.*) (.*) \nL (.*) (.*) \n".*stroke: (#\w+)')
    matches = line.findall(text)[:4]  # Those of the legend follow.
    x, y = (np.array([match[at:6:2] for match in matches], float) for at in (0, 1))
    np.testing.assert_allclose((x[:, 2] - x[:, 1]) / (x[:, 1] - x[:, 0]), [2] * 4, rtol=1e-4)
    # All but the second, whose axis is logarithmic; SVG counts downwards.
    fallen = (y[:, 2] - y[:, 1]) / (y[:, 1] - y[:, 0])
    np.testing.assert_allclose(fallen, [0.5, 0.5, 1, 0.5], rtol=1e-4)
    colours = [match[-1] for match in matches]
    assert colours == [colours[at] for at in (0, 1, 0, 1)]
    assert colours[0] != colours[1]
