"""t2t-trainer in a process of its own, forked from one that has imported TensorFlow for all.

Importing it takes longer than what the tests train.
"""

import json
import multiprocessing
import os
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "t2t_keras.bin.t2t_trainer",
        "t2t_keras.training.backends.tensorflow",
        "t2t_keras.training.distributed.sync",
    ]
)


class TrainerProcess:
    """A started process.

    Args:
        arguments: What t2t-trainer is given.
        output: File for what it says.
        cluster: What TF_CONFIG is to hold.
        devices: Number of virtual CPU devices that it trains on.
    """

    def __init__(self, arguments: list[str], output: Path, cluster: dict | None, devices: int):
        self._output = output
        arguments = arguments, output, cluster, devices
        self._process = CONTEXT.Process(target=_train, args=arguments)
        self._process.start()

    def check_running(self) -> None:
        """Fails with what the process said if it has ended."""
        assert self._process.is_alive(), self._output.read_text()

    def send_signal(self, number: int) -> None:
        """Sends a signal."""
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """Kills the process and waits until it is gone."""
        self._process.kill()
        self._process.join()

    def said(self, status: int = 0, seconds: float = 300) -> str:
        """Waits for the end, which must have this exit status; returns what was said."""
        self._process.join(seconds)
        assert self._process.exitcode == status, self._output.read_text()
        return self._output.read_text()


def _train(arguments: list[str], output: Path, cluster: dict | None, devices: int) -> None:
    with output.open("w") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    if cluster:
        os.environ["TF_CONFIG"] = json.dumps(cluster)
    from t2t_keras.bin import t2t_trainer

    _use_devices(devices)
    t2t_trainer.run(["t2t-trainer", *arguments])


def _use_devices(count: int) -> None:
    """Of a worker without GPUs, TensorFlow takes one device; here it takes all there are.

    So a machine without GPUs can test what a worker with several does.
    """
    import tensorflow as tf
    from tensorflow.python.distribute import collective_all_reduce_strategy as strategies

    def all_devices(self, cluster_resolver, worker_device):
        """Stands for the strategy's own method, which returns (devices, their type)."""
        return tuple(f"{worker_device}/device:CPU:{number}" for number in range(count)), "CPU"

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * count
    )
    strategies.CollectiveAllReduceExtended._initialize_local_devices = all_devices
