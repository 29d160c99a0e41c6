"""The checkpoints of a run: saved, pruned, restored past damaged ones, loaded into models."""

import dataclasses
import resource
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras import hyperparameters
from t2t_keras.training.checkpoint_files import checkpoint_paths, newest_checkpoint, read, step_of
from t2t_keras.training.checkpoints import (
    Checkpoints,
    load_ensemble_model,
    load_model,
    load_weights,
)
from t2t_keras.training.optimizer import make_optimizer
from t2t_keras.training.warm_start import warm_start


def make_model(width=3, more=(), name="dense"):
    layers = [keras.layers.Dense(width, name=name) for name in (name, *more)]
    return keras.Sequential([keras.Input((4,)), *layers], name="model")


@pytest.fixture
def model():
    return make_model()


def save(model, directory, steps, keep=20):
    """Saves a checkpoint at each step whose weights are the step's number."""
    checkpoints = Checkpoints(directory, {"model": model}, keep)
    for step in steps:
        model.set_weights([np.full(weight.shape, step) for weight in model.weights])
        checkpoints.save(step)
    return checkpoints


def value_of(model):
    (value,) = np.unique(np.concatenate([np.ravel(weight) for weight in model.get_weights()]))
    return value


def steps_in(directory):
    return [step_of(path) for path in checkpoint_paths(directory)]


@pytest.mark.parametrize("folder", ["moved", "exp[1]", "a\\b", "x[!a]*?"])
def test_the_oldest_are_deleted_and_the_newest_is_restored(model, tmp_path, folder):
    save(make_model(), tmp_path / "run", [1, 2, 3, 10], keep=3)
    run = (tmp_path / "run").rename(tmp_path / folder)
    (run / "model.ckpt-11.safetensors.0123abcd.partial").touch()
    newest = newest_checkpoint(run)
    assert Checkpoints(run, {"model": model}, 3).restore_newest() == newest
    assert (value_of(model), steps_in(run)) == (10, [2, 3, 10])
    assert not [*run.glob("model.ckpt-1.*"), *run.glob("model.ckpt-11*")]
    for path in (newest, newest.removesuffix(".safetensors")):
        load_weights(other := make_model(), path)
        assert value_of(other) == 10
    # Another process continues, and prunes what the first one wrote.
    save(model, run, [11], keep=2)
    assert steps_in(run) == [10, 11]
    # An earlier step stays, as the best weights of a run that continues from before them.
    save(model, run, [9], keep=1)
    assert steps_in(run) == [9]


def test_arrays_are_named_by_layer(model, tmp_path):
    state = {"model": model, "optimizer": {"iterations": keras.Variable(7, dtype="int32")}}
    arrays, head = read(Checkpoints(tmp_path, state, 1).save(7, {"cost": 5}))
    assert set(arrays) == {"model/dense/kernel", "model/dense/bias", "optimizer/iterations"}
    assert (arrays["optimizer/iterations"], head["step"], head["cost"]) == (7, 7, 5)
    for name in ("adam", "adamw", "lion", "adafactor"):
        hparams = hyperparameters.hparams("transformer_tiny", {"optimizer": name, "ema_decay": 0.5})
        optimizer = make_optimizer(hparams, model.trainable_variables)
        state = {"model": model, "optimizer": optimizer}
        arrays, _ = read(Checkpoints(tmp_path / name, state, 1).save(1))
        assert len(arrays) == 2 + len(optimizer.variables)
        assert {"optimizer/iterations", "optimizer/average/dense/kernel"} < set(arrays)


def test_a_state_on_several_devices(tmp_path):
    """What is the same on all replicas is saved once, and restored on each."""
    devices = [f"/cpu:{number}" for number in range(2)]
    hparams = hyperparameters.hparams("transformer_tiny", {"ema_decay": 0.5})
    with tf.distribute.MirroredStrategy(devices).scope():
        one, other = make_model(), make_model()
        optimizers = [
            make_optimizer(hparams, network.trainable_variables) for network in (one, other)
        ]
    for number, variable in enumerate([*one.weights, *optimizers[0].variables]):
        variable.assign(np.full(variable.shape, number))
    path = Checkpoints(tmp_path, {"model": one, "optimizer": optimizers[0]}, 1).save(1)
    Checkpoints(tmp_path, {"model": other, "optimizer": optimizers[1]}, 1).restore(path)
    for number, variable in enumerate([*other.weights, *optimizers[1].variables]):
        for value in variable.value.values:
            np.testing.assert_array_equal(value, np.full(variable.shape, number))


def test_a_run_does_not_continue_from_weights_only(model, tmp_path):
    save(model, tmp_path, [10])
    state = {"iterations": keras.Variable(0)}
    whole = Checkpoints(tmp_path, {"model": model, "optimizer": state}, 3)
    with refused("weights_only", f"--warm_start_from={tmp_path}/model.ckpt-10"):
        whole.restore_newest()
    other = {"model": make_model(more=["more"]), "optimizer": state}
    with refused("other_model", "more/kernel", " 2 "):
        Checkpoints(tmp_path, other, 3).restore_newest()
    assert whole.save(11) == whole.restore_newest()


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 0xFF
    path.write_bytes(content)


def halve(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_damaged_moments_do_not_keep_weights_from_being_loaded(model, tmp_path):
    hparams = hyperparameters.hparams("transformer_tiny")
    optimizer = make_optimizer(hparams, model.trainable_variables)
    run = Checkpoints(tmp_path, {"model": model, "optimizer": optimizer}, 1)
    model.set_weights([np.full(weight.shape, 7) for weight in model.weights])
    path = run.save(7)
    assert list(read(path)[0])[-1].startswith("optimizer/")
    flip(Path(path))
    load_weights(other := make_model(), path)
    assert value_of(other) == 7
    with refused("checkpoint_damaged", path, "optimizer/"):
        run.restore(path)


def test_what_a_checkpoint_lacks_beside_weights_is_named(model, tmp_path):
    state = {"iterations": keras.Variable(5)}
    path = Checkpoints(tmp_path, {"model": model, "optimizer": state}, 1).save(5)
    more = {"iterations": keras.Variable(0), "scale": keras.Variable(np.zeros(3))}
    with refused("other_model", path, "optimizer/scale", "[3]"):
        Checkpoints(tmp_path, {"model": model, "optimizer": more}, 1).restore(path)
    assert int(more["iterations"].value) == 0, "nothing is restored"


@pytest.mark.parametrize("damage", [flip, halve, Path.unlink])
def test_past_a_damaged_one(model, tmp_path, capfd, damage):
    checkpoints = save(model, tmp_path, [1, 2])
    newest = Path(newest_checkpoint(tmp_path))
    damage(newest)
    gone = damage is Path.unlink
    intact = f"--checkpoint_path={checkpoint_paths(tmp_path)[0]}."
    expected = ["no_checkpoint"] if gone else ["checkpoint_damaged", intact]
    with refused(*expected, newest):
        load_weights(model, newest)
    assert checkpoints.restore_newest() == newest_checkpoint(tmp_path)
    assert (value_of(model), steps_in(tmp_path)) == (1, [1])
    out, err = capfd.readouterr()
    assert err == ""
    assert gone or ("model.ckpt-2" in out and out.count("\n") == 1)
    # So that it can be put back when it is restored from a backup.
    assert gone or (tmp_path / f"damaged.{newest.name}").exists()
    checkpoints.save(2)
    for path in checkpoint_paths(tmp_path):
        halve(Path(path))
    for _ in range(2):
        with refused("checkpoint_damaged", "damaged.model.ckpt-1", "damaged.model.ckpt-2"):
            checkpoints.restore_newest()


def test_what_the_system_does_not_let_be_read_is_not_damaged(model, tmp_path):
    checkpoints = save(model, tmp_path, [1, 2])
    # Root may read every file, but no folder.
    newest = Path(newest_checkpoint(tmp_path))
    newest.unlink()
    newest.mkdir()
    before = sorted(tmp_path.iterdir())
    with refused("checkpoint_not_read", newest, "IsADirectoryError"):
        checkpoints.restore_newest()
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(("damaged", "named"), [(3, "2"), (2, "1"), (1, ""), ("x", "")])
def test_an_earlier_one_is_named(model, tmp_path, damaged, named):
    save(model, tmp_path, [1, 2, 3])
    path = tmp_path / f"model.ckpt-{damaged}.safetensors"
    path.write_bytes(b"")
    with refused("checkpoint_damaged") as info:
        load_weights(model, path)
    actual = str(info.value).partition("--checkpoint_path=")[2]
    assert actual == (f"{tmp_path}/model.ckpt-{named}.safetensors." if named else "")


@pytest.fixture
def limit_file_size():
    """limit_file_size(bytes): no file may grow past them, as on a full disk; -1 = all may."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path, limit_file_size):
    model = make_model(10_000)
    checkpoints = save(model, tmp_path, [1])
    before = sorted(path.name for path in tmp_path.iterdir())
    limit_file_size(100_000)
    whole = Checkpoints(tmp_path, {"model": model, "optimizer": keras.Variable(0)}, 20)
    newest = newest_checkpoint(tmp_path)
    for store in (checkpoints, whole):
        with refused("not_written", tmp_path / "model.ckpt-2") as info:
            store.save(2)
        # From weights alone no run continues.
        assert (newest in str(info.value)) == (store is whole)
    with refused("not_written"):
        checkpoints.save(1)
    limit_file_size(-1)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert checkpoints.restore_newest()


def test_where_there_is_no_such_checkpoint(model, tmp_path):
    assert Checkpoints(tmp_path, {"model": model}, 3).restore_newest() is None
    with refused("no_checkpoint", tmp_path):
        newest_checkpoint(tmp_path)
    save(model, tmp_path, [7])
    with refused("no_checkpoint", "model.ckpt-8", "model.ckpt-7"):
        load_weights(model, tmp_path / "model.ckpt-8")
    save(model, tmp_path / "other" / "best", [7])
    (tmp_path / "other" / "run.json").touch()
    with refused("no_checkpoint", tmp_path / "other" / "best"):
        newest_checkpoint(tmp_path / "other")


def test_a_run_whose_checkpoints_are_gone_does_not_begin_anew(model, tmp_path):
    """That would replace the best weights, too."""
    best = Checkpoints(tmp_path / "best", {"model": model}, 1)
    run = Checkpoints(tmp_path, {"model": model}, 1)
    best.save(5, {"newest_saved": -1})
    assert run.restore_newest() is None, "it was killed before its first checkpoint"
    path = best.save(7, {"newest_saved": 6})
    with refused("checkpoints_gone", f"--warm_start_from={path}"):
        run.restore_newest()


@pytest.mark.parametrize("has_best", [False, True])
def test_nor_where_the_best_weights_do_not_show_that_some_were_saved(model, tmp_path, has_best):
    run = Checkpoints(tmp_path, {"model": model, "optimizer": {"iterations": keras.Variable(0)}}, 1)
    if has_best:
        Checkpoints(tmp_path / "best", {"model": model}, 1).save(5, {"newest_saved": -1})
    assert run.restore_newest() is None
    Path(run.save(0)).unlink()
    assert run.restore_newest() is None, "no step is lost"
    path = Path(run.save(6))
    assert run.restore_newest() == str(path)
    path.unlink()
    for _ in range(2):
        with refused("checkpoints_gone", tmp_path):
            run.restore_newest()


@pytest.mark.parametrize(
    ("theirs", "ours", "names"),
    [
        # As many weights in other shapes.
        ({"width": 4, "more": ["more"]}, {"width": 8}, ["dense/kernel", "[4, 4]", "[4, 8]"]),
        ({}, {"width": 4}, ["[4, 3]", "[4, 4]"]),
        ({}, {"more": ["more"]}, ["model/more/kernel"]),
        ({"more": ["more"]}, {}, ["model/more/bias", " 1 "]),
        # As many weights elsewhere.
        ({}, {"name": "other"}, ["other/kernel"]),
    ],
)
def test_the_weights_of_another_model(tmp_path, theirs, ours, names):
    save(make_model(**theirs), tmp_path, [7])
    with refused("other_model", tmp_path / "model.ckpt-7", *names):
        load_weights(make_model(**ours), tmp_path / "model.ckpt-7")


def test_layers_without_a_name(tmp_path):
    """Keras numbers those of all models of a process."""

    def make():
        layers = [keras.layers.Dense(4, use_bias=False) for _ in range(12)]
        return keras.Sequential([keras.Input((4,)), *layers])

    one, other, hparams = make(), make(), hyperparameters.hparams("transformer_tiny")
    assert one.weights[0].path != other.weights[0].path
    one.set_weights([np.full((4, 4), number) for number in range(12)])
    state = {
        "model": one,
        "optimizer": make_optimizer(hparams, one.weights),
    }
    path = Checkpoints(tmp_path, state, 1).save(1)
    load_weights(other, path)
    assert [weight[0, 0] for weight in other.get_weights()] == list(range(12))
    state = {
        "model": other,
        "optimizer": make_optimizer(hparams, other.weights),
    }
    Checkpoints(tmp_path, state, 1).restore(path)


PAIRS = dict.fromkeys(("source", "target"), np.array([[3, 4, 1, 0], [4, 4, 3, 1]]))


@pytest.fixture
def saved(make_record, tmp_path):
    """The folder of a run with checkpoints at steps 5 and 10, and the logits of each."""
    record, logits = make_record(), {}
    record.save(tmp_path)
    for step in (5, 10):
        model = record.make_model()
        Checkpoints(tmp_path, {"model": model}, keep=2).save(step)
        logits[step] = model(PAIRS).numpy()
    return tmp_path, logits


def test_the_newest_or_a_named_checkpoint_is_loaded(saved, make_record):
    run, logits = saved
    assert np.abs(logits[5] - logits[10]).max() > 0.1
    for path, step in (("", 10), ("model.ckpt-5", 5), ("model.ckpt-5.safetensors", 5)):
        actual = load_model(run / path)
        model, tokenizer = actual
        np.testing.assert_array_equal(model(PAIRS), logits[step])
        assert tokenizer is actual.tokenizer
        assert actual.checkpoint == str(run / f"model.ckpt-{step}.safetensors")
    for path, step in (("", 10), ("model.ckpt-5", 5)):
        warm_start(model, make_record(), str(run / path))
        np.testing.assert_array_equal(model(PAIRS), logits[step])
    record = make_record()
    assert dataclasses.astuple(actual)[2:4] == dataclasses.astuple(record)[:2]
    assert tokenizer.checksum == record.tokenizer.checksum
    half = load_ensemble_model(run, tokenizer, "bfloat16")
    assert {weight.dtype for weight in half.trainable_weights} == {"bfloat16"}


@pytest.mark.parametrize("path", ["nowhere", "model.ckpt-7", "folder"])
def test_what_is_not_there_is_named(saved, path):
    (saved[0] / "folder").mkdir()
    with refused("no_checkpoint", saved[0] / path):
        load_model(saved[0] / path)
