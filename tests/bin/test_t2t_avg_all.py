import os

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.bin import t2t_avg_all
from t2t_keras.decoding.translator import Translator


def average(*arguments):
    t2t_avg_all.run(["t2t-avg-all", *map(str, arguments)])


def weights(path):
    reader = tf.train.load_checkpoint(str(path))
    names = sorted(name for name in reader.get_variable_to_shape_map() if name.startswith("model/"))
    return [reader.get_tensor(name) for name in names]


def test_mean_of_the_last(random_run, tmp_path, capsys):
    average(f"--model_dir={random_run}", f"--output_dir={tmp_path / 'mean'}", "--n=2")
    mean = tf.train.latest_checkpoint(str(tmp_path / "mean"))
    assert mean.endswith("model.ckpt-30")
    last_two = [weights(random_run / f"model.ckpt-{step}") for step in (20, 30)]
    for found, *of in zip(weights(mean), *last_two, strict=True):
        if found.dtype == np.float32:
            np.testing.assert_allclose(found, np.mean(of, axis=0), rtol=1e-6, atol=1e-7)
    assert f"{mean} is the mean of model.ckpt-20, model.ckpt-30." in capsys.readouterr().out
    Translator.from_run(tmp_path / "mean").translate(["0 1"])


def test_fewer_than_asked_for(random_run, tmp_path, capsys):
    average(f"--model_dir={random_run}", f"--output_dir={tmp_path / 'mean'}")
    assert f"There are only 3 checkpoints in {random_run}, not 5." in capsys.readouterr().out


def test_seconds_apart(random_run, tmp_path, capsys):
    for step in (10, 20, 30):
        os.utime(random_run / f"model.ckpt-{step}.index", (6 * step, 6 * step))
    mean = tmp_path / "mean"
    average(f"--model_dir={random_run}", f"--output_dir={mean}", "--n=2", "--seconds_apart=100")
    assert "is the mean of model.ckpt-10, model.ckpt-30." in capsys.readouterr().out
    with pytest.raises(SystemExit):
        average(f"--model_dir={random_run}", f"--output_dir={mean}", "--seconds_apart=-1")
    assert "seconds_apart" in capsys.readouterr().err


def test_never_replaces_checkpoints(random_run, capsys):
    with pytest.raises(SystemExit) as caught:
        average(f"--model_dir={random_run}", f"--output_dir={random_run}")
    assert caught.value.code == 2
    assert "There are checkpoints in --output_dir" in capsys.readouterr().err


def test_no_checkpoints(random_run, tmp_path, capsys):
    for name in ("run.json", "vocab.model"):
        (tmp_path / name).write_bytes((random_run / name).read_bytes())
    with pytest.raises(SystemExit):
        average(f"--model_dir={tmp_path}", f"--output_dir={tmp_path / 'mean'}")
    assert f"There is no checkpoint in {tmp_path}" in capsys.readouterr().err
