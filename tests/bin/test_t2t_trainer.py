"""The trainer's command line: a whole run, a restart, and what is refused."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf

from t2t_keras.bin import t2t_trainer
from t2t_keras.training import tensorflow_step

PROBLEM = [
    "--problem=algorithmic_identity_binary40",
    "--problem_config=train_size=200,dev_size=10,train_length=10,dev_length=10",
]
SET = [
    "--hparams_set=transformer_tiny",
    "--hparams=num_layers=1,d_model=16,d_ff=16,num_heads=2,batch_tokens=300,max_length=32",
]


def train(*arguments):
    t2t_trainer.run(["t2t-trainer", *map(str, arguments)])


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """A finished run of two steps, made by one command."""
    folder = tmp_path_factory.mktemp("trainer")
    train(
        *PROBLEM,
        *SET,
        f"--data_dir={folder / 'data'}",
        f"--output_dir={folder / 'run'}",
        "--generate_data",
        "--train_steps=2",
        "--random_seed=7",
    )
    return folder / "run"


def refused(capsys, *arguments):
    """Returns what a refused command says."""
    with pytest.raises(SystemExit) as stop:
        train(*arguments)
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert said.startswith("t2t-trainer: ")
    assert "Traceback" not in said
    return said


def test_one_command_makes_data_and_trains(run_dir):
    assert tf.train.latest_checkpoint(str(run_dir)) == str(run_dir / "model.ckpt-2")
    record = json.loads((run_dir / "run.json").read_text())
    assert record["problem"] == "algorithmic_identity_binary40"
    assert record["problem_config"]["train_size"] == 200
    assert record["hparams_set"] == "transformer_tiny"
    assert record["hparams"]["d_model"] == 16
    assert record["hparams"]["warmup_steps"] == 4000
    assert record["random_seed"] == 7
    assert record["vocabulary"]["size"] == 5
    assert len(record["vocabulary"]["sha256"]) == 64
    assert {"t2t_keras", "tensorflow", "keras", "python"} <= set(record["versions"])


def test_a_restart_needs_no_flag_but_the_directory(run_dir, capsys):
    train(f"--output_dir={run_dir}", "--train_steps=3")
    assert "Continuing from" in capsys.readouterr().out
    assert json.loads((run_dir / "run.json").read_text())["random_seed"] == 7
    assert tf.train.latest_checkpoint(str(run_dir)).endswith("-3")


def test_a_dry_run_counts_memory_and_trains_nothing(run_dir, capsys):
    files = sorted(run_dir.iterdir())
    train(f"--output_dir={run_dir}", "--hparams=microbatch_tokens=auto", "--dry_run")
    out = capsys.readouterr().out
    pairs, length = map(int, re.search(r"at worst (\d+) pairs of (\d+) tokens", out).groups())
    assert length == 11
    assert pairs * length >= 300 - length
    for name in ("weights", "optimizer", "activations", "logits", "at most"):
        assert re.search(rf"^{name} +[\d,]+ MB$", out, re.MULTILINE), name
    assert sorted(run_dir.iterdir()) == files


def test_a_run_goes_on_compiled_by_xla(run_dir, tmp_path, monkeypatch):
    by_xla = []

    def compiled(function, **options):
        by_xla.append(options.get("jit_compile"))
        return tf.function(function, autograph=False, **options)

    monkeypatch.setattr(tensorflow_step, "_compiled", compiled)
    shutil.copytree(run_dir, tmp_path / "run")
    train(
        f"--output_dir={tmp_path / 'run'}",
        "--hparams=microbatch_tokens=128",
        "--train_steps=4",
        "--schedule=train",
        "--xla",
    )
    assert True in by_xla
    assert tf.train.latest_checkpoint(str(tmp_path / "run")).endswith("-4")


def test_a_contradicting_restart_is_refused(run_dir, capsys):
    said = refused(capsys, f"--output_dir={run_dir}", "--hparams=dropout=0.3", "--random_seed=8")
    assert "dropout: 0.1 in the run, 0.3 asked for" in said
    assert "random_seed: 7 in the run, 8 asked for" in said
    assert "--warm_start_from" in said


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ([], "Please give --output_dir"),
        (["--output_dir=new"], "--problem and --hparams_set and --data_dir"),
        (
            ["--output_dir=new", "--trian_steps=5"],
            "no flag --trian_steps. Did you mean 'train_steps'",
        ),
        (["--output_dir=new", "--train_steps=many"], "train_steps"),
        (["--output_dir=new", "--worker_gpu=-1"], "worker_gpu"),
        (["--output_dir=new", "--hparams=microbatch_tokens=all"], "a whole number; 'all' came"),
        (["--output_dir=new", "stray"], "'stray' is not a flag"),
        (["--output_dir=new", "--problem=translate_ende_toi"], "'translate_ende_toy'"),
        (["--output_dir=new", "--hparams_set=transformer_bse"], "'transformer_base'"),
        (["--output_dir=new", "--hparams=hidden_size=5"], "'hidden_size' is called 'd_model' here"),
        (["--output_dir=new", "--hparams=droput=5"], "Did you mean 'dropout'"),
        (["--output_dir=new", "--hparams=dropout=5"], "at most 0.99; 5.0 came"),
        (["--output_dir=new", "--t2t_usr_dir=/nowhere"], "no directory with Python files"),
    ],
)
def test_wrong_flags_are_refused_with_what_to_do(capsys, tmp_path, monkeypatch, flags, wanted):
    monkeypatch.chdir(tmp_path)
    given = " ".join(flags)
    defaults = [*PROBLEM[:1], "--hparams_set=transformer_tiny", f"--data_dir={tmp_path}"]
    if "--output_dir=new" in flags and len(flags) > 1:
        flags = [*(each for each in defaults if each.split("=")[0] not in given), *flags]
    assert wanted in refused(capsys, *flags)


def test_missing_data_names_the_command(capsys, tmp_path):
    said = refused(capsys, *PROBLEM, *SET, f"--data_dir={tmp_path}", f"--output_dir={tmp_path}/r")
    assert "t2t-datagen --problem=algorithmic_identity_binary40" in said


def test_too_many_gpus(capsys, run_dir):
    assert "TensorFlow sees" in refused(capsys, f"--output_dir={run_dir}", "--worker_gpu=99")


def test_several_workers_do_not_make_data(capsys, tmp_path, monkeypatch):
    workers = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
    monkeypatch.setenv("TF_CONFIG", workers)
    flags = [*PROBLEM, *SET, f"--data_dir={tmp_path}", f"--output_dir={tmp_path}/r"]
    assert "t2t-datagen first" in refused(capsys, *flags, "--generate_data")


def test_a_users_own_problem_and_set(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(
        "import dataclasses\n"
        "from t2t_keras.data.problem import Problem\n"
        "from t2t_keras.hyperparameters import HParams\n"
        "from t2t_keras.registry import register_hparams, register_problem\n"
        "@register_problem\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class MyCopying(Problem):\n"
        "    'Copies letters.'\n"
        "    vocab_size: int = 16\n"
        "    vocab_kind: str = 'char'\n"
        "    def examples(self, split):\n"
        "        for letters in ('ab', 'ba', 'abc', 'cab'):\n"
        "            yield letters, letters\n"
        "@register_hparams\n"
        "def my_small_set():\n"
        "    'Very small.'\n"
        "    return HParams(num_layers=1, d_model=8, d_ff=8, num_heads=2, batch_tokens=300)\n"
    )
    user = f"--t2t_usr_dir={tmp_path / 'mine'}"
    train(user, "--registry_help")
    assert "my_copying" in capsys.readouterr().out
    train(
        user,
        "--problem=my_copying_rev",
        "--hparams_set=my_small_set",
        f"--data_dir={tmp_path / 'data'}",
        f"--output_dir={tmp_path / 'run'}",
        "--generate_data",
        "--train_steps=1",
        "--schedule=train",
    )
    assert (tmp_path / "run" / "checkpoint").exists()


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "t2t_keras.bin.t2t_trainer", "--registry_help"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for name in ("translate_ende_toy", "transformer_base", "transformer", "parallel_text"):
        assert name in done.stdout
