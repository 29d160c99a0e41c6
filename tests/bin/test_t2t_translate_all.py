"""Checkpoints that come and go while they are translated with."""

import functools
import shutil
import threading

import pytest

from t2t_keras.bin import following_flags, t2t_translate_all
from t2t_keras.decoding.translator import Translator
from t2t_keras.training.checkpoints import load_weights
from t2t_keras.training.following import Patience

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
    """A copy of the run without its checkpoints, `run.put(step)` and `run.remove(step)`."""

    class Run(type(tmp_path)):
        def put(self, step):
            # The index comes last, as TensorFlow writes it.
            for file in sorted(random_run.glob(f"model.ckpt-{step}.*")):
                shutil.copy(file, self)

        def remove(self, step):
            for file in sorted(self.glob(f"model.ckpt-{step}.*"), reverse=True):
                file.unlink()

    run = Run(tmp_path / "run")
    run.mkdir()
    for name in ("run.json", "vocab.model"):
        shutil.copy(random_run / name, run)
    return run


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "news.en"
    path.write_text("".join(f"{line}\n" for line in SOURCES))
    return path


def read(path):
    return path.read_text().split("\n")[:-1]


def test_every_checkpoint_and_after_a_restart_the_rest(run, source, tmp_path, capsys, expected):
    run.put(10)
    run.put(20)
    directory = tmp_path / "out"
    flags = [f"--output_dir={run}", f"--source={source}", f"--translations_dir={directory}"]
    translate_all(*flags, "--min_steps=20")
    assert sorted(path.name for path in directory.iterdir()) == ["news.en-20", "news.en.json"]
    (directory / "news.en-20").write_text("complete\n")
    run.put(30)
    run.remove(20)
    capsys.readouterr()
    translate_all(*flags)
    assert read(directory / "news.en-10") == expected(10)
    assert read(directory / "news.en-20") == ["complete"]
    assert read(directory / "news.en-30") == expected(30)
    printed = capsys.readouterr().out
    assert f"{directory / 'news.en'}-*: 1 translation of earlier are complete" in printed
    assert "model.ckpt-10: translating" in printed
    assert f"{directory / 'news.en'}-*: 3 translations\n" in printed
    with pytest.raises(SystemExit):
        translate_all(*flags, "--decode_hparams=beam_size=1")
    assert "were made otherwise: beam_size: 2 there, 1 asked for" in capsys.readouterr().err


def test_a_training_that_writes_and_removes(run, source, tmp_path, capsys, monkeypatch, expected):
    """Three checkpoints come from another thread, which keeps two; a fourth is damaged."""
    monkeypatch.setattr(following_flags, "Patience", functools.partial(Patience, poll_seconds=0.02))
    loading, removed = threading.Event(), threading.Event()

    def load(model, path):
        if path.endswith("-20"):
            loading.set()
            assert removed.wait(60)
        load_weights(model, path)

    def train():
        run.put(10)
        while not (tmp_path / "out" / "news.en-10").exists():
            assert not removed.wait(0.02)
        run.put(20)
        assert loading.wait(60)
        run.remove(20)
        removed.set()
        (run / "model.ckpt-25.index").write_bytes(b"damaged")
        run.put(30)

    monkeypatch.setattr("t2t_keras.decoding.translate_all.load_weights", load)
    record = (run / "run.json").read_text()
    (run / "run.json").write_text(record.replace('"train_steps": 100000', '"train_steps": 30'))
    thread = threading.Thread(target=train)
    thread.start()
    try:
        translate_all(
            f"--output_dir={run}",
            f"--source={source}",
            f"--translations_dir={tmp_path / 'out'}",
            "--wait_minutes=1",
        )
    finally:
        thread.join()
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["news.en-10", "news.en-30", "news.en.json"]
    assert read(tmp_path / "out" / "news.en-10") == expected(10)
    assert read(tmp_path / "out" / "news.en-30") == expected(30)
    printed = capsys.readouterr().out
    assert "Waiting for the next checkpoint, at most 1 minutes." in printed
    assert f"{run / 'model.ckpt-20'} is skipped: it was removed while it was read." in printed
    assert "model.ckpt-25 is skipped: The checkpoint" in printed
    assert "2 translations; skipped: step 20, step 25" in printed


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "There is no checkpoint in"),
        (["--min_steps=40"], "There is no checkpoint of at least 40 steps in"),
        (["--source=-"], "--source is read for each checkpoint anew: give a file, not '-'"),
        (["--source=/dev/null"], "give a file, not '/dev/null'"),
        (["--prefix_file=/dev/null"], "--prefix_file is read for each checkpoint anew"),
        (["--source=nowhere"], "nowhere cannot be read"),
        (["--source=x", "--eval_use_test_set"], "exclude each other"),
        (["--wait_minutes=-1"], "wait_minutes"),
        (["--decode_hparams=beem_size=2"], "Did you mean 'beam_size'"),
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

    monkeypatch.setattr(following_flags, "Patience", functools.partial(Patience, sleep=interrupted))
    with pytest.raises(SystemExit) as caught:
        translate_all(f"--output_dir={run}", "--wait_minutes=1")
    assert caught.value.code == 130
    assert "t2t-translate-all: interrupted." in capsys.readouterr().err
