"""Checkpoints that come and go while they are translated with."""

import functools
import shutil
import threading

import pytest

from t2t_keras.bin import t2t_translate_all
from t2t_keras.decoding.translator import Translator
from t2t_keras.training.checkpoints import watch
from t2t_keras.training.checkpoints.tensorflow import load_weights
from t2t_keras.training.checkpoints.watch import PollPolicy

FAST = "beam_size=2,extra_length=2"
SOURCES = ["A man sleeps.", "", "The dog eats."]


def translate_all(*arguments):
    t2t_translate_all.run(["t2t-translate-all", f"--decode_hparams={FAST}", *map(str, arguments)])


@pytest.fixture(scope="module")
def expected(random_run):
    """expected(step): what each checkpoint makes of the sources."""

    translator = Translator.from_run(random_run, decode_hparams=FAST)

    @functools.cache
    def expected(step):
        load_weights(translator.models[0], random_run / f"model.ckpt-{step}")
        return [translation.text for translation in translator.translate(SOURCES)]

    assert expected(10) != expected(20) != expected(30)
    return expected


@pytest.fixture
def run(random_run, tmp_path):
    """A copy of the run without its checkpoints."""
    run = tmp_path / "run"
    run.mkdir()
    for name in ("run.json", "vocab.model"):
        shutil.copy(random_run / name, run)
    return run


@pytest.fixture
def put(random_run, run):
    """put(step): adds a checkpoint; the index comes last, as TensorFlow writes it."""

    def put(step):
        for file in sorted(random_run.glob(f"model.ckpt-{step}.*")):
            shutil.copy(file, run)

    return put


def remove(run, step):
    for file in sorted(run.glob(f"model.ckpt-{step}.*"), reverse=True):
        file.unlink()


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "news.en"
    path.write_text("".join(f"{line}\n" for line in SOURCES))
    return path


def read(path):
    return path.read_text().split("\n")[:-1]


def test_every_checkpoint_and_after_a_restart_the_rest(
    run, put, source, tmp_path, capsys, expected
):
    put(10)
    put(20)
    directory = tmp_path / "out"
    flags = [f"--output_dir={run}", f"--source={source}", f"--translations_dir={directory}"]
    translate_all(*flags, "--min_steps=20")
    assert sorted(path.name for path in directory.iterdir()) == ["news.en-20", "news.en.json"]
    (directory / "news.en-20").write_text("complete\n")
    put(30)
    remove(run, 20)
    capsys.readouterr()
    translate_all(*flags)
    assert read(directory / "news.en-10") == expected(10)
    assert read(directory / "news.en-20") == ["complete"]
    assert read(directory / "news.en-30") == expected(30)
    printed = capsys.readouterr().out
    assert "1 already translated" in printed
    assert "3 translations" in printed
    with pytest.raises(SystemExit):
        translate_all(*flags, "--decode_hparams=beam_size=1")
    assert "beam_size: recorded 2, requested 1" in capsys.readouterr().err


def test_a_training_that_writes_and_removes(
    run, put, source, tmp_path, capsys, monkeypatch, expected
):
    """Three checkpoints come from another thread, which keeps two; a fourth is damaged."""
    monkeypatch.setattr(watch, "PollPolicy", functools.partial(PollPolicy, poll_seconds=0.02))
    directory = tmp_path / "out"
    loading, removed = threading.Event(), threading.Event()

    def load(model, path):
        if path.endswith("-20"):
            loading.set()
            assert removed.wait(60)
        load_weights(model, path)

    def train():
        put(10)
        while not (directory / "news.en-10").exists():
            assert not removed.wait(0.02)
        put(20)
        assert loading.wait(60)
        remove(run, 20)
        removed.set()
        (run / "model.ckpt-25.index").write_bytes(b"damaged")
        put(30)

    monkeypatch.setattr("t2t_keras.decoding.jobs.all_checkpoints.load_weights", load)
    record = (run / "run.json").read_text()
    (run / "run.json").write_text(record.replace('"train_steps": 100000', '"train_steps": 30'))
    thread = threading.Thread(target=train)
    thread.start()
    try:
        flags = [f"--output_dir={run}", f"--source={source}", f"--translations_dir={directory}"]
        translate_all(*flags, "--wait_minutes=1")
    finally:
        thread.join()
    names = sorted(path.name for path in directory.iterdir())
    assert names == ["news.en-10", "news.en-30", "news.en.json"]
    assert [read(directory / f"news.en-{step}") for step in (10, 30)] == [
        expected(10),
        expected(30),
    ]
    assert "2 translations; skipped: step 20, step 25" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--min_steps=40"], "at least 40 steps"),
        (["--source=-"], "--source must be a regular file, got -"),
        (["--source=x", "--eval_use_test_set"], "exclude each other"),
    ],
)
def test_errors_are_one_message(run, capsys, flags, message):
    with pytest.raises(SystemExit) as caught:
        translate_all(f"--output_dir={run}", *flags)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_ctrl_c_ends_it_quietly(run, capsys, monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "PollPolicy", functools.partial(PollPolicy, sleep=interrupted))
    with pytest.raises(SystemExit) as caught:
        translate_all(f"--output_dir={run}", "--wait_minutes=1")
    assert caught.value.code == 130
