"""Learned filters, with models that find pairs as likely as their texts say."""

import math
import os
import types

import numpy as np
import pytest
from refusals import refused

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import PairScore
from t2t_keras.lab.filtering import dual_scores, filter_pairs


class Model:
    """Finds each of a target's words, "word:-0.5", as likely as it says."""

    engine = types.SimpleNamespace(name="keras")

    def __init__(self, source, target, name=""):
        self.problem = Problem(source_language=source, target_language=target, name=name)
        self.config, self.checkpoint_identity = DecodeConfig(lines_at_once=2), {"checkpoint": "1"}
        self.scored, self.interrupted_at = 0, None

    def fits(self, sources, targets):
        return ["long" not in target for target in targets]

    def score(self, sources, targets):
        self.scored += len(targets)
        if self.interrupted_at in sources:
            raise KeyboardInterrupt
        values = [[float(word.split(":")[1]) for word in target.split()] for target in targets]
        return [PairScore(sum(value), np.array(value, np.float32)) for value in values]


ENGLISH = ["a:-1 b:-2", "c:-0.5", "", "e:-0.25", "f:-3", "long"]
GERMAN = ["A:-2", "C:-0.5 D:-1.5", "", "E:-1 F:-1", "G:-0.5", "H:-1"]


@pytest.fixture
def text(tmp_path):
    for code, lines in (("en", ENGLISH), ("de", GERMAN)):
        (tmp_path / f"web.{code}").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "web.en", tmp_path / "web.de"


@pytest.fixture
def models():
    return {"forward": Model("en", "de"), "backward": Model("de", "en")}


def written(report):
    return [path.read_text().splitlines() for path in report.files]


def test_dual_scores_are_those_of_the_paper():
    """Equation 2 of Junczys-Dowmunt (2018): exp(-(|H_A - H_B| + (H_A + H_B) / 2))."""
    forward, backward = -np.array([1.0, 2.0, 0.5]), -np.array([3.0, 2.0, 0.25])
    expected = [math.exp(-(2 + 2)), math.exp(-2), math.exp(-(0.25 + 0.375))]
    np.testing.assert_allclose(np.exp(dual_scores(forward, backward)), expected)


def test_the_best_share_is_kept_in_order(text, models, tmp_path):
    actual = filter_pairs(*text, tmp_path / "out" / "clean", **models, keep=0.5)
    # H of the four pairs: (2, 1.5), (1, 0.5), (1, 0.25), (0.5, 3).
    assert written(actual) == [[ENGLISH[1], ENGLISH[3]], [GERMAN[1], GERMAN[3]]]
    assert (tmp_path / "out" / "clean.scores").read_text().splitlines() == [
        "-2.000000\t-1.500000",
        "-1.000000\t-0.500000",
        "blank",
        "-1.000000\t-0.250000",
        "-0.500000\t-3.000000",
        "too long",
    ]
    assert "2 of 6 pairs, with scores of -1.3750 and more" in str(actual)
    assert "2 less likely, 1 blank, 1 too long" in str(actual)


def test_one_model(text, models, tmp_path):
    # Of five with scores, 1.45 are one, and 1.55 two; of the three second ones, the first.
    for keep, best in ((0.29, [4]), (0.31, [1, 4])):
        actual = filter_pairs(*text, tmp_path / "by", forward=models["forward"], keep=keep)
        assert written(actual) == [[side[number] for number in best] for side in (ENGLISH, GERMAN)]
    actual = filter_pairs(*text, tmp_path / "by", backward=models["backward"], keep=0.25)
    assert written(actual) == [[ENGLISH[3]], [GERMAN[3]]]


def test_scores_are_used_again(text, models, tmp_path):
    (source, target), output = text, tmp_path / "clean"
    models["forward"].interrupted_at = "f:-3"
    with pytest.raises(KeyboardInterrupt):
        filter_pairs(source, target, output, forward=models["forward"])
    models["forward"].interrupted_at = None
    filter_pairs(source, target, output, forward=models["forward"], keep=1)
    assert models["forward"].scored == 3 + 2 + 2  # The interrupted chunk is scored again.
    actual = filter_pairs(source, target, output, forward=models["forward"], keep=0.25)
    assert models["forward"].scored == 7
    assert actual.num_kept == 1
    target.write_text(target.read_text().replace("A:-2", "A:-0.1"))
    report = filter_pairs(source, target, output, forward=models["forward"], keep=0.25)
    assert models["forward"].scored == 12
    assert written(report)[0] == [ENGLISH[0]]
    # So are those of other settings.
    for number, changes in enumerate(
        (dict(max_input_length=99), dict(weights_dtype="bfloat16")), 1
    ):
        models["forward"].config = DecodeConfig(lines_at_once=2, **changes)
        filter_pairs(source, target, output, forward=models["forward"])
        assert models["forward"].scored == 12 + 5 * number


def test_an_interrupted_filter_continues_only_as_it_was_begun(text, models, tmp_path, monkeypatch):
    output, replace = tmp_path / "clean", os.replace

    def interrupt(path, target):
        if str(path).endswith("clean.en.partial"):
            raise KeyboardInterrupt
        replace(path, target)

    with monkeypatch.context() as patched:
        patched.setattr("os.replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            filter_pairs(*text, output, **models, keep=0.5)
    with refused("other_settings", "keep: recorded 0.5, requested 0.25"):
        filter_pairs(*text, output, **models, keep=0.25)
    with refused("other_settings", "scores"):
        filter_pairs(*text, output, forward=models["forward"], keep=0.5)
    assert not (tmp_path / "clean.en").exists()
    actual = filter_pairs(*text, output, **models, keep=0.5)
    assert written(actual) == [[ENGLISH[1], ENGLISH[3]], [GERMAN[1], GERMAN[3]]]


def test_what_is_refused(text, models, tmp_path):
    def check(code, named, *files, **options):
        with refused(code, *named):
            filter_pairs(*(files or text), tmp_path / "out", **options)

    check("missing_argument", [], keep=0.5)
    for keep in (0, 1.01):
        check("bad_value", ["keep", keep], keep=keep, **models)
    check("swapped_languages", text, *text[::-1], **models)
    check("other_language", ["en", "de"], **(models | {"backward": Model("en", "de")}))
    for files in ((text[0], "-"), ("-", text[1])):
        check("not_a_file", [], *files, **models)
    check("not_read", ["none.en"], tmp_path / "none.en", text[1], **models)
    check("unknown_language", ["multi"], forward=Model("", "de", "multi"))
    text[1].write_text("A:-1\n")
    check("unequal_counts", [f"{text[0]} has 6 lines", f"{text[1]} has 1"], **models)
    for path in text:
        path.write_text("")
    check("no_text", text, **models)
    english, german = "The old house is near a tall tree.\n", "Das alte Haus ist an einem Baum.\n"
    text[0].write_text(german * 20), text[1].write_text(english * 20)
    check("swapped_languages", text, **models)
    assert not list(tmp_path.glob("out*"))
    text[0].write_text("\na:-1\nb\n \n"), text[1].write_text("\nlong\n\nb:-1\n")
    check("nothing_left", ["keep=1.0", "4", "3 blank, 1 too long"], **models)
