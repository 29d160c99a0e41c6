import os
import re
import signal
import subprocess
import sys
import time

import pytest

from t2t_keras.bin import t2t_datagen
from t2t_keras.data.generated import open_generated
from t2t_keras.registry import problem

NAME = "algorithmic_reverse_binary40"
CONFIG = "train_size=200,dev_size=20,dev_length=40"


def _hear_ctrl_c():
    """A process started in the background of a shell inherits that Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def datagen(*arguments):
    t2t_datagen.run(["t2t-datagen", *arguments])


def test_generates(tmp_path, capsys):
    datagen(f"--problem={NAME}", f"--problem_config={CONFIG}", f"--data_dir={tmp_path}")
    assert f"{NAME}: vocabulary of 5 ids\n  train: 200 pairs" in capsys.readouterr().out
    assert len(open_generated(problem(NAME, CONFIG), tmp_path).store("train")) == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data_dir=x"], "Please give --problem."),
        ([f"--problem={NAME}"], "Please give --data_dir."),
        (["--problem=algoritmic_reverse", "--data_dir=x"], f"no problem .*'{NAME}'"),
        (["--problem=parallel_text", "--data_dir=x"], "parallel_text needs two languages"),
        (["--num_worker=2"], "Did you mean 'num_workers'"),
        (["--num_workers=0"], "num_workers"),
        (["--num_workers=some"], "num_workers"),
    ],
)
def test_errors_are_one_message(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        datagen(*arguments)
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("t2t-datagen: ")
    assert re.search(message, printed.err)


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_leaves_cleanly(tmp_path, workers):
    command = [sys.executable, "-m", "t2t_keras.bin.t2t_datagen", f"--problem={NAME}"]
    command += ["--problem_config=train_size=1_000_000,vocab_lines=1000", f"--data_dir={tmp_path}"]
    process = subprocess.Popen(
        [*command, f"--num_workers={workers}"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_hear_ctrl_c,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / NAME / "vocab.model").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 2, errors
    assert "Traceback" not in errors
    assert errors.startswith("t2t-datagen: Interrupted: there is no complete data")
    assert not (tmp_path / NAME / "manifest.json").exists()
