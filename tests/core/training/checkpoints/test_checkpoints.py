"""Both formats of checkpoints: pruned, damaged, on a full disk, of another model."""

import resource
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras import registry
from t2t_keras.training.checkpoints import base, npz
from t2t_keras.training.checkpoints import tensorflow as checkpoints
from t2t_keras.training.checkpoints.names import step_of
from t2t_keras.training.optimizer import make_optimizer


@pytest.fixture(params=[checkpoints, npz], ids=["tensorflow", "npz"])
def files(request):
    """The module of a format."""
    return request.param


def make_model(width=3, more=()):
    layers = [keras.layers.Dense(width, name=name) for name in ("dense", *more)]
    return keras.Sequential([keras.Input((4,)), *layers], name="model")


@pytest.fixture
def model():
    return make_model()


def save(files, model, directory, steps, keep=20):
    """Saves a checkpoint at each step whose weights are the step's number."""
    kept = files.Checkpoints(directory, {"model": model}, keep)
    for step in steps:
        model.set_weights([np.full(weight.shape, step) for weight in model.weights])
        kept.save(step)
    return kept


def value_of(model):
    (value,) = np.unique(np.concatenate([np.ravel(each) for each in model.get_weights()]))
    return value


def steps_in(files, directory):
    return [step_of(path) for path in files.checkpoint_paths(directory)]


# TensorFlow takes such a path for a pattern when it reads.
@pytest.mark.parametrize("folder", ["moved", "exp[1]", "a\\b", "x[!a]*?"])
def test_the_oldest_are_deleted_and_the_newest_is_restored(files, model, tmp_path, folder):
    save(files, make_model(), tmp_path / "run", [1, 2, 3, 10], keep=3)
    run = (tmp_path / "run").rename(tmp_path / folder)
    (run / "model.ckpt-11.npz.0123abcd.partial").touch()
    (run / "model.ckpt-11_temp").mkdir()
    newest = files.newest_checkpoint(run)
    if folder == "moved":
        assert tf.train.latest_checkpoint(str(run)) == (newest if files is checkpoints else None)
    assert files.Checkpoints(run, {"model": model}, 3).restore_newest() == newest
    assert (value_of(model), steps_in(files, run)) == (10, [2, 3, 10])
    assert not [*run.glob("model.ckpt-1.*"), *run.glob("model.ckpt-11*")]
    files.load_weights(other := make_model(), newest)
    assert value_of(other) == 10
    # Another process continues, and prunes what the first one wrote.
    save(files, model, run, [11], keep=2)
    assert steps_in(files, run) == [10, 11]
    # An earlier step stays, as the best weights of a run that continues from before them.
    save(files, model, run, [9], keep=1)
    assert steps_in(files, run) == [9]


def test_the_arrays_of_an_npz_are_named_by_layer(model, tmp_path):
    state = {"model": model, "optimizer": {"iterations": keras.Variable(7, dtype="int32")}}
    arrays = np.load(npz.Checkpoints(tmp_path, state, 1).save(7))
    assert set(arrays) == {"model/dense/kernel", "model/dense/bias", "optimizer/iterations"}
    assert arrays["optimizer/iterations"] == 7
    for name in ("adam", "adamw", "lion", "adafactor"):
        hparams = registry.hparams("transformer_tiny", {"optimizer": name, "ema_decay": 0.5})
        optimizer = make_optimizer(hparams, model.trainable_variables)
        state = {"model": model, "optimizer": optimizer}
        arrays = np.load(npz.Checkpoints(tmp_path / name, state, 1).save(1))
        assert len(arrays) == 2 + len(optimizer.variables)


def test_a_run_does_not_continue_from_weights_only(files, model, tmp_path):
    save(files, model, tmp_path, [10])
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    state = {"iterations": optimizer.iterations} if files is npz else optimizer
    whole = files.Checkpoints(tmp_path, {"model": model, "optimizer": state}, 3)
    with refused("weights_only", f"--warm_start_from={tmp_path}/model.ckpt-10"):
        whole.restore_newest()
    if files is npz:  # TensorFlow's cannot tell.
        other = {"model": make_model(more=["more"]), "optimizer": state}
        with refused("other_model", "more/bias", " 2 "):
            files.Checkpoints(tmp_path, other, 3).restore_newest()
    assert whole.save(11) == whole.restore_newest()


def flip(path):
    content = bytearray(path.read_bytes())
    # In the values of an array, after its header.
    start = content.index(b"NUMPY") + 140 if path.suffix == ".npz" else len(content) // 2
    content[start] ^= 0xFF
    path.write_bytes(content)


def halve(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


PARTS = pytest.mark.parametrize(
    ("files", "part"),
    [(checkpoints, ".index"), (checkpoints, ".data-00000-of-00001"), (npz, ".npz")],
)


@pytest.mark.parametrize("damage", [flip, halve, Path.unlink])
@PARTS
def test_past_a_damaged_one(model, tmp_path, capfd, files, part, damage):
    kept = save(files, model, tmp_path, [1, 2])
    damage(tmp_path / f"model.ckpt-2{part}")
    gone = damage is Path.unlink and not part.startswith(".data")
    intact = f"--checkpoint_path={files.checkpoint_paths(tmp_path)[0]}."
    expected = ["no_checkpoint"] if gone else ["checkpoint_damaged", intact]
    with refused(*expected, "model.ckpt-2"):
        files.load_weights(model, tmp_path / "model.ckpt-2")
    capfd.readouterr()
    assert kept.restore_newest() == files.newest_checkpoint(tmp_path)
    assert (value_of(model), steps_in(files, tmp_path)) == (1, [1])
    out, err = capfd.readouterr()
    assert err == "", "a line of TensorFlow's"
    assert gone or ("model.ckpt-2" in out and out.count("\n") == 1)
    # With all that belongs to it, so that it can be put back when it is restored from a backup.
    left = [path.name for path in tmp_path.glob("*ckpt-2*")]
    assert gone or all(name.startswith("damaged.") for name in left)
    if files is checkpoints:
        assert tf.train.get_checkpoint_state(tmp_path).all_model_checkpoint_paths == [
            str(tmp_path / "model.ckpt-1")
        ]
    kept.save(2)
    for step in (1, 2):
        halve(tmp_path / f"model.ckpt-{step}{files.SUFFIX}")
    for _ in range(2):
        with refused("checkpoint_damaged", "damaged.model.ckpt-1", "damaged.model.ckpt-2"):
            kept.restore_newest()


@PARTS
def test_what_the_system_does_not_let_be_read_is_not_damaged(model, tmp_path, files, part):
    kept = save(files, model, tmp_path, [1, 2])
    # Root may read every file, but no folder.
    (tmp_path / f"model.ckpt-2{part}").unlink()
    (tmp_path / f"model.ckpt-2{part}").mkdir()
    before = sorted(tmp_path.iterdir())
    with refused("checkpoint_not_read", tmp_path / "model.ckpt-2", "IsADirectoryError"):
        kept.restore_newest()
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError("the header is wrong"), "checkpoint_damaged"),
        (OSError(5, "Input/output error"), "checkpoint_not_read"),
        (MemoryError(), "checkpoint_not_read"),
        (ValueError(), "checkpoint_damaged"),
    ],
)
def test_what_the_system_refuses_has_a_number(tmp_path, error, code):
    (tmp_path / "model.ckpt-2.npz").touch()
    assert base.unreadable(tmp_path / "model.ckpt-2.npz", error).code == code
    seen = base.unreadable(tmp_path / "model.ckpt-2.npz", error, is_unseen=True)
    assert seen.code == "checkpoint_not_read"


@pytest.mark.parametrize(
    ("damaged", "named"), [(3, "ckpt-2.npz"), (2, "ckpt-1.npz"), (1, ""), ("x", "")]
)
def test_an_earlier_one_is_named(model, tmp_path, damaged, named):
    save(npz, model, tmp_path, [1, 2, 3])
    path = tmp_path / f"model.ckpt-{damaged}.npz"
    path.write_bytes(b"")
    with refused("checkpoint_damaged") as info:
        npz.load_weights(model, path)
    found = str(info.value).partition("--checkpoint_path=")[2]
    assert found == (f"{tmp_path}/model.{named}." if named else "")


@pytest.fixture
def limit_file_size():
    """limit_file_size(bytes): no file may grow past them, as on a full disk; -1 = all may."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_keeps_the_last_checkpoint(files, tmp_path, limit_file_size):
    model = make_model(10_000)
    kept = save(files, model, tmp_path, [1])
    before = sorted(path.name for path in tmp_path.iterdir())
    limit_file_size(100_000)
    whole = files.Checkpoints(tmp_path, {"model": model, "optimizer": keras.Variable(0)}, 20)
    newest = files.newest_checkpoint(tmp_path)
    for each in (kept, whole):
        with refused("not_written", tmp_path / "model.ckpt-2") as info:
            each.save(2)
        # From weights alone no run continues.
        assert (newest in str(info.value)) == (each is whole)
    with refused("not_written"):
        kept.save(1)
    limit_file_size(-1)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert kept.restore_newest()


def test_where_there_is_no_such_checkpoint(files, model, tmp_path):
    assert files.Checkpoints(tmp_path, {"model": model}, 3).restore_newest() is None
    with refused("no_checkpoint", tmp_path):
        files.newest_checkpoint(tmp_path)
    save(files, model, tmp_path, [7])
    with refused("no_checkpoint", "model.ckpt-8", "model.ckpt-7"):
        files.load_weights(model, tmp_path / "model.ckpt-8")


@pytest.mark.parametrize("left", ["", ".data-00000-of-00001"])
def test_a_run_whose_checkpoints_are_gone_does_not_begin_anew(model, tmp_path, left):
    kept = save(checkpoints, model, tmp_path, [7])
    best = save(checkpoints, model, tmp_path / "best", [5])
    for file in tmp_path.glob("model.ckpt-7*"):
        if not (left and file.name.endswith(left)):
            file.unlink()
    path = checkpoints.newest_checkpoint(tmp_path / "best")
    with refused("checkpoints_gone", f"--warm_start_from={path}"):
        kept.restore_newest()
    (tmp_path / "run.json").touch()
    with refused("no_checkpoint", tmp_path / "best"):
        checkpoints.newest_checkpoint(tmp_path)
    assert best.restore_newest() == path


@pytest.mark.parametrize(
    ("files", "theirs", "ours", "names"),
    [
        # As many weights in other shapes.
        (
            checkpoints,
            {"width": 4, "more": ["more"]},
            {"width": 8},
            ["dense/kernel", "[4, 4]", "[4, 8]"],
        ),
        (checkpoints, {}, {"more": ["more"]}, [" 15 ", " 27"]),
        (checkpoints, {"more": ["more"]}, {}, [" 27 ", " 15"]),
        (npz, {}, {"width": 4}, ["[3]", "[4]"]),
        (npz, {}, {"more": ["more"]}, ["model/more/bias"]),
        (npz, {"more": ["more"]}, {}, ["model/more/bias", " 1 "]),
    ],
)
def test_the_weights_of_another_model(tmp_path, files, theirs, ours, names):
    save(files, make_model(**theirs), tmp_path, [7])
    with refused("other_model", tmp_path / "model.ckpt-7", *names):
        files.load_weights(make_model(**ours), tmp_path / "model.ckpt-7")


def test_as_many_weights_elsewhere(tmp_path):
    def model_of(attribute):
        model = keras.Model()
        setattr(model, attribute, keras.layers.Dense(3, name=attribute))
        getattr(model, attribute).build((None, 4))
        return model

    save(checkpoints, model_of("first"), tmp_path, [7])
    with refused("other_model", "second/kernel"):
        checkpoints.load_weights(model_of("second"), tmp_path / "model.ckpt-7")


def test_a_folder_with_both_formats_has_those_of_either(files, model, tmp_path):
    for step, each in enumerate((checkpoints, npz), 1):
        save(each, make_model(), tmp_path, [step])
    path = files.newest_checkpoint(tmp_path)
    assert step_of(path) == (1 if files is checkpoints else 2)
    assert files.Checkpoints(tmp_path, {"model": model}, 3).restore_newest() == path


@pytest.mark.parametrize(
    ("theirs", "ours", "advice"),
    [
        ("model.ckpt-5.index", npz, "KERAS_BACKEND=tensorflow"),
        ("model.ckpt-5.npz", checkpoints, "t2t-npz-to-checkpoint"),
    ],
)
def test_the_other_format(model, tmp_path, theirs, ours, advice):
    (tmp_path / theirs).touch()
    for read in (
        lambda: ours.newest_checkpoint(tmp_path),
        lambda: ours.load_weights(model, tmp_path / "model.ckpt-5"),
        ours.Checkpoints(tmp_path, {"model": model}, 1).restore_newest,
    ):
        with refused("other_checkpoint_format", "model.ckpt-5", advice):
            read()
