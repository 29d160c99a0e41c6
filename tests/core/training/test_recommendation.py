"""--hparams_set=auto, what t2t-datagen ends with, and how long a training takes."""

import dataclasses
import itertools
import json
import re
import shlex
from types import SimpleNamespace

import numpy as np
import pytest
from refusals import refused

from t2t_keras import experiment, hyperparameters, registry
from t2t_keras.bin import t2t_datagen, t2t_trainer
from t2t_keras.data.dataset import ExampleStore
from t2t_keras.data.problem import make_problem
from t2t_keras.errors import UserError
from t2t_keras.experiment import duration, recommended_hparams, train
from t2t_keras.hyperparameters import HParams
from t2t_keras.models.transformer import Transformer
from t2t_keras.training.backends import base as backend

PROBLEM = "algorithmic_reverse_binary40"
SETTINGS = "train_size=200,dev_size=10,train_length=10,dev_length=10"


@pytest.fixture
def recommend(monkeypatch):
    """recommend(problem, pairs, gpus, source_ids): for pairs of 10 tokens a side, and GPUs."""

    def recommend(name, pairs, gpus=(), source_ids=None):
        devices = backend.Devices([], list(gpus), 1, False)
        monkeypatch.setattr(backend, "plan_devices", lambda worker_gpu, cpu_replicas: devices)
        store = ExampleStore([], [np.full((pairs, 2), 10, np.int32)])
        tokenizer = SimpleNamespace(source_vocab_size=source_ids)
        return recommended_hparams(
            SimpleNamespace(
                problem=make_problem(name),
                open_examples=lambda split: store,
                tokenizer=tokenizer,
            )
        )

    return recommend


@pytest.mark.parametrize(
    ("pairs", "gpus", "hparams_set"),
    [
        (20_000, (), "transformer_cpu"),
        (100_000, ("a", "b"), "transformer_cpu"),
        (100_001, (), "transformer_small"),
        (1_000_000, ("a",), "transformer_small"),
        (1_000_001, (), "transformer_small"),
        (1_000_001, ("a",), "transformer_base"),
    ],
)
def test_the_size_of_the_data_and_a_gpu_decide(recommend, pairs, gpus, hparams_set):
    hparams, named = recommend("parallel_text", pairs, gpus), hyperparameters.hparams(hparams_set)
    assert hparams.set_name == hparams_set
    assert hparams == dataclasses.replace(named, train_steps=hparams.train_steps)
    assert 1000 <= hparams.train_steps <= named.train_steps


def test_small_data_is_not_seen_forever(recommend):
    assert recommend("parallel_text", 500).train_steps == 1000
    steps = [recommend("parallel_text", pairs).train_steps for pairs in (20_000, 40_000)]
    assert steps[1] == pytest.approx(2 * steps[0], abs=100)


@pytest.mark.parametrize(
    ("problem", "hparams_set"),
    [
        ("translate_ende_multi30k", "transformer_multi30k"),
        ("parsing_wsj_semi", "transformer_parsing_big"),
        ("translate_ende_toy", "transformer_tiny"),
    ],
)
def test_a_problem_may_name_its_set(recommend, problem, hparams_set):
    assert recommend(problem, 5_000_000) == hyperparameters.hparams(hparams_set)


@pytest.mark.parametrize("problem", ["parallel_text", "translate_ende_toy"])
def test_two_vocabularies_share_no_embeddings(recommend, problem):
    hparams = recommend(problem, 500, source_ids=11)
    assert hparams.share_embeddings == "target"
    Transformer.from_hparams(hparams, 9, source_vocab_size=11)


@pytest.mark.usefixtures("eagerly")
def test_from_datagen_to_a_continued_run(tmp_path, capsys, monkeypatch, own_registry):
    hparams = HParams(num_layers=1, d_model=16, d_ff=16, num_heads=2, batch_tokens=300)
    small = dataclasses.replace(hparams, max_length=32, train_steps=2)
    registry.HPARAMS_SETS.entries["transformer_tiny"] = lambda: small
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiment, "_TIMING_SECONDS", 1e-9)
    (tmp_path / "runs" / PROBLEM).mkdir(parents=True)  # Another run is there.
    run = f"runs/{PROBLEM}-2"
    flags = [f"--problem={PROBLEM}", f"--problem_config={SETTINGS}", "--data_dir=my data"]
    t2t_datagen.run(["t2t-datagen", *flags])
    output = capsys.readouterr().out
    assert re.search(r" transformer_tiny \D+ 2 steps\D+ 1 min \D+ \d+ cores", output)
    command = shlex.split(output.splitlines()[-1])
    assert command == ["t2t-trainer", *flags, f"--output_dir={run}", "--hparams_set=auto"]
    t2t_trainer.run(command)
    record = json.loads((tmp_path / run / "run.json").read_text())
    assert (record["hparams_set"], record["hparams"]["train_steps"]) == ("transformer_tiny", 2)
    assert "transformer_tiny" in capsys.readouterr().out
    # What it has resolved to stays, whatever would be recommended now.
    registry.HPARAMS_SETS.entries["transformer_tiny"] = lambda: hparams
    t2t_trainer.run([*command, "--train_steps=3"])
    assert f"{run}/model.ckpt-2" in capsys.readouterr().out
    problem = make_problem(PROBLEM, SETTINGS)
    result = train(problem, "auto", "my data", run, train_steps=4)
    assert (result.step, result.model.config.d_model) == (4, 16)


def test_what_cannot_be_recommended_leaves_the_data(tmp_path, capsys, own_registry):
    def fails():
        raise UserError("there is none")

    registry.HPARAMS_SETS.entries["transformer_tiny"] = fails
    flags = [f"--problem={PROBLEM}", f"--problem_config={SETTINGS}", f"--data_dir={tmp_path}"]
    t2t_datagen.run(["t2t-datagen", *flags])
    assert "there is none" in capsys.readouterr().out
    t2t_datagen.run(["t2t-datagen", *flags, "--norecommend"])
    assert "there is none" not in capsys.readouterr().out


def test_a_warm_start_needs_a_run_whose_length_does_not_count(tmp_path, make_record):
    generated = SimpleNamespace(
        problem=make_problem("parallel_text"),
        open_examples=lambda split: ExampleStore([], [np.full((9, 2), 10, np.int32)]),
        tokenizer=SimpleNamespace(source_vocab_size=None),
    )
    with refused("no_run", f"--warm_start_from={tmp_path}"):
        recommended_hparams(generated, warm_start_from=str(tmp_path))
    own = dict(train_steps=8, dropout=0.3)
    record = make_record(**own, ema_decay=0.5, lora_rank=2, lora_alpha=3.0, trainable=(".*kernel",))
    record.save(tmp_path)
    actual = recommended_hparams(generated, warm_start_from=str(tmp_path / "model.ckpt-8"))
    # What a training does with the weights is not what the weights need.
    expected = make_record(**own).hparams
    assert actual == dataclasses.replace(expected, train_steps=1000)


def test_a_measured_step_has_fewer_tokens(generated, own_registry, monkeypatch):
    hparams = HParams(batch_tokens=40_960, train_steps=100, num_layers=1, d_model=8, d_ff=8)
    registry.HPARAMS_SETS.entries["transformer_tiny"] = lambda: hparams
    step = SimpleNamespace(num_replicas=1, local_replicas=range(1), fixed_shapes=False)
    step.update = lambda *_: {"loss": 0.0}
    monkeypatch.setattr(backend, "make_step", lambda *_: step)
    clock = SimpleNamespace(monotonic=itertools.count(0, 2).__next__)
    monkeypatch.setattr(experiment, "time", clock)
    text = experiment.recommendation(generated, ["--problem=mine"])
    # Two seconds for a tenth of the tokens.
    assert "for 100 steps, which take about 33 min on" in text


def test_durations_are_said_as_people_say_them():
    texts = [duration(seconds) for seconds in (1, 700, 7100, 7200, 170_000, 172_800)]
    assert texts == ["1 min", "12 min", "118 min", "2 hours", "47 hours", "2 days"]
