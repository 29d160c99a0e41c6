"""How a command line is read."""

import pytest
from refusals import refused

from t2t_keras.io.flags import Flags


@pytest.fixture
def flags():
    flags = Flags()
    flags.group("Work")
    flags.switch("dry_run", "")
    flags.switch("eval_bleu", "", True)
    flags.string("output_dir", "")
    flags.integer("num_workers", "", 4, 1, 8)
    flags.number("keep_minutes", "", 2)
    flags.integer("steps", "")
    flags.choice("style", "", ("a", "b"), "a")
    flags.strings("names", "")
    flags.paths("runs", "")
    flags.assignments("hparams", "")
    flags.texts("sentence", "")
    flags.arguments("FILE", "")
    return flags


def test_dashes_stand_for_underscores_in_names_alone(flags):
    flags.parse(["t2t-x", "--dry-run", "a-b", "--no-eval-bleu", "--output-dir=c-d=e-f"])
    assert (flags.dry_run, flags.eval_bleu, flags.output_dir) == (True, False, "c-d=e-f")
    assert flags.FILE == ["a-b"]


def test_values(flags):
    flags.parse(["t2t-x", "--num_workers", "8", "--names=a, b", "--sentence=a,b", "--sentence=c"])
    assert (flags.num_workers, flags.names, flags.sentence) == (8, ["a", "b"], ["a,b", "c"])


def test_what_commas_separate_may_be_given_several_times(flags):
    argv = ["--names=a", "--hparams=", "--hparams=x=1", "--runs=b,c", "--names=", "--names=a,d"]
    flags.parse(["t2t-x", *argv, "--hparams", "y=2", "--hparams=", "--runs=b"])
    assert flags.names == ["a", "a", "d"]
    assert (flags.runs, flags.hparams) == (["b", "c", "b"], "x=1,y=2")


@pytest.mark.parametrize(
    "argument",
    [
        "--num_workers=0",
        "--num_workers=9",
        "--num_workers=1.5",
        "--steps=-1",
        "--keep_minutes=-0.1",
        "--keep_minutes=inf",
        "--keep_minutes=nan",
        "--style=c",
    ],
)
def test_values_that_are_refused(flags, argument):
    with refused("bad_value", argument):
        flags.parse(["t2t-x", argument])


def test_a_misspelled_flag(flags):
    with refused("unknown_flag", "--no_eval_blue", "'eval_bleu'"):
        flags.parse(["t2t-x", "--no_eval_blue"])


def test_help_names_defaults_and_hides_what_is_rarely_needed(flags, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    flags.path("plot_file", "Picture to write")
    flags.group("Rarely needed")
    flags.string("secret", "Rare", note="a=1: one")
    shown, full = (flags.help_text("About.", full) for full in (False, True))
    assert "--secret" not in shown
    assert "      a=1: one" in full
    assert "  --plot_file                 Picture to write" in shown, "it is never narrower"
    assert "[4]" in shown
    assert "[2]" in shown
    assert "[True]" in shown
    assert "[False]" not in shown
    assert "[]" not in shown


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["--x=3", "b"], "t2t-x b --hparams=x=3"),
        # Its other settings stay, but not an earlier value of its own.
        (["--dry_run", "--hparams=a=1, x=2", "--x-y=3"], "--dry_run '--hparams=a=1, x=2,x_y=3'"),
        (["--hparams=a=1, x=2", "--hparams=b=1", "--x=3"], "t2t-x --hparams=a=1,b=1,x=3"),
    ],
)
def test_a_setting_is_advised_by_its_flag(flags, argv, command):
    flags.settings({"hparams": lambda: ["x", "x_y"]})
    with refused("unknown_flag") as info:
        flags.parse(["t2t_x.py", *argv])
    assert str(info.value).endswith(command)
    with refused("unknown_flag", "--x", "--hparams."):
        flags.parse(["t2t_x.py", "--x"])
