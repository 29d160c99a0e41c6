"""Checkpoints as .npz: damaged ones, a full disk, what does not fit; they know no backend."""

from pathlib import Path

import keras
import numpy as np
import pytest

from t2t_keras.data import atomic_file
from t2t_keras.errors import UserError
from t2t_keras.training.npz_checkpoints import (
    Checkpoints,
    checkpoint_paths,
    load_weights,
    newest_checkpoint,
)


def make_model(width=3):
    """A model with a few weights."""
    layers = [keras.Input((4,)), keras.layers.Dense(width, name="dense")]
    return keras.Sequential(layers, name="model")


@pytest.fixture
def state():
    """A model, and a number beside it."""
    return {"model": make_model(), "optimizer": {"iterations": keras.Variable(0, dtype="int32")}}


def saved(state, directory, steps, keep=20):
    """Saves a checkpoint at each step whose numbers are all the step's."""
    checkpoints = Checkpoints(directory, state, keep)
    for step in steps:
        fill(state, step)
        checkpoints.save(step)
    return checkpoints


def fill(state, value):
    """Sets all numbers of a state."""
    state["optimizer"]["iterations"].assign(value)
    for weight in state["model"].trainable_variables:
        weight.assign(np.full(weight.shape, value, np.float32))


def value_of(state):
    """The number that all of a state is."""
    found = [state["optimizer"]["iterations"], *state["model"].trainable_variables]
    (value,) = {float(number) for each in found for number in np.ravel(each.value.numpy())}
    return value


def test_names_pruned_and_restored(state, tmp_path):
    saved(state, tmp_path, [1, 2, 3, 10], keep=3)
    names = [Path(path).name for path in checkpoint_paths(tmp_path)]
    assert names == ["model.ckpt-2.npz", "model.ckpt-3.npz", "model.ckpt-10.npz"]
    assert set(np.load(newest_checkpoint(tmp_path)).files) == {
        "model/dense/kernel",
        "model/dense/bias",
        "optimizer/iterations",
    }
    (tmp_path / "model.ckpt-11.npz.0123abcd.partial").write_bytes(b"killed while it was written")
    fill(state, -1)
    assert Checkpoints(tmp_path, state, 3).restore_newest() == newest_checkpoint(tmp_path)
    assert value_of(state) == 10
    assert not list(tmp_path.glob("*.partial"))


def test_nothing_to_restore(state, tmp_path):
    assert Checkpoints(tmp_path, state, 3).restore_newest() is None
    with pytest.raises(UserError, match="no checkpoint"):
        newest_checkpoint(tmp_path)


def flip(path):
    content = bytearray(path.read_bytes())
    # In the array that the middle of the file holds.
    content[content.index(b"NUMPY", len(content) // 3) + 140] ^= 0xFF
    path.write_bytes(content)


def halve(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [flip, halve, empty])
def test_a_damaged_newest_is_named_and_the_one_before_used(state, tmp_path, capsys, damage):
    saved(state, tmp_path, [1, 2])
    damage(tmp_path / "model.ckpt-2.npz")
    with pytest.raises(UserError, match="is damaged"):
        load_weights(state["model"], tmp_path / "model.ckpt-2")
    checkpoints = Checkpoints(tmp_path, state, 20)
    assert checkpoints.restore_newest() == str(tmp_path / "model.ckpt-1.npz")
    assert value_of(state) == 1
    said = capsys.readouterr().out
    assert f"The checkpoint {tmp_path / 'model.ckpt-2.npz'} is damaged and set aside" in said
    assert newest_checkpoint(tmp_path).endswith("-1.npz")
    fill(state, 2)
    checkpoints.save(2)
    fill(state, -1)
    Checkpoints(tmp_path, state, 20).restore_newest()
    assert value_of(state) == 2


def test_all_damaged_is_an_error(state, tmp_path):
    saved(state, tmp_path, [1, 2])
    for path in tmp_path.glob("*.npz"):
        halve(path)
    with pytest.raises(UserError, match="None of the 2 checkpoints"):
        Checkpoints(tmp_path, state, 20).restore_newest()


def test_a_full_disk_names_the_file_and_keeps_the_last_checkpoint(state, tmp_path, monkeypatch):
    checkpoints = saved(state, tmp_path, [1])
    (tmp_path / "begun").symlink_to("/dev/full")
    monkeypatch.setattr(atomic_file, "_temporary", lambda path: path.with_name("begun"))
    with pytest.raises(UserError, match=r"model.ckpt-2.npz cannot be written.*Make room") as full:
        checkpoints.save(2)
    assert f"continues from {tmp_path / 'model.ckpt-1.npz'}" in str(full.value)
    assert [path.name for path in tmp_path.iterdir()] == ["model.ckpt-1.npz"]
    assert Checkpoints(tmp_path, state, 20).restore_newest().endswith("-1.npz")


def test_what_is_not_there_or_does_not_fit(state, tmp_path):
    saved(state, tmp_path, [7])
    with pytest.raises(UserError, match=r"no checkpoint .*ckpt-8.npz.*: model.ckpt-7.npz"):
        load_weights(state["model"], tmp_path / "model.ckpt-8")
    with pytest.raises(UserError, match=r"kernel is \[4, 3\] there, \[4, 2\] in .*\(and 1 more\)"):
        load_weights(make_model(2), tmp_path / "model.ckpt-7")
    two = keras.Sequential([*make_model().layers, keras.layers.Dense(3, name="more")], name="model")
    two.build((None, 4))
    with pytest.raises(UserError, match="hyperparameters: model/more/kernel is not there"):
        load_weights(two, tmp_path / "model.ckpt-7.npz")
    Checkpoints(tmp_path / "two", {"model": two}, 1).save(8)
    with pytest.raises(UserError, match="model/more/kernel is not in the model"):
        load_weights(state["model"], tmp_path / "two" / "model.ckpt-8.npz")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "model.ckpt-5.index").touch()
    for read in (newest_checkpoint, Checkpoints(tmp_path / "theirs", state, 1).restore_newest):
        with pytest.raises(UserError, match=r"TensorFlow wrote, as model.ckpt-5"):
            read(*[tmp_path / "theirs"] * (read is newest_checkpoint))
