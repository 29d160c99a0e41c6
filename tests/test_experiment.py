"""A whole training from Python: the run's record, restarts that contradict, and one writer."""

import json

import pytest

import t2t_keras as t2t
from t2t_keras import registry
from t2t_keras.errors import UserError
from t2t_keras.io.state import locked_directory
from t2t_keras.models.transformer import Transformer

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


def test_a_contradicting_restart_names_each_difference(trained, data):
    run, _ = trained
    changes = dict(dropout=0.2, d_ff=64, train_steps=2, recompute=True, microbatch_tokens=99)
    hparams = t2t.hparams("transformer_tiny", TINY, **changes)
    with pytest.raises(UserError) as refused:
        t2t.train(data[0], hparams, data[1], run, model="own_transformer", random_seed=5)
    for expected in (
        "dropout: recorded 0.1, requested 0.2",
        "d_ff: recorded 8, requested 64",
        "random_seed: recorded 1, requested 5",
        f"--warm_start_from={run}",
    ):
        assert expected in str(refused.value)
    # The same, or what may change in a run.
    for name in ("d_model", "model:", "train_steps", "recompute", "microbatch_tokens"):
        assert name not in str(refused.value)


def test_one_process_writes_into_a_run(trained, data):
    run, _ = trained
    before = {file: file.read_bytes() for file in run.glob("*.json")}
    hparams = t2t.hparams("transformer_tiny", TINY, train_steps=9)
    with (
        locked_directory(run, "another trainer"),
        pytest.raises(UserError, match=f"{run} is in use by another trainer, process "),
    ):
        t2t.train(data[0], hparams, data[1], run, model="own_transformer", worker_gpu=0)
    assert {file: file.read_bytes() for file in run.glob("*.json")} == before


@pytest.mark.parametrize("name", ["random_seed", "worker_gpu", "keep_checkpoint_max", "eval_steps"])
def test_numbers_out_of_range_are_refused(data, tmp_path, name):
    number = 0 if name == "keep_checkpoint_max" else -1
    with pytest.raises(UserError, match=rf"{name}.*, got .*{number}\b"):
        t2t.train(data[0], t2t.hparams("transformer_tiny"), data[1], tmp_path, **{name: number})


def test_a_run_does_not_begin_among_data(data):
    problem, folder = data
    with pytest.raises(UserError, match=f"{problem.name} contains generated data"):
        t2t.train(problem, t2t.hparams("transformer_tiny", TINY), folder, folder / problem.name)


def test_a_set_can_be_named_again_after_the_package_of_that_name_was_imported():
    from t2t_keras.hparams.transformer import transformer_base

    assert t2t.hparams("transformer_base") == transformer_base()


def test_every_public_name_is_there():
    assert all(getattr(t2t, name) for name in t2t.__all__)
