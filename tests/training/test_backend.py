import keras
import pytest

from t2t_keras.errors import UserError
from t2t_keras.training import devices
from t2t_keras.training.backend import check_backend
from t2t_keras.training.npz_conversion import convert_npz_run


def test_what_cannot_train_says_what_can(monkeypatch):
    check_backend(eval_bleu=True)
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    with pytest.raises(UserError, match="tensorflow and jax; KERAS_BACKEND is torch"):
        check_backend()
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    check_backend()
    with pytest.raises(UserError, match="--eval_bleu needs TensorFlow"):
        check_backend(eval_bleu=True)
    with pytest.raises(UserError, match="KERAS_BACKEND is jax"):
        convert_npz_run("there", "here")


def test_a_driver_without_gpus_is_told(monkeypatch, tmp_path, capsys):
    assert devices.visible_devices() == ["/cpu:0"]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(devices, "_DRIVER", tmp_path)
    assert devices.visible_devices(0) == devices.visible_devices() == ["/cpu:0"]
    assert capsys.readouterr().err.count("TensorFlow sees no GPU: it uses the CPU") == 1
