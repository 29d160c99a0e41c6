import json
import os
import socket

import pytest
from refusals import refused
from words import Words

from t2t_keras import hyperparameters
from t2t_keras.data.problem import make_problem
from t2t_keras.training.backends.base import make_step, plan_devices
from t2t_keras.training.backends.cluster import Cluster, cluster_from_environment, require_free_port
from t2t_keras.training.run_config import RunConfig


def tf_config(jobs, kind="worker", index=0):
    return {"TF_CONFIG": json.dumps({"cluster": jobs, "task": {"type": kind, "index": index}})}


def test_workers_of_tf_config():
    actual = cluster_from_environment(tf_config({"worker": ["a:2222", "b:2222"]}, index=1))
    assert actual == Cluster(("a:2222", "b:2222"), 1)
    assert actual.local_workers == 1
    assert Cluster(("b:2222", "a:2222", "b:2223"), 2).local_workers == 2
    # A chief is worker 0.
    jobs = {"worker": ["b:1", "c:1"], "chief": ["a:65000"]}
    for kind, index in (("chief", 0), ("worker", 1)):
        actual = cluster_from_environment(tf_config(jobs, kind, 0))
        assert actual == Cluster(("a:65000", "b:1", "c:1"), index)


@pytest.mark.parametrize("environment", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}])
def test_a_process_alone(environment):
    assert cluster_from_environment(environment) is None
    assert cluster_from_environment(environment | tf_config({"worker": ["a:1"]})) is None
    assert cluster_from_environment(environment | {"SLURM_STEP_NUM_TASKS": "4"}) is None, "no srun"


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"TF_CONFIG": "{worker"}, "{worker"),
        ({"TF_CONFIG": "[1]"}, "[1]"),
        (tf_config({"worker": ["a:1", "b:1"], "ps": ["c:1"]}), "worker, ps"),
        (tf_config({"worker": ["a:1", "b"]}), "'b'"),
        (tf_config({"worker": ["a:1", "b:65536"]}), "'b:65536'"),
        (tf_config({"worker": ["a:1", "b:0"]}), "'b:0'"),
        (tf_config({"worker": ["a:1", "a:1"]}), ""),
        (tf_config({"worker": ["a:1", "b:1"]}, index=2), "'worker' 2"),
        (tf_config({"worker": ["a:1", "b:1"]}, "evaluator"), "'evaluator' 0"),
        (tf_config({"worker": ["a:1", "b:1"]}, index="1"), "'worker' '1'"),
        (tf_config({"chief": ["a:1", "b:1"]}, "chief"), ""),
    ],
)
def test_an_invalid_tf_config(environment, named):
    with refused("bad_configuration", "TF_CONFIG=", named):
        cluster_from_environment(environment)


@pytest.fixture
def slurm(monkeypatch):
    """What Slurm sets for the third task of `srun --nodes=3 --ntasks=4`."""
    step = dict(NUM_TASKS="4", NODELIST="gpu[9-10],login2", TASKS_PER_NODE="1,2,1")
    step = {f"SLURM_STEP_{name}": value for name, value in step.items()}
    step |= dict(SLURM_PROCID="2", SLURM_LOCALID="1", SLURMD_NODENAME="gpu10")
    monkeypatch.setattr("os.environ", {**os.environ, **step})
    return os.environ


def test_a_step_of_slurm(slurm):
    # Sorted as strings, on all workers alike.
    addresses = ("gpu10:8888", "gpu10:8889", "gpu9:8888", "login2:8888")
    assert cluster_from_environment(slurm) == Cluster(addresses, 1)
    assert cluster_from_environment(slurm | {"SLURM_STEP_NUM_TASKS": "1"}) is None
    step = {"SLURM_STEP_NODELIST": "a[08-10],b-2x", "SLURM_STEP_TASKS_PER_NODE": "1(x4)"}
    step |= {"SLURMD_NODENAME": "b-2x", "SLURM_LOCALID": "0"}
    addresses = ("a08:8888", "a09:8888", "a10:8888", "b-2x:8888")
    assert cluster_from_environment(slurm | step) == Cluster(addresses, 3)
    assert cluster_from_environment(slurm | tf_config({"worker": ["a:1", "b:1"]})).index == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLURMD_NODENAME", "another"),
        ("SLURM_STEP_NODELIST", "gpu[07"),
        ("SLURM_STEP_NUM_TASKS", "some"),
    ],
)
def test_an_invalid_step_of_slurm(slurm, name, value):
    slurm[name] = value
    with refused("bad_configuration", "Slurm", value):
        cluster_from_environment(slurm)


def test_a_port_that_another_process_has(monkeypatch):
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        cluster = Cluster((f"localhost:{port}", "other:1"), 0)
        monkeypatch.setenv("TF_CONFIG", "{}")
        with refused("port_in_use", port, "TF_CONFIG") as info:
            require_free_port(cluster)
    assert info.value.exit_status == 75
    require_free_port(cluster)


@pytest.mark.parametrize("content", ["", " ", "{"])
def test_one_process_trains_whatever_tf_config_holds(monkeypatch, content):
    monkeypatch.setenv("TF_CONFIG", content)
    record = RunConfig(
        make_problem("algorithmic_identity_binary40"),
        hyperparameters.hparams("transformer_tiny", "num_layers=1,d_model=8,d_ff=8,num_heads=2"),
        tokenizer=Words.of(["<pad>", "</s>", "<unk>", "a"]),
    )
    step = make_step(record, plan_devices(0))
    assert (step.num_replicas, os.environ["TF_CONFIG"]) == (1, content)
