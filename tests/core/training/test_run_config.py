"""run.json and a user's own directory: what is registered there, and who misses it."""

import dataclasses
import json

import pytest
from refusals import refused

from t2t_keras import hyperparameters, registry
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams, override_hparams
from t2t_keras.settings import setting
from t2t_keras.training.run_config import RunConfig, merge_flags


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
        with refused("missing_user_directory", "=/mine", "import_user_directory", "'my_"):
            RunConfig.load(run).make_model()
    monkeypatch.setattr(registry, "user_directories", ["/mine"])
    with refused("unknown_name", "'my_model'"):
        RunConfig.load(run).make_model()


def test_a_set_that_needs_no_class_of_its_own_is_not_missed(save, make_record):
    hparams = dataclasses.replace(make_record().hparams, set_name="my_set")
    record = RunConfig.load(save(hparams=hparams))
    assert (record.hparams, record.hparams_set) == (hparams, "my_set")
    assert record.user_directories == ("/mine",)


def test_a_set_with_fields_of_its_own_is_loaded_as_its_class(save, own_registry):
    registry.register_hparams(my_set)
    hparams = hyperparameters.hparams("my_set", "sharpness=2.5")
    record = RunConfig.load(save(hparams=hparams))
    assert record.hparams == hparams
    assert override_hparams(record.hparams, "sharpness=3").sharpness == 3.0
    assert hyperparameters.changed_hparams(hparams)["sharpness"] == 2.5


def test_a_cosine_keeps_its_last_step(make_record):
    cosine = dict(schedule="cosine", learning_rate=0.01)
    run, longer = (make_record(train_steps=steps, **cosine) for steps in (8, 9))
    run.check_unchanged(run, "mine")
    with refused("other_settings", "train_steps", 8, 9):
        run.check_unchanged(longer, "mine")
    make_record(train_steps=8).check_unchanged(make_record(train_steps=9), "mine")


@pytest.mark.parametrize(("split", "counts"), [("train", True), ("dev", False), ("test", False)])
def test_only_the_training_data_is_the_run_s(make_record, generated, split, counts):
    files = generated.manifest["files"] | {f"{split}-x.tokens.npy": {"sha256": "0"}}
    data = dataclasses.replace(generated, manifest=generated.manifest | {"files": files})
    assert (make_record().with_data(data).data != make_record().data) == counts


def test_flags_count_more_than_what_is_recorded(make_record):
    recorded = make_record(dropout=0.3)
    for flags in ({}, dict(problem="", hparams_set="auto", random_seed=None, hparams={})):
        assert merge_flags(recorded, flags).resume_invariants() == recorded.resume_invariants()
    flags = dict(problem_config={"train_size": 7}, hparams={"dropout": 0.5}, random_seed=0)
    actual = merge_flags(recorded, flags | dict(train_steps=0, data_dir="here"))
    assert actual.problem.config() == recorded.problem.config() | {"train_size": 7}
    assert actual.hparams == override_hparams(recorded.hparams, "dropout=0.5,train_steps=0")
    assert (actual.random_seed, actual.data_dir) == (0, "here")
    assert merge_flags(recorded, {"hparams_set": "transformer_big"}).hparams == (
        hyperparameters.hparams("transformer_big")
    )
    auto = dict(problem="parallel_text", hparams_set="auto", hparams="dropout=0.5", data_dir="d")
    merged = merge_flags(None, auto, lambda problem, data_dir: recorded.hparams)
    assert merged.hparams == override_hparams(recorded.hparams, "dropout=0.5")


def test_the_problem_knows_the_recorded_vocabulary(make_record, monkeypatch):
    recorded = make_record()
    monkeypatch.setattr(type(recorded.problem), "with_vocabulary", lambda *arguments: arguments)
    problem, vocabulary = merge_flags(recorded, {"problem_config": {"train_size": 7}}).problem
    assert (problem.train_size, vocabulary) == (7, recorded.tokenizer)


@pytest.fixture
def changed(save, tmp_path):
    """changed(**values): a run whose run.json has these values, of hyperparameters too."""

    def change(**values):
        path = save() / "run.json"
        content = json.loads(path.read_text())
        for name, value in values.items():
            owner = content["hparams"] if name in content["hparams"] else content
            owner[name] = value
        path.write_text(json.dumps(content))
        return tmp_path

    return change


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("model", []), ("model", None), ("random_seed", "1"), ("data_dir", {})),
        *(("problem", ["x"]), ("problem_config", 5), ("hparams", []), ("hparams_set", {})),
        *(("vocabulary", []), ("vocabulary", {"file": "vocab.model"}), ("t2t_usr_dir", 5)),
        *(("num_layers", []), ("num_layers", "x"), ("num_layers", 10**9), ("num_layers", 1001)),
        *(("num_encoder_layers", 1001), ("num_decoder_layers", 1001), ("first_position", 65_536)),
        *(("dropout", 10**400), ("dropout", None), ("pre_norm", 1), ("activation", ["relu"])),
    ],
)
def test_values_that_no_run_has(changed, name, value):
    with pytest.raises(UserError) as refusal:
        RunConfig.load(changed(**{name: value}))
    assert "run.json" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_largest_values_are_read(changed):
    record = RunConfig.load(changed(num_layers=1000, first_position=65_535, dropout=0))
    assert record.hparams.depths() == (1000, 1000)
    assert (record.hparams.first_position, record.hparams.dropout) == (65_535, 0.0)
    assert type(record.hparams.dropout) is float


def test_a_model_that_fills_the_memory_is_not_made(changed):
    record = RunConfig.load(changed(d_model=10**8, d_ff=10**8, num_heads=2))
    with refused("model_too_large"):
        record.make_model(will_load=True)
