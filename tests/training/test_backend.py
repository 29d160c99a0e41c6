import keras
import pytest

from t2t_keras.errors import UserError
from t2t_keras.training import devices
from t2t_keras.training.backend import Devices, check_backend, make_step, plan_devices
from t2t_keras.training.cluster import Cluster
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


@pytest.mark.parametrize("xla", [False, True])
def test_a_step_is_made_on_the_devices_that_are_planned(make_record, xla):
    planned, step = plan_devices(0, xla), make_step(make_record(), 0, xla)
    found = step.gpus(), step.num_replicas, step.fixed_shapes
    assert found == (planned.gpus, planned.replicas, planned.fixed_shapes) == ([], 1, xla)


def test_the_devices_of_several_workers(monkeypatch, make_record):
    three = Cluster(("a:1", "b:1", "c:1"), index=1)
    on_cpus = plan_devices(0, cluster=three)
    assert on_cpus == Devices(["/cpu:0"], [], 3, False)
    monkeypatch.setattr(devices, "gpus_of_worker", lambda worker_gpu: worker_gpu)
    monkeypatch.setattr(devices, "gpu_names", lambda count: ["H"] * count)
    on_gpus = plan_devices(2, xla=True, cluster=three)
    assert on_gpus == Devices(["/gpu:0", "/gpu:1"], ["H", "H"], 6, True)
    for refused in (plan_devices, lambda *given: make_step(make_record(), *given)):
        with pytest.raises(UserError, match="=2: one of several workers has one replica on a CPU"):
            refused(0, False, three, 2)
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(UserError, match=r"Several workers .* train under TensorFlow only"):
        plan_devices(0, cluster=three)
