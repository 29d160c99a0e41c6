import re
import signal
import subprocess
import sys

import pytest

from t2t_keras.bin import t2t_datagen
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.problem import make_problem as problem
from t2t_keras.errors import OutOfMemoryError, UserError

NAME = "algorithmic_reverse_binary40"
CONFIG = "train_size=200,dev_size=20,dev_length=40"


def test_generates_without_tensorflow_and_keras(tmp_path):
    program = (
        "import sys; sys.modules.update(tensorflow=None, keras=None, jax=None)\n"
        "from t2t_keras.bin import t2t_datagen; t2t_datagen.run()"
    )
    flags = [f"--problem={NAME}", f"--problem_config={CONFIG}", f"--data_dir={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-c", program, *flags], capture_output=True, text=True, check=True
    )
    assert re.search(rf"^{NAME}: .*\b5\b.*\n  train: 200 ", done.stdout, re.M)
    assert len(open_generated(problem(NAME, CONFIG), tmp_path).open_examples("train")) == 200


PROBLEM = """
import dataclasses, multiprocessing, os, pathlib, signal
from t2t_keras.data.chunks import FileChunk
from t2t_keras.data.problem import Problem
from t2t_keras.registry import register_problem

class Interrupting(FileChunk):
    def pairs(self, skip=0, every=1):
        fault = self.paths[0].with_name("fault")
        if self.first_line == 7 and every == 1 and fault.exists():
            fault.unlink()
            if self.paths[0].with_name("kill").exists():
                os.kill(multiprocessing.parent_process().pid, signal.SIGKILL)
            os.killpg(0, signal.SIGINT)  # As Ctrl-C in a terminal, which reaches workers too.
        return super().pairs(skip, every)

@register_problem
@dataclasses.dataclass(frozen=True)
class Interrupted(Problem):
    vocab_size: int = 270
    vocab_lines: int = 5

    def chunks(self, tmp_dir, chunk_pairs):
        paths = (tmp_dir / "a.en", tmp_dir / "a.de")
        chunks = [Interrupting(paths, (0, 0), n, 2) for n in range(10)]
        return {"train": chunks, "dev": chunks[:1]}
"""


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize(("workers", "killed"), [(1, False), (2, False), (2, True)])
def test_what_ends_it_early_loses_no_shard(tmp_path, capsys, workers, killed):
    (tmp_path / f"{tmp_path.name}.py").write_text(PROBLEM)
    for name, text in {"a.en": "a cat\n", "a.de": "eine Katze\n", "fault": ""}.items():
        (tmp_path / name).write_text(2 * text)
    if killed:
        (tmp_path / "kill").touch()
    flags = [f"--{name}={tmp_path}" for name in ("t2t_usr_dir", "data_dir", "tmp_dir")]
    flags += ["--problem=interrupted", f"--num_workers={workers}", "--norecommend"]
    # It returns when nobody has its standard error any more: the workers have ended too.
    done = subprocess.run(
        [sys.executable, "-m", "t2t_keras.bin.t2t_datagen", *flags],
        capture_output=True,
        text=True,
        start_new_session=True,
        # A process started in the background of a shell inherits that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    if killed:
        assert done.returncode == -signal.SIGKILL, done.stderr
    else:
        assert done.returncode == 130, done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith("t2t-datagen: ")
        assert str(tmp_path) in done.stderr
    assert not (tmp_path / "interrupted" / "manifest.json").exists()
    t2t_datagen.run(["t2t-datagen", *flags])
    assert re.search(r"\b([5-9]|10) of 10\b", capsys.readouterr().out)
    assert (tmp_path / "interrupted" / "manifest.json").exists()


@pytest.mark.parametrize("error", [UserError, OutOfMemoryError, ImportError])
def test_data_without_a_recommendation_is_complete(tmp_path, monkeypatch, capsys, error):
    def recommendation(generated, datagen_flags):
        assert datagen_flags == flags
        raise error("no room")

    monkeypatch.setattr("t2t_keras.experiment.recommendation", recommendation)
    monkeypatch.setattr("t2t_keras.registry.import_user_directory", lambda path: None)
    flags = ["--t2t_usr_dir=mine", f"--problem={NAME}", f"--problem_config={CONFIG}"]
    flags.append(f"--data_dir={tmp_path}")
    t2t_datagen.run(["t2t-datagen", *flags, "--num_workers=1"])
    assert capsys.readouterr().out.endswith(": no room\n")
    assert len(open_generated(problem(NAME, CONFIG), tmp_path).open_examples("train")) == 200
