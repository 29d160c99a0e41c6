"""Checkpoints that are damaged, that do not fit on the disk."""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.training.checkpoints import (
    Checkpoints,
    checkpoint_paths,
    load_weights,
    newest_checkpoint,
)


@pytest.fixture
def model():
    """A model with a few weights."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(300, name="dense")])
    set_weights(model, 0.0)
    return model


def set_weights(model, value):
    """Fills all weights with a number."""
    for weight in model.trainable_variables:
        weight.assign(np.full(weight.shape, value, np.float32))


def saved(model, directory, steps, keep=20):
    """Saves a checkpoint at each step whose weights are the step's number."""
    checkpoints = Checkpoints(directory, {"model": model}, keep)
    for step in steps:
        set_weights(model, step)
        checkpoints.save(step)
    return checkpoints


def value_of(model):
    """The number that all weights have."""
    (value,) = {float(v) for w in model.trainable_variables for v in np.ravel(w.numpy())}
    return value


def test_saved_pruned_and_restored(model, tmp_path):
    saved(model, tmp_path, [1, 2, 3, 10], keep=3)
    assert [Path(path).name for path in checkpoint_paths(tmp_path)] == [
        "model.ckpt-2",
        "model.ckpt-3",
        "model.ckpt-10",
    ]
    assert newest_checkpoint(tmp_path) == tf.train.latest_checkpoint(str(tmp_path))
    set_weights(model, -1)
    restored = Checkpoints(tmp_path, {"model": model}, 3).restore_newest()
    assert restored == str(tmp_path / "model.ckpt-10")
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    whole = Checkpoints(tmp_path, {"model": model, "optimizer": optimizer}, 3)
    with pytest.raises(UserError, match=r"weights alone.*--warm_start_from=.*model.ckpt-10"):
        whole.restore_newest()
    whole.save(11)
    assert whole.restore_newest() == str(tmp_path / "model.ckpt-11")
    assert value_of(model) == 10


def test_nothing_to_restore(model, tmp_path):
    assert Checkpoints(tmp_path, {"model": model}, 3).restore_newest() is None
    with pytest.raises(UserError, match="no checkpoint"):
        newest_checkpoint(tmp_path)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def halve(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize("part", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize("damage", [flip, halve, Path.unlink])
def test_a_damaged_newest_is_named_and_the_one_before_used(model, tmp_path, capsys, part, damage):
    saved(model, tmp_path, [1, 2])
    damage(tmp_path / f"model.ckpt-2.{part}")
    checkpoints = Checkpoints(tmp_path, {"model": model}, 20)
    assert checkpoints.restore_newest() == str(tmp_path / "model.ckpt-1")
    assert value_of(model) == 1
    if (part, damage) != ("index", Path.unlink):  # Without an index there is nothing to name.
        assert f"{tmp_path / 'model.ckpt-2'} is damaged" in capsys.readouterr().out
    assert newest_checkpoint(tmp_path).endswith("-1")
    set_weights(model, 2)
    checkpoints.save(2)
    set_weights(model, -1)
    Checkpoints(tmp_path, {"model": model}, 20).restore_newest()
    assert value_of(model) == 2


def test_all_damaged_is_an_error(model, tmp_path):
    saved(model, tmp_path, [1, 2])
    for path in tmp_path.glob("*.index"):
        halve(path)
    with pytest.raises(UserError, match="None of the 2 checkpoints"):
        Checkpoints(tmp_path, {"model": model}, 20).restore_newest()


FULL_DISK = """
import resource, signal, sys
import keras, numpy as np
from t2t_keras.errors import UserError
from t2t_keras.training.checkpoints import Checkpoints
model = keras.Sequential([keras.Input((400,)), keras.layers.Dense(500)])
checkpoints = Checkpoints(sys.argv[1], {"model": model}, 20)
checkpoints.save(1)
# No file may grow past 100 kB from here on: what a full disk does, at the same place.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    checkpoints.save(2)
except UserError as error:
    sys.exit(f"refused: {error}")
"""


def test_a_full_disk_names_the_file_and_keeps_the_last_checkpoint(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr
    assert f"refused: The checkpoint {tmp_path / 'model.ckpt-2'} cannot be written" in done.stderr
    assert "Make room" in done.stderr
    assert not list(tmp_path.glob("model.ckpt-2*"))
    model = keras.Sequential([keras.Input((400,)), keras.layers.Dense(500)])
    restored = Checkpoints(tmp_path, {"model": model}, 20).restore_newest()
    assert restored == str(tmp_path / "model.ckpt-1")


def test_loading_weights_of_what_is_not_there_or_does_not_fit(model, tmp_path):
    saved(model, tmp_path, [7])
    with pytest.raises(UserError, match=r"no checkpoint .*model.ckpt-8.*model.ckpt-7"):
        load_weights(model, tmp_path / "model.ckpt-8")
    other = keras.Sequential([keras.Input((4,)), keras.layers.Dense(301, name="dense")])
    with pytest.raises(UserError, match="other hyperparameters"):
        load_weights(other, tmp_path / "model.ckpt-7")


def test_a_checkpoint_that_lacks_weights_of_the_model_is_refused(tmp_path):
    class Hiding(keras.Model):
        """Keeps its layers in a list, where TensorFlow's checkpoints do not find them."""

        def __init__(self):
            super().__init__()
            self.parts = [keras.layers.Dense(3)]

        def call(self, x):
            return self.parts[0](x)

    model = Hiding()
    model(np.zeros((1, 2), np.float32))
    path = Checkpoints(tmp_path, {"model": model}, 1).save(1)
    with pytest.raises(UserError, match="holds 0 of 9 weights"):
        load_weights(model, path)
