"""A whole training from Python: the run's record, restarts that contradict, and one writer."""

import contextlib
import dataclasses
import json
import os
import re
import sys
import types

import numpy as np
import pytest
from refusals import refused

import t2t_keras as t2t
from t2t_keras import experiment, registry
from t2t_keras.errors import UserError
from t2t_keras.evaluation import follow
from t2t_keras.hyperparameters import HParams
from t2t_keras.io.files import locked_directory
from t2t_keras.models.transformer import Transformer
from t2t_keras.serving.signatures import TranslationModule
from t2t_keras.training.backends.base import Devices
from t2t_keras.training.backends.cluster import Cluster
from t2t_keras.training.distributed import Workers
from t2t_keras.training.run_config import RunConfig, TrainOptions

TINY = "num_layers=1,d_model=8,d_ff=8,num_heads=2,batch_tokens=300,max_length=32,train_steps=1"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A problem and the folder of its data."""
    problem = t2t.problem("algorithmic_identity_binary40", "train_size=50,dev_size=3")
    folder = tmp_path_factory.mktemp("data")
    t2t.generate_data(problem, folder)
    return problem, folder


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """A run of one step, of a model that a user has registered."""
    problem, folder = data
    run = tmp_path_factory.mktemp("trained") / "run"

    class OwnTransformer(Transformer):
        """The same by another name."""

    registry.register_model(OwnTransformer)
    hparams = t2t.hparams("transformer_tiny", TINY)
    result = t2t.train(
        problem, hparams, folder, run, model="own_transformer", worker_gpu=0, eval_bleu=True
    )
    return run, result


def test_a_run_keeps_the_names_of_its_model_and_its_set(trained):
    run, result = trained
    record = json.loads((run / "run.json").read_text())
    assert (record["model"], record["hparams_set"]) == ("own_transformer", "transformer_tiny")
    assert "set_name" not in record["hparams"]
    assert (result.step, set(result.evaluation)) == (1, {"loss", "perplexity", "accuracy", "bleu"})
    assert result.history["val_bleu"] == [result.evaluation["bleu"]]
    measured = {f"val_{name}" for name in result.evaluation}
    assert set(result.history) == {"step", "loss", *measured}


def test_what_ended_before_its_first_save_starts_from_the_same_weights(
    trained, data, tmp_path, monkeypatch
):
    run, result = trained
    arguments = data[0], t2t.hparams("transformer_tiny", TINY, train_steps=0), data[1]
    settings = dict(model="own_transformer", worker_gpu=0, schedule="train")
    for folder, more in ((run.parent, dict(warm_start_from=run.name)), (tmp_path, {})):
        monkeypatch.chdir(folder)
        again = t2t.train(*arguments, tmp_path / "run", **settings, **more)
        np.testing.assert_equal(again.model.get_weights(), result.model.get_weights())
        for file in (tmp_path / "run").glob("*ckpt*"):
            file.unlink()


def test_a_contradicting_restart_names_each_difference(trained, data):
    run, _ = trained
    changes = dict(dropout=0.2, d_ff=64, train_steps=2, recompute=True, microbatch_tokens=99)
    hparams = t2t.hparams("transformer_tiny", TINY, **changes)
    with refused("other_settings", f"--output_dir={run}", f"--warm_start_from={run}") as info:
        t2t.train(data[0], hparams, data[1], run, model="own_transformer", random_seed=5)
    differences = re.findall(r"^  (\w+):\D*([\d.]+)\D*([\d.]+)$", str(info.value), re.MULTILINE)
    # All others are the same, or may change in a run.
    expected = {("dropout", "0.0", "0.2"), ("d_ff", "8", "64"), ("random_seed", "1", "5")}
    assert {*differences} == expected


def test_one_process_writes_into_a_run(trained, data):
    run, _ = trained
    before = {file: file.read_bytes() for file in run.glob("*.json")}
    hparams = t2t.hparams("transformer_tiny", TINY, train_steps=9)
    with (
        locked_directory(run, "another trainer"),
        refused("in_use", run, "another trainer", os.getpid()),
    ):
        t2t.train(data[0], hparams, data[1], run, model="own_transformer", worker_gpu=0)
    assert {file: file.read_bytes() for file in run.glob("*.json")} == before


@pytest.mark.parametrize("order", [1, -1])
def test_every_public_name_can_be_called_again_in_any_order(
    order, trained, tmp_path, monkeypatch, own_registry
):
    loaded = t2t.load_model(trained[0])
    arguments = {"problem": ["translate_ende_toy"], "hparams": ["transformer_base"]}
    arguments |= {"generate_data": ["nothing", tmp_path], "train": ["nothing"] * 4}
    arguments |= {"Adam": [], "SmoothedCrossEntropy": [], "TransformerSchedule": [8]}
    arguments |= {"Translator": [*loaded], "export": [*loaded, __file__], "bleu": [["a"], ["a"]]}
    for name in ("import_user_directory", "load_model", "load_export"):
        arguments[name] = [tmp_path]
    arguments["average_checkpoints"] = [tmp_path, tmp_path]
    arguments |= {"confidences": [t2t.Translator(*loaded), [], []]}
    arguments |= {"HParams": [], "Problem": [], "setting": [1, "one"]}
    arguments |= {"UserError": ["a message"]}
    arguments |= {name: [t2t.Problem] for name in t2t.__all__ if name.startswith("register_")}
    assert set(t2t.__all__) == {*arguments, "__version__"}
    for name in arguments:  # as before any import
        monkeypatch.delitem(sys.modules, f"t2t_keras.{name}", raising=False)
        monkeypatch.delitem(vars(t2t), name, raising=False)
    monkeypatch.setattr(TranslationModule, "signatures", lambda module: {})
    for name in [*arguments][::order] * 2:
        # Where there is nothing, it says so.
        with contextlib.suppress(UserError):
            getattr(t2t, name)(*arguments[name])
    assert isinstance(sys.modules["t2t_keras.hparams"], types.ModuleType)
    assert t2t.hparams("transformer_base") == HParams()


@pytest.mark.parametrize(
    ("name", "wrong", "allowed"),
    [
        ("random_seed", -1, 0),
        ("random_seed", 2**32, 2**32 - 1),
        ("worker_gpu", -1, 0),
        ("eval_steps", -1, 0),
        ("save_checkpoints_secs", -0.5, 0),
        ("keep_checkpoint_max", 0, 1),
        ("cpu_replicas", 0, 1),
        ("worker_timeout_secs", 0.5, 1),
        ("worker_start_secs", 0.5, 1),
    ],
)
def test_numbers_out_of_range_are_refused(data, tmp_path, name, wrong, allowed):
    arguments = data[0], t2t.hparams("transformer_tiny"), tmp_path / "none", tmp_path / "run"
    with refused("bad_value", name, wrong):
        t2t.train(*arguments, **{name: wrong})
    with refused("no_data"):
        t2t.train(*arguments, **{name: allowed})


def test_options_have_types(data, tmp_path):
    arguments = data[0], t2t.hparams("transformer_tiny", TINY), data[1], tmp_path
    for name, value in (("eval_secs", None), ("eval_bleu", "perhaps"), ("eval_steps", 1.5)):
        with refused("bad_value", f"'{name}'", repr(value)):
            t2t.train(*arguments, **{name: value})
    for folders in (("", tmp_path), (data[1], "")):
        with refused("missing_folder"):
            t2t.train(*arguments[:2], *folders)
    with refused("no_checkpoint", tmp_path / "nothing"):
        t2t.train(*arguments, warm_start_from=tmp_path / "nothing", callbacks=None)


def test_a_score_that_there_is_not_is_seen_before_anything_is_made(data, tmp_path):
    arguments = data[0], t2t.hparams("transformer_tiny", TINY), data[1], tmp_path / "run"
    with refused("bad_value", "--best_by=ter", "loss", "bleu"):
        t2t.train(*arguments, eval_bleu=True, best_by="ter")
    assert not (tmp_path / "run").exists()


def test_auto_is_for_the_devices_and_the_weights_of_the_run(data, tmp_path, monkeypatch):
    def recommended(generated, worker_gpu, source, cpu_replicas):
        raise UserError(f"{generated.problem.name}, {worker_gpu}, {source}", code="called")

    monkeypatch.setattr(experiment, "recommended_hparams", recommended)
    monkeypatch.setenv("HOME", str(tmp_path))
    with refused("called", f"{data[0].name}, 0, {tmp_path}/other"):
        t2t.train(data[0], "auto", data[1], "run", worker_gpu=0, warm_start_from="~/other")


DEVICES = Devices(["/cpu:0"], [], 2, fixed_shapes=False)


@pytest.mark.parametrize(("index", "expected"), [(0, "scores"), (1, None)])
def test_the_chief_translates_and_no_other_worker(data, tmp_path, monkeypatch, index, expected):
    @contextlib.contextmanager
    def workers_of_run(options, worker_gpu):
        workers = Workers(Cluster(("a:1", "b:1"), index))
        workers.gather = lambda value: [value, value]
        yield workers

    monkeypatch.setattr(experiment, "workers_of_run", workers_of_run)
    monkeypatch.setattr(experiment.backend, "plan_devices", lambda *_: DEVICES)
    monkeypatch.setattr(experiment.backend, "make_step", lambda *_: types.SimpleNamespace(model=0))
    monkeypatch.setattr(follow, "model_scorer", lambda *_: "scores")
    monkeypatch.setattr(experiment.trainer, "train", lambda *arguments: arguments[6])
    run = RunConfig(data[0], t2t.hparams("transformer_tiny", TINY), data_dir=str(data[1]))
    options = TrainOptions(eval_bleu=True)
    config, score = experiment.train_run(run, tmp_path / "run", 0, options)
    assert (config.problem.name, score) == (data[0].name, expected)


def test_own_hyperparameters_need_a_registered_set(data, tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Own(HParams):
        sharpness: float = t2t.setting(1.0, "of the user's own model")

    with refused("not_registered", "Own"):
        t2t.train(data[0], Own(), data[1], tmp_path)


def test_a_run_does_not_begin_among_data(data):
    problem, folder = data
    with refused("output_belongs_to_other", folder / problem.name):
        t2t.train(problem, t2t.hparams("transformer_tiny", TINY), folder, folder / problem.name)


def test_an_unknown_name_or_option_names_the_nearest(data):
    with pytest.raises(AttributeError, match=r"'trian'.*'train'"):
        t2t.trian  # noqa: B018
    with refused("no_such_argument", "'eval_blue'", "'eval_bleu'", "local_eval_frequency"):
        t2t.train(data[0], "transformer_tiny", data[1], "nowhere", eval_blue=True)


def test_the_model_of_a_result_can_be_compiled(trained):
    run, result = trained
    expected, _ = t2t.load_model(run)
    ids = np.ones([2, 3], np.int32)
    inputs = {"source": ids, "target": ids}
    np.testing.assert_array_equal(result.model(inputs), expected(inputs))
    result.model.compile("sgd", t2t.SmoothedCrossEntropy())
    assert result.model.train_on_batch(inputs, ids) > 0
