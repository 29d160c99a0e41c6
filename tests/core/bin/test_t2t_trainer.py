"""The trainer's command line: a whole run, a restart, and what is refused."""

import json
import re
import signal
from types import SimpleNamespace

import pytest

from t2t_keras import experiment
from t2t_keras.bin import t2t_trainer
from t2t_keras.io.flags import Flags
from t2t_keras.training.checkpoint_files import newest_checkpoint, path_at
from t2t_keras.training.run_config import TrainOptions

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
    folders = f"--data_dir={folder / 'data'}", f"--output_dir={folder / 'run'}"
    train(*PROBLEM, *SET, *folders, "--generate_data", "--train_steps=2", "--random_seed=7")
    return folder / "run"


def test_one_command_makes_data_and_trains(run_dir):
    assert newest_checkpoint(run_dir) == path_at(run_dir, 2)
    record = json.loads((run_dir / "run.json").read_text())
    recorded = [record[name] for name in ("problem", "hparams_set", "random_seed")]
    assert recorded == ["algorithmic_identity_binary40", "transformer_tiny", 7]
    assert record["problem_config"]["train_size"] == 200
    assert (record["hparams"]["d_model"], record["hparams"]["warmup_steps"]) == (16, 400)
    assert (record["vocabulary"]["size"], len(record["vocabulary"]["sha256"])) == (5, 64)
    assert {"t2t_keras", "tensorflow", "keras", "python"} <= set(record["versions"])


@pytest.mark.usefixtures("eagerly")
def test_a_restart_needs_no_flag_but_the_directory(run_dir, capsys):
    train(f"--output_dir={run_dir}", "--train_steps=3")
    assert str(run_dir / "model.ckpt-2") in capsys.readouterr().out
    assert json.loads((run_dir / "run.json").read_text())["random_seed"] == 7
    assert newest_checkpoint(run_dir) == path_at(run_dir, 3)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_the_exit_status(run_dir, monkeypatch, number):
    """As a shell reports it, so that schedulers start the training again."""
    result = SimpleNamespace(signal=number)
    monkeypatch.setattr(experiment, "train_run", lambda config, *_: (config, result))
    with pytest.raises(SystemExit) as stop:
        train(f"--output_dir={run_dir}")
    assert stop.value.code == 128 + number


def test_a_dry_run_counts_memory_and_trains_nothing(run_dir, capsys):
    files = sorted(run_dir.iterdir())
    train(f"--output_dir={run_dir}", "--hparams=microbatch_tokens=auto", "--dry_run")
    out = capsys.readouterr().out
    pairs, length = map(int, re.search(r"(\d+) rows of (\d+) tokens", out).groups())
    assert length == 11
    assert pairs * length >= 300 - length
    for name in ("weights", "optimizer", "activations", "logits", "at most"):
        assert re.search(rf"^{name} +[\d,]+ MB$", out, re.MULTILINE), name
    assert sorted(run_dir.iterdir()) == files


TWO_VOCABULARIES = ["--problem_config=shared_vocabulary=false", "--hparams=share_embeddings=target"]


@pytest.mark.parametrize(("settings", "more"), [([], 0), (TWO_VOCABULARIES, 37_000 * 1024)])
def test_a_dry_run_needs_no_data(tmp_path, capsys, settings, more):
    # The weights of the paper's big model (README.md), two moments of each, and the best weights.
    big = "--problem=translate_ende", "--hparams_set=transformer_big", "--dry_run"
    train(*big, *settings, f"--data_dir={tmp_path / 'none'}", "--worker_gpu=0")
    out = capsys.readouterr().out
    megabytes = 4 * (214_171_648 + more) / 1e6
    assert re.search(rf"^weights +{megabytes:,.0f} MB$", out, re.MULTILINE)
    disk = (20 + 1) * 3 * megabytes + megabytes
    assert re.search(rf" {disk:,.0f} MB .*--keep_checkpoint_max=20\b", out)


def test_without_flags_the_options_are_those_of_the_library():
    t2t_trainer.define_flags(flags := Flags())
    flags.parse(["t2t-trainer"])
    defaults = vars(TrainOptions()) | {"profile_steps": None}
    assert {name: flags[name].value for name in defaults} == defaults


def test_several_workers_do_not_make_data(refused, tmp_path, monkeypatch):
    flags = [*PROBLEM, *SET, f"--data_dir={tmp_path}", f"--output_dir={tmp_path}/r"]
    workers = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
    monkeypatch.setenv("TF_CONFIG", workers)
    error = "conflicting_settings --generate_data t2t-datagen --data_dir"
    refused(error, "t2t-trainer", *flags, "--generate_data")


def test_too_many_gpus(refused, run_dir):
    flags = f"--output_dir={run_dir}", "--worker_gpu=99"
    refused("no_gpu --worker_gpu=99", "t2t-trainer", *flags)


MINE = """
import dataclasses
from t2t_keras.data.problem import Problem
from t2t_keras.hyperparameters import HParams
from t2t_keras.registry import register_hparams, register_problem

@register_problem
@dataclasses.dataclass(frozen=True)
class MyCopying(Problem):
    "Copies letters."
    vocab_size: int = 16
    vocab_kind: str = "char"

    def examples(self, split):
        return [(letters, letters) for letters in ("ab", "ba", "abc", "cab")]

@register_hparams
def my_small_set():
    "Very small."
    return HParams(num_layers=1, d_model=8, d_ff=8, num_heads=2, batch_tokens=300)
"""


@pytest.mark.usefixtures("eagerly", "own_registry")
def test_a_users_own_problem_and_set(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(MINE)
    user = f"--t2t_usr_dir={tmp_path / 'mine'}"
    train(user, "--registry_help")
    assert "my_copying" in capsys.readouterr().out
    mine = "--problem=my_copying_rev", "--hparams_set=my_small_set"
    folders = f"--data_dir={tmp_path / 'data'}", f"--output_dir={tmp_path / 'run'}"
    train(user, *mine, *folders, "--generate_data", "--train_steps=1", "--schedule=train")
    assert newest_checkpoint(tmp_path / "run") == path_at(tmp_path / "run", 1)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert str(tmp_path / "mine") in record["t2t_usr_dir"]
