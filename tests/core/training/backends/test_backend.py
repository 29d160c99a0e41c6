"""Which backends and devices a run may use, and models that are too large for them."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from refusals import refused
from training_runs import numbers_in

from t2t_keras.decoding.stored_model import unloaded_engine
from t2t_keras.environment import usable_cores
from t2t_keras.serving import formats
from t2t_keras.training.backends import base
from t2t_keras.training.backends import tensorflow as backend
from t2t_keras.training.backends.base import Devices, check_backend, make_step, plan_devices
from t2t_keras.training.backends.cluster import Cluster
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.run_config import RunConfig, TrainOptions
from t2t_keras.training.trainer import train

THREE = Cluster(("a:1", "b:1", "c:1"), index=1)


@pytest.mark.parametrize(
    ("backend", "action", "code", "named"),
    [
        ("torch", check_backend, "other_backend", "KERAS_BACKEND=torch"),
        ("torch", plan_devices, "other_backend", "KERAS_BACKEND=torch"),
        ("torch", lambda: unloaded_engine(None, None), "other_backend", "KERAS_BACKEND=torch"),
        ("jax", formats.check_backend, "other_backend", "KERAS_BACKEND=jax"),
        ("tensorflow", lambda: plan_devices(99), "no_gpu", "--worker_gpu=99"),
        (
            "tensorflow",
            lambda: plan_devices(0, cluster=THREE, cpu_replicas=2),
            "bad_value",
            "--cpu_replicas=2",
        ),
        ("tensorflow", lambda: plan_devices(cpu_replicas=99_999), "bad_value", "=99999"),
        # TensorFlow cannot be told after its first operation.
        (
            "tensorflow",
            lambda: (tf.zeros(()), plan_devices(cpu_replicas=2)),
            "already_computing" if usable_cores() > 1 else "bad_value",
            "--cpu_replicas=2",
        ),
    ],
)
def test_refused(monkeypatch, backend, action, code, named):
    monkeypatch.setattr(keras.backend, "backend", lambda: backend)
    with refused(code, named):
        action()


def test_the_devices_of_one_process_and_of_several(monkeypatch):
    assert plan_devices() == Devices(["/cpu:0"], [], 1, False)
    assert plan_devices(0, xla=True, cluster=THREE) == Devices(["/cpu:0"], [], 3, True)
    monkeypatch.setattr(backend.tf.config, "get_visible_devices", lambda kind: ["a", "b"])
    monkeypatch.setattr(
        backend.tf.config.experimental, "get_device_details", lambda gpu: {"device_name": gpu}
    )
    assert plan_devices() == Devices(["/gpu:0", "/gpu:1"], ["a", "b"], 2, False)
    assert plan_devices(1, cluster=THREE) == Devices(["/gpu:0"], ["a"], 3, False)
    assert plan_devices(0) == Devices(["/cpu:0"], [], 1, False)
    with refused("bad_value", "--cpu_replicas=2", "--worker_gpu=0"):
        plan_devices(cpu_replicas=2)


def test_replicas_share_the_cores(monkeypatch):
    threads = {}
    monkeypatch.setattr(backend, "usable_cores", lambda: 6)
    monkeypatch.setattr(backend.tf.config, "set_logical_device_configuration", lambda *_: None)
    for kind in ("intra", "inter"):
        name = f"set_{kind}_op_parallelism_threads"
        monkeypatch.setattr(
            backend.tf.config.threading, name, functools.partial(threads.__setitem__, kind)
        )
    assert plan_devices(0, cpu_replicas=3).names == ["/cpu:0", "/cpu:1", "/cpu:2"]
    assert threads == {"intra": 2, "inter": 3}
    assert len(plan_devices(0, cpu_replicas=6).names) == 6


def test_a_driver_without_gpus_is_reported(monkeypatch, tmp_path, capsys):
    plan_devices()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(backend, "_DRIVER_FILE", tmp_path)
    plan_devices(0)
    plan_devices()
    assert capsys.readouterr().err.count("--worker_gpu=0") == 1


@pytest.mark.parametrize(
    "changes", [{"d_model": 1_000_000}, {"num_layers": 1000, "d_model": 8192}, {}]
)
def test_a_model_that_cannot_fit_is_not_made(make_record, monkeypatch, changes):
    def no_memory(self):
        raise MemoryError

    monkeypatch.setattr(RunConfig, "make_model", no_memory if not changes else None)
    with refused("out_of_memory", "d_model"):
        make_step(make_record(**changes), plan_devices())


def test_of_frozen_weights_no_moments_are_expected(make_record, monkeypatch):
    record = make_record(trainable=("encoder.*",))
    weights = 4 * record.make_model().count_params()
    monkeypatch.setattr(base, "free_memory", lambda: weights)
    make_step(record, plan_devices())
    two = Devices(["/cpu:0", "/cpu:1"], [], 2, False)
    for config, planned in ((make_record(), plan_devices()), (record, two)):
        with refused("out_of_memory", "d_model"):
            make_step(config, planned)


@pytest.mark.skipif(usable_cores() < 2, reason="one core cannot be divided")
def test_replicas_on_a_divided_cpu_train_as_one(
    start_trainer, make_record, make_strategy, generated, tmp_path
):
    record = make_record(dropout=0.0, train_steps=4)
    process = start_trainer(tmp_path / "two", record, "--cpu_replicas=2")
    step = TensorFlowStep(record.make_model, record.hparams, make_strategy(), 1)
    one = train(record, generated, tmp_path / "one", step, TrainOptions(schedule="train"))
    assert "on 2 replica(s)" in process.wait_for_output()
    two = numbers_in(tmp_path / "two" / "model.ckpt-4")
    np.testing.assert_allclose(two, numbers_in(one.checkpoint), atol=1e-5)
