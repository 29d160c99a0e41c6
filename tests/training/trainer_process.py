"""t2t-trainer in a process of its own, forked from one that has imported TensorFlow for all.

Importing it takes longer than what the tests train.
"""

import json
import multiprocessing
import os
import time

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "t2t_keras.bin.t2t_trainer",
        "t2t_keras.training.backends.tensorflow",
        "t2t_keras.training.distributed.sync",
    ]
)


class TrainerProcess(CONTEXT.Process):
    """A started process with these flags; what it says goes to the file `output`.

    With a `tf_config` it is a worker with two virtual CPU devices.
    """

    def __init__(self, flags, output, tf_config):
        super().__init__()
        self._flags, self._output, self._tf_config = flags, output, tf_config
        self.start()

    def wait_until(self, condition):
        """Looks every millisecond whether the condition holds; the process must not end before."""
        while not condition():
            assert self.is_alive(), self._output.read_text()
            time.sleep(0.001)

    def kill(self):
        """Kills the process and waits until it is gone."""
        super().kill()
        self.join()

    def said(self, status=0):
        """Waits for the end, which must have this exit status; returns what was said."""
        self.join(300)
        assert self.exitcode == status, self._output.read_text()
        return self._output.read_text()

    def run(self):
        """Is called in the new process."""
        with self._output.open("w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        from t2t_keras.bin import t2t_trainer

        if self._tf_config:
            os.environ["TF_CONFIG"] = json.dumps(self._tf_config)
            _use_two_devices()
        t2t_trainer.run(["t2t-trainer", *self._flags])


def _use_two_devices():
    """Of a worker without GPUs TensorFlow takes one device; so it does what one with GPUs does."""
    import tensorflow as tf
    from tensorflow.python.distribute import collective_all_reduce_strategy as strategies

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    # Stands for the strategy's own method, which returns (devices, their type).
    strategies.CollectiveAllReduceExtended._initialize_local_devices = lambda _, __, worker: (
        (f"{worker}/device:CPU:0", f"{worker}/device:CPU:1"),
        "CPU",
    )
