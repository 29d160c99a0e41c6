"""The files in docs/: whole, and with the names that the code has."""

import os
import re
import subprocess

import yaml

from t2t_keras import registry
from t2t_keras.tables.weights import count_weights
from t2t_keras.training.distributed.cluster import Cluster, cluster_from_environment


def test_the_slurm_script_is_bash(root):
    subprocess.run(["bash", "-n", root / "docs" / "slurm.sh"], check=True)


def test_the_kubernetes_job_names_each_worker(root):
    service, job = yaml.safe_load_all((root / "docs" / "kubernetes_job.yaml").read_text())
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    (rule,), (container,) = spec["podFailurePolicy"]["rules"], pod["containers"]
    assert rule["onExitCodes"]["containerName"] == container["name"]
    script = re.sub(r"exec t2t-trainer[^$]*", 'printf %s "$TF_CONFIG"', container["args"][0])
    environment = os.environ | {"JOB_COMPLETION_INDEX": "2"}
    command = [*container["command"], script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    cluster = cluster_from_environment({"TF_CONFIG": done.stdout})
    assert len(cluster.addresses) == spec["completions"] == spec["parallelism"]
    assert cluster.index == 2
    assert cluster.addresses[3] == f"{job['metadata']['name']}-3.{pod['subdomain']}:2222"


def test_the_ssh_script_starts_a_worker_on_each_host(root, tmp_path):
    # A stand-in for ssh, which runs the command here, and for the trainer.
    for name, text in {
        "ssh": 'shift; exec bash -c "$1"',
        "t2t-trainer": 'printf "%s\\n" "$TF_CONFIG"; exit 75',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["bash", root / "docs" / "ssh.sh", "one", "two", "three"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 75, done.stderr
    for index in range(3):
        config = (tmp_path / "logs" / f"worker-{index}.log").read_text()
        expected = Cluster(("one:2222", "two:2222", "three:2222"), index)
        assert cluster_from_environment({"TF_CONFIG": config}) == expected
        assert (tmp_path / "logs" / f"worker-{index}.pid").read_text().strip().isdigit()


def test_the_docs_hold_the_estimate_as_computed(root, load_module):
    scaling = load_module(root / "benchmarks" / "scaling.py")
    text = (root / "docs" / "distributed.md").read_text()
    assert "\n".join(scaling.expected_rows()) in text
    for name, weights in scaling.WEIGHTS.items():
        assert count_weights(registry.hparams(f"transformer_{name}"), 37_000) == weights
