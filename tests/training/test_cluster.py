"""Who the workers are, from what the environment says."""

import json

import pytest

from t2t_keras.errors import UserError
from t2t_keras.training.cluster import Cluster, cluster_from_environment


def tf_config(jobs, kind="worker", index=0):
    return {"TF_CONFIG": json.dumps({"cluster": jobs, "task": {"type": kind, "index": index}})}


def test_workers_of_tf_config():
    found = cluster_from_environment(tf_config({"worker": ["a:2222", "b:2222"]}, index=1))
    assert found == Cluster(("a:2222", "b:2222"), 1)
    assert not found.is_chief
    assert found.watch_address == ("a", 3222)
    assert found.name(0) == "worker 0 (the chief, a:2222)"
    assert found.name(1) == "worker 1 (b:2222)"
    assert found.workers_here == 1
    assert Cluster(("b:2222", "a:2222", "b:2223"), 2).workers_here == 2


def test_a_chief_of_tf_config_is_worker_0():
    jobs = {"worker": ["b:1", "c:1"], "chief": ["a:65000"]}
    found = cluster_from_environment(tf_config(jobs, "worker", 0))
    assert found == Cluster(("a:65000", "b:1", "c:1"), 1)
    assert found.watch_address == ("a", 64000)
    assert cluster_from_environment(tf_config(jobs, "chief", 0)).is_chief


@pytest.mark.parametrize("environment", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}])
def test_a_process_alone(environment):
    assert cluster_from_environment(environment) is None
    assert cluster_from_environment(environment | tf_config({"worker": ["a:1"]})) is None


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"TF_CONFIG": "{worker"}, "cannot be read"),
        ({"TF_CONFIG": "[1]"}, "cannot be read"),
        (tf_config({"worker": ["a:1", "b:1"], "ps": ["c:1"]}), "has ps"),
        (tf_config({"worker": ["a:1", "b"]}), "address 'b'; host:port"),
        (tf_config({"worker": ["a:1", "b:99999"]}), "address 'b:99999'"),
        (tf_config({"worker": ["a:1", "a:1"]}), "twice"),
        (tf_config({"worker": ["a:1", "b:1"]}, index=2), "task 'worker' 2"),
        (tf_config({"worker": ["a:1", "b:1"]}, "evaluator"), "task 'evaluator' 0"),
        (tf_config({"worker": ["a:1", "b:1"]}, index="1"), "task 'worker' '1'"),
        (tf_config({"chief": ["a:1", "b:1"]}, "chief"), "more than one chief"),
    ],
)
def test_what_tf_config_must_not_be(environment, why):
    with pytest.raises(UserError, match="TF_CONFIG=") as refused:
        cluster_from_environment(environment)
    assert why in str(refused.value)


def test_a_step_of_slurm(monkeypatch):
    # What Slurm sets for the third task of `srun --nodes=3 --ntasks=4`.
    step = dict(NUM_TASKS="4", NODELIST="gpu[9-10],login2", TASKS_PER_NODE="1,2,1")
    environment = {f"SLURM_STEP_{name}": value for name, value in step.items()}
    environment |= dict(SLURM_PROCID="2", SLURM_LOCALID="1", SLURMD_NODENAME="gpu10")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = cluster_from_environment(environment)
    # In the order of text, which all workers find; only that it is the same matters.
    assert found == Cluster(("gpu10:8888", "gpu10:8889", "gpu9:8888", "login2:8888"), 1)
    monkeypatch.setenv("SLURMD_NODENAME", "gpu9")
    monkeypatch.setenv("SLURM_LOCALID", "0")
    assert cluster_from_environment(environment).index == 2
    monkeypatch.setenv("SLURMD_NODENAME", "another")
    with pytest.raises(UserError, match=r"Slurm.*cannot be read.*another"):
        cluster_from_environment(environment)
    monkeypatch.setenv("SLURMD_NODENAME", "gpu10")
    # TF_CONFIG, which is more definite, comes first; one task of a step is a process alone.
    assert cluster_from_environment(environment | tf_config({"worker": ["a:1", "b:1"]})).index == 0
    assert cluster_from_environment(environment | {"SLURM_STEP_NUM_TASKS": "1"}) is None
    monkeypatch.setenv("SLURM_STEP_NODELIST", "gpu[07")
    with pytest.raises(UserError, match="Invalid hostlist"):
        cluster_from_environment(environment)
