"""run.json and a user's own directory: what is registered there, and who misses it."""

import dataclasses

import pytest

from t2t_keras import registry
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams, override_hparams
from t2t_keras.settings import setting
from t2t_keras.training.run_config import RunConfig


@dataclasses.dataclass(frozen=True)
class MyHParams(HParams):
    """With one more."""

    sharpness: float = setting(1.0, "of the user's own model", minimum=0.0)


def my_set():
    return MyHParams(num_layers=1, d_model=8, d_ff=8, num_heads=2)


@pytest.fixture
def save(make_record, tmp_path, monkeypatch):
    """save(**changes): a run that needed /mine, in a process that has imported nothing."""
    monkeypatch.setattr(registry, "user_directories", [])

    def save(**changes):
        changes |= {"user_directories": ("/mine",)}
        dataclasses.replace(make_record(), **changes).save(tmp_path)
        return tmp_path

    return save


def test_what_is_missing_is_named_with_its_directory(save, make_record, monkeypatch):
    problem = dataclasses.replace(make_record().problem, name="my_problem")
    for changes in (
        {"problem": problem},
        {"hparams": dataclasses.replace(my_set(), set_name="my_set")},
        {"hparams": dataclasses.replace(make_record().hparams, activation="my_activation")},
        {"model": "my_model"},
    ):
        run = save(**changes)
        with pytest.raises(UserError, match=r"'my_\w+'.*--t2t_usr_dir=/mine.*import_user_dir"):
            RunConfig.load(run).make_model()
    monkeypatch.setattr(registry, "user_directories", ["/mine"])
    with pytest.raises(UserError, match=r"There is no model 'my_model'.*all of them\.$"):
        RunConfig.load(run).make_model()


def test_a_set_that_needs_no_class_of_its_own_is_not_missed(save, make_record):
    hparams = dataclasses.replace(make_record().hparams, set_name="my_set")
    record = RunConfig.load(save(hparams=hparams))
    assert (record.hparams, record.hparams_set) == (hparams, "my_set")
    assert record.user_directories == ("/mine",)


def test_a_set_with_fields_of_its_own_is_loaded_as_its_class(save, own_registry):
    registry.register_hparams(my_set)
    hparams = registry.hparams("my_set", "sharpness=2.5")
    record = RunConfig.load(save(hparams=hparams))
    assert record.hparams == hparams
    assert override_hparams(record.hparams, "sharpness=3").sharpness == 3.0
    assert registry.changed_hparams(hparams)["sharpness"] == 2.5


def test_a_cosine_keeps_its_last_step(make_record):
    cosine = dict(schedule="cosine", learning_rate=0.01)
    run, longer = (make_record(train_steps=steps, **cosine) for steps in (8, 9))
    run.check_unchanged(run, "mine")
    with pytest.raises(UserError, match="train_steps: recorded 8, requested 9"):
        run.check_unchanged(longer, "mine")
    make_record(train_steps=8).check_unchanged(make_record(train_steps=9), "mine")
