"""The command that makes TensorFlow's checkpoints, and what it refuses."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.bin import t2t_npz_to_checkpoint
from t2t_keras.bin.flags import run_command
from t2t_keras.decoding.translator import Translator
from t2t_keras.training import checkpoints, npz_checkpoints
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.training_cost import read_costs


def convert(*arguments):
    t2t_npz_to_checkpoint.run(["t2t-npz-to-checkpoint", *map(str, arguments)])


def refused(capsys, *arguments):
    """Returns what a refused command says."""
    with pytest.raises(SystemExit) as stop:
        convert(*arguments)
    said = capsys.readouterr().err
    assert stop.value.code == 2
    assert "Traceback" not in said
    return said


@pytest.fixture
def npz_run(random_run, tmp_path):
    """The weights of `random_run` as a run of .npz checkpoints."""
    folder = tmp_path / "npz"
    record = RunRecord.load(random_run)
    record.save(folder)
    model = record.make_model()
    for step in (10, 20):
        checkpoints.load_weights(model, random_run / f"model.ckpt-{step}")
        npz_checkpoints.Checkpoints(folder, {"model": model}, keep=9).save(step)
    return folder


def test_the_newest_or_the_one_that_is_named(npz_run, random_run, tmp_path, capsys):
    cost = {"target_tokens": 7, "seconds": 1.0, "hardware": "a CPU"}
    (npz_run / "training_cost.json").write_text(json.dumps({"20": cost}))
    convert(f"--model_dir={npz_run}", f"--output_dir={tmp_path / 'newest'}")
    made = tmp_path / "newest" / "model.ckpt-20"
    assert tf.train.latest_checkpoint(str(tmp_path / "newest")) == str(made)
    assert read_costs(made.parent)[20].target_tokens == 7
    assert f"{made} is {npz_run / 'model.ckpt-20.npz'} as TensorFlow's" in capsys.readouterr().out
    model, same = (RunRecord.load(random_run).make_model() for _ in range(2))
    checkpoints.load_weights(model, made)
    checkpoints.load_weights(same, random_run / "model.ckpt-20")
    for found, wanted in zip(model.trainable_variables, same.trainable_variables, strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    Translator.from_run(tmp_path / "newest").translate(["A dog eats."])
    named = f"--checkpoint_path={npz_run / 'model.ckpt-10'}"
    convert(f"--model_dir={npz_run}", f"--output_dir={tmp_path / 'named'}", named)
    assert tf.train.latest_checkpoint(str(tmp_path / "named")).endswith("model.ckpt-10")


def test_what_is_refused(npz_run, random_run, tmp_path, capsys):
    output = f"--output_dir={tmp_path / 'new'}"
    assert "Please give --model_dir" in refused(capsys, output)
    assert "There is no run in" in refused(capsys, f"--model_dir={tmp_path / 'none'}", output)
    said = refused(capsys, f"--model_dir={random_run}", output)
    assert "TensorFlow's own need no conversion" in said
    said = refused(capsys, f"--model_dir={npz_run}", f"--output_dir={random_run}")
    assert "There are checkpoints in" in said
    said = refused(capsys, f"--model_dir={npz_run}", output, "--checkpoint_path=model.ckpt-5.npz")
    assert "There is no checkpoint model.ckpt-5.npz" in said
    text = (npz_run / "run.json").read_text()
    (npz_run / "run.json").write_text(text.replace('"d_ff": 16', '"d_ff": 32'))
    said = refused(capsys, f"--model_dir={npz_run}", output)
    assert "inner/kernel is [16, 16] there, [16, 32] in the model" in said
    shutil.rmtree(npz_run)
    assert not (tmp_path / "new").exists()


def test_a_package_that_is_not_installed_is_named(capsys):
    def main(flags):
        raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")

    with pytest.raises(SystemExit) as stop:
        run_command(lambda flags: None, main, ["t2t-trainer"])
    assert stop.value.code == 2
    assert "t2t-trainer: needs tensorflow, which is not installed" in capsys.readouterr().err
