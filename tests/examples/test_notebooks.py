"""The notebooks: the exercises check themselves, and each notebook opens in Colab."""

import json
import re
import sys

import pytest
import yaml

FIRST = "1_the_paper_in_keras.ipynb"
# By exercise: a right and a wrong body of its function.
SOLUTIONS = {
    1: (
        """
    sines, cosines = encodings[:, ::2], encodings[:, 1::2]
    angles = k / 10000 ** (np.arange(0, encodings.shape[1], 2) / encodings.shape[1])
    sines, cosines = (
        sines * np.cos(angles) + cosines * np.sin(angles),
        cosines * np.cos(angles) - sines * np.sin(angles),
    )
    return np.stack([sines, cosines], axis=-1).reshape(encodings.shape)
""",
        "return encodings + k",
    ),
    2: (
        "return np.tri(ids.shape[1], dtype=bool) & (ids != 0)[:, None, :]",
        "return np.tri(ids.shape[1], dtype=bool) & (ids != 0)[:, :, None]",
    ),
    3: (
        """
    other = epsilon / vocab_size
    right = 1 - epsilon + other
    return -right * np.log(right) - (vocab_size - 1) * other * np.log(other)
""",
        "return -np.log(1 - epsilon)",
    ),
    4: (
        "return warmup_steps, (d_model * warmup_steps) ** -0.5",
        "return warmup_steps, d_model**-0.5",
    ),
    5: (
        """
    lengths = (5 + long[1]) / (5 + short[1])
    return np.log(long[0] / short[0]) / np.log(lengths)
""",
        "return np.log(long[0] / short[0]) / np.log(long[1] / short[1])",
    ),
    6: (
        """
    return [m + (w - m) / (count + 1) for m, w in zip(mean, weights, strict=True)]
""",
        "return [(m + w) / 2 for m, w in zip(mean, weights, strict=True)]",
    ),
}


def cells(path, kind="code"):
    read = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in read if cell["cell_type"] == kind]


@pytest.fixture(params=sorted(SOLUTIONS))
def exercise(request, root, monkeypatch):
    """solve(body): the verdict of an exercise, whose function has a body or is as it came."""
    monkeypatch.syspath_prepend(root / "examples")
    monkeypatch.delitem(sys.modules, "transformer", raising=False)
    code = cells(root / "examples" / "notebooks" / FIRST)
    names = {}
    exec("import keras, numpy as np; from keras import ops; import transformer as paper", names)
    monkeypatch.delitem(sys.modules, "transformer")
    names["random"] = names["np"].random.default_rng(1)
    [setup] = [cell for cell in code if cell.startswith("verdicts = {}")]
    exec(setup, names)
    [cell] = [cell for cell in code if f"\ncheck({request.param}, " in cell]

    def solve(body):
        assert cell.count("    return ...\n") == 1
        exec(cell.replace("    return ...\n", f"    {body.strip()}\n"), names)
        return names["verdicts"]

    solve.number = request.param
    return solve


def test_an_exercise_tells_right_from_wrong(exercise):
    right, wrong = SOLUTIONS[exercise.number]
    for body, verdict in ((right, "right"), (wrong, "wrong"), ("return ...", "not solved yet")):
        assert exercise(body) == {exercise.number: verdict}


def test_a_badge_opens_each_notebook_of_the_site_in_colab(root):
    text = (root / "mkdocs.yml").read_text(encoding="utf-8")
    [pages] = [page["Notebooks"] for page in yaml.safe_load(text)["nav"] if "Notebooks" in page]
    paths = sorted((root / "examples" / "notebooks").glob("*.ipynb"))
    assert [*map("".join, map(dict.values, pages))] == [f"notebooks/{path.name}" for path in paths]
    addresses = set()
    for path in paths:
        badge = re.search(
            r"\(https://colab\S+/github/(\S+)/blob/main/(\S+)\)", cells(path, "markdown")[0]
        )
        assert badge[2] == path.relative_to(root).as_posix()
        addresses.add(badge[1])
        addresses |= set(re.findall(r"https://github\.com/([\w-]+/[\w-]+)", cells(path)[0]))
    assert len(addresses) == 1


def test_the_first_cell_installs_in_colab_only(root, monkeypatch):
    for path in (root / "examples" / "notebooks").glob("*.ipynb"):
        # As IPython runs it: a magic is a call.
        cell = re.sub(r"^( +)([!%].*)", r"\1calls.append('''\2''')", cells(path)[0], flags=re.M)
        calls = []
        exec(cell, {"calls": calls})
        assert calls == []
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "google.colab", sys)
            exec(cell, {"calls": calls})
        assert any(call.startswith("%pip install") for call in calls)
