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
    flags.path("path", "")
    flags.integer("num_workers", "", 4, 1, 8)
    flags.number("keep_minutes", "", 2)
    flags.integer("steps", "")
    flags.choice("style", "", ("a", "b"), "a")
    flags.strings("names", "")
    flags.paths("runs", "")
    flags.assignments("hparams", "")
    flags.repeatable_text("sentence", "")
    flags.named_paths("model", "")
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
    assert (flags.runs, flags.hparams) == (["b", "c", "b"], {"x": "1", "y": "2"})
    with refused("given_twice", "'x'"):
        flags.parse(["t2t-x", "--hparams=x=1", "--hparams=x=2"])


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


def test_a_name_may_become_known_after_the_command_line_is_read(flags):
    flags.known_name("engine", "Program that searches", iter(["keras", "other"]), "keras")
    flags.parse(["t2t-x"])
    assert flags.engine == "keras"
    flags.parse(["t2t-x", "--engine=own"])
    assert flags.engine == "own"
    assert "<keras|other>: Program that searches [keras]" in flags.help_text("", False)


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
        (["--dry_run", "--hparams=a=1, x=2", "--x-y=3"], "--dry_run --hparams=a=1,x=2,x_y=3"),
        (["--hparams=a=1, x=2", "--hparams=b=1", "--x=3"], "t2t-x --hparams=a=1,x=3,b=1"),
    ],
)
def test_a_setting_is_advised_by_its_flag(flags, argv, command):
    flags.settings({"hparams": lambda: ["x", "x_y"]})
    with refused("unknown_flag") as info:
        flags.parse(["t2t_x.py", *argv])
    assert str(info.value).endswith(command)
    with refused("unknown_flag", "--x", "--hparams."):
        flags.parse(["t2t_x.py", "--x"])


@pytest.fixture
def configured(flags, tmp_path):
    """configured(text, *argv): reads a file of flags and a command line that names it."""
    flags.path("config", "")
    flags.settings({"hparams": lambda: ["x", "x_y"]})

    def configure(text, *argv):
        (tmp_path / "run.yaml").write_bytes(text.encode("latin-1"))
        flags.parse(["t2t-x", *argv, f"--config={tmp_path / 'run.yaml'}"])
        return flags

    return configure


CONFIG = """
output_dir: some where   # a comment
num_workers: 2
eval_bleu: false
keep_minutes: 1e1
names: [a, b]
runs: c,d
sentence: [one, two]
hparams:
  x: [1, {y: no}]
  "z": 0.5
"""


def test_a_file_has_flags_and_the_command_line_overrides_it(configured):
    flags = configured(CONFIG)
    assert (flags.output_dir, flags.num_workers, flags.eval_bleu) == ("some where", 2, False)
    assert (flags.keep_minutes, flags.names, flags.runs) == (10.0, ["a", "b"], ["c", "d"])
    assert flags.sentence == ["one", "two"]
    assert flags.hparams == {"x": ["1", {"y": "no"}], "z": "0.5"}
    assert flags["num_workers"].present
    assert not flags["steps"].present


@pytest.mark.parametrize(
    "text",
    ["[en-de=runs/averaged, en-fr=~/french]", "{en-de: runs/averaged, en-fr: ~/french}"],
)
def test_a_file_has_names_with_paths(configured, monkeypatch, text):
    monkeypatch.setenv("HOME", "/home/a")
    assert configured(f"model: {text}").model == ["en-de=runs/averaged", "en-fr=/home/a/french"]


def test_what_is_given_replaces_names_with_paths(configured):
    assert configured("model: {en-de: a}", "--model=en-fr=b").model == ["en-fr=b"]


def test_what_is_given_overrides_a_file(configured):
    command_line = [
        "--output_dir=b",
        "--eval_bleu",
        "--names=c",
        "--sentence=three",
        "--hparams=z=1,w=2",
    ]
    flags = configured(CONFIG, *command_line)
    assert (flags.output_dir, flags.eval_bleu, flags.num_workers) == ("b", True, 2)
    assert (flags.names, flags.sentence) == (["c"], ["three"])
    assert flags.hparams == {"x": ["1", {"y": "no"}], "z": "1", "w": "2"}, "name by name"


@pytest.mark.parametrize(
    ("text", "code", "names"),
    [
        ("ouput_dir: a", "unknown_flag", ["'ouput_dir'", "'output_dir'"]),
        ("x: 1", "unknown_flag", ["'x'", "hparams:"]),
        ("config: a", "unknown_flag", ["'config'"]),
        ("num_workers: 9", "bad_value", ["num_workers", "9"]),
        ("keep_minutes: .inf", "bad_value", ["keep_minutes"]),
        ("eval_bleu: 2", "bad_value", ["eval_bleu"]),
        ("output_dir: {a: b}", "bad_value", ["output_dir"]),
        ("output_dir: [a]", "bad_value", ["output_dir"]),
        ("names: [a, [b]]", "bad_value", ["names"]),
        ("eval_bleu: {a: b}", "bad_value", ["eval_bleu", "'a'"]),
        ("num_workers: {a: b}", "bad_value", ["num_workers", "'a'"]),
        ("names: {a: b}", "bad_value", ["names", "'a'"]),
        ("runs: {a: b}", "bad_value", ["runs", "'a'"]),
        ("style: {a: b}", "bad_value", ["style", "'a'"]),
        ("sentence: {a: b}", "bad_value", ["sentence", "'a'"]),
        ("model: {a: [b]}", "bad_value", ["model", "'a'"]),
        ("model: [{a: b}]", "bad_value", ["model", "'a'"]),
        ("path: [a]", "bad_value", ["path"]),
        ("hparams: 1", "bad_value", ["'1'"]),
        ("hparams: [x=1]", "bad_value", ["hparams", "'x=1'"]),
        ("hparams: [{x: 1}]", "bad_value", ["hparams", "'x'"]),
        ("- a", "bad_configuration", ["run.yaml"]),
        ("a: [", "not_yaml", ["run.yaml"]),
        ("dry_run: 1\ndry_run: 1", "given_twice", ["'dry_run'"]),
        ("a: \xff", "not_utf8", ["run.yaml"]),
    ],
)
def test_a_file_that_is_wrong(configured, text, code, names):
    with refused(code, *names):
        configured(text)
