"""Checkpoints that come and go while they are translated with."""

import functools
import json
import re
import shutil
from pathlib import Path

import pytest

from t2t_keras.bin import t2t_translate_all
from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.translator import Translator
from t2t_keras.training import checkpoint_files
from t2t_keras.training.checkpoint_files import PollPolicy, checkpoint_at, identity, path_at
from t2t_keras.training.checkpoints import load_weights

pytestmark = pytest.mark.usefixtures("eagerly")

FAST = "--decode_hparams=beam_size=2,extra_length=2,max_length=6"
SOURCES = ["A man sleeps.", "", "The dog eats."]


@pytest.fixture(scope="module")
def expected(random_run):
    """expected(step): what each checkpoint makes of the sources."""
    translator = Translator.from_run(random_run, decode_hparams=FAST.partition("=")[2])

    @functools.cache
    def expected(step):
        load_weights(translator.models[0], random_run / f"model.ckpt-{step}")
        return "".join(f"{translation.text}\n" for translation in translator.translate(SOURCES))

    assert expected(10) != expected(20) != expected(30)
    return expected


@pytest.fixture
def run(random_run, tmp_path):
    """A copy of the run without its checkpoints; the training ends at step 30."""
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(random_run / "vocab.model", run)
    record = json.loads((random_run / "run.json").read_text())
    record["hparams"]["train_steps"] = 30
    (run / "run.json").write_text(json.dumps(record))
    return run


@pytest.fixture
def put(random_run, run):
    """put(step): adds a checkpoint."""

    def put(step):
        shutil.copy(path_at(random_run, step), run)

    return put


@pytest.fixture
def translate_all(run, tmp_path):
    """translate_all(flag, ...): runs the command; returns the content of its files by name."""
    source, directory = tmp_path / "news[1].en", tmp_path / "out"
    source.write_text("".join(f"{line}\n" for line in SOURCES))
    flags = [f"--output_dir={run}", f"--source={source}", f"--translations_dir={directory}", FAST]

    def translate_all(*more):
        t2t_translate_all.run(["t2t-translate-all", *flags, *more])
        files = {path.name: path.read_text() for path in directory.iterdir()}
        assert files.pop("news[1].en.json")
        return files

    return translate_all


def test_every_checkpoint_and_after_a_restart_the_rest(
    run, put, translate_all, tmp_path, capsys, expected
):
    put(10)
    put(20)
    assert translate_all("--min_steps=20") == {"news[1].en-20": expected(20)}
    (tmp_path / "out" / "news[1].en-20").write_text("complete\n")
    put(30)
    Path(path_at(run, 20)).unlink()
    for name in ("news[1].en-40.partial", "news[1].en-tok-40.partial"):
        (tmp_path / "out" / name).touch()
    capsys.readouterr()
    assert translate_all() == {
        "news[1].en-10": expected(10),
        "news[1].en-20": "complete\n",
        "news[1].en-30": expected(30),
        "news[1].en-40.partial": "",
        "news[1].en-tok-40.partial": "",
    }
    printed = capsys.readouterr().out
    output = re.escape(str(tmp_path / "out" / "news[1].en"))
    # Before and after, and what is of this text and not complete.
    assert re.findall(rf"^{output}-\*: (\d+) ", printed, re.M) == ["1", "3"]
    assert re.findall(rf"^{output}(\S+partial) ", printed, re.M) == ["-40.partial"]
    with pytest.raises(SystemExit) as stop:
        translate_all("--decode_hparams=alpha=1")
    assert stop.value.__cause__.code == "other_settings"
    errors = capsys.readouterr().err
    assert re.findall(r"\balpha: \D+(\S+), \D+(\d\.\d)", errors) == [("0.6", "1.0")]


def test_a_checkpoint_is_not_written_over(random_run, run, put, translate_all, tmp_path, capsys):
    put(10)
    checkpoint = Path(path_at(run, 10))
    before = checkpoint.read_bytes()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "news[1].en-10.partial").hardlink_to(checkpoint)
    with pytest.raises(SystemExit) as stop:
        translate_all()
    assert stop.value.__cause__.code == "output_is_input"
    assert "news[1].en-10.partial" in capsys.readouterr().err
    assert checkpoint.read_bytes() == before
    # Nor what belongs to the other models.
    settings = tmp_path / "out" / "news[1].en.json"
    settings.unlink()
    settings.hardlink_to(random_run / "run.json")
    with pytest.raises(SystemExit) as stop:
        translate_all(f"--ensemble={random_run}")
    assert stop.value.__cause__.code == "output_is_input"
    assert "news[1].en.json" in capsys.readouterr().err


def test_a_training_that_goes_on(run, put, translate_all, capsys, monkeypatch, expected):
    """Two checkpoints come while it waits, after a damaged one; the last one ends it."""
    coming = iter([20, 30])
    policy = functools.partial(PollPolicy, sleep=lambda _: put(next(coming)))
    monkeypatch.setattr(checkpoint_files, "PollPolicy", policy)
    for step in (7, 5):
        Path(path_at(run, step)).write_bytes(b"damaged")
    files = translate_all("--wait_minutes=1")
    assert files == {f"news[1].en-{step}": expected(step) for step in (20, 30)}
    [counts] = re.findall(r"^\S+-\*: (.*)$", capsys.readouterr().out, re.M)
    assert re.findall(r"\d+", counts) == ["2", "5", "7"], "translations, and steps left out"


def test_without_a_checkpoint_and_with_ctrl_c(random_run, run, translate_all, refused, monkeypatch):
    problem = type(make_problem("parallel_text"))
    monkeypatch.setattr(problem, "text_name", lambda problem, split, lines: f"my {split}")
    flags = f"--output_dir={run}", "--min_steps=40"
    refused("no_checkpoint 40 --wait_minutes", "t2t-translate-all", *flags)
    # Nothing was begun, so that other settings can be given.
    more = "--decode_hparams=beam_size=3", f"--ensemble={random_run}"
    refused("no_checkpoint 40 --wait_minutes", "t2t-translate-all", *flags, *more)
    stated = json.loads((run / "translations" / "parallel_text.dev.json").read_text())
    assert stated["text"] == "my dev"
    assert stated["ensemble"] == [identity(checkpoint_at(str(random_run)))]

    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        checkpoint_files, "PollPolicy", functools.partial(PollPolicy, sleep=interrupted)
    )
    with pytest.raises(SystemExit) as caught:
        translate_all("--wait_minutes=1")
    assert caught.value.code == 130
