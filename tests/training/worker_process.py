"""worker_process.py <devices> <t2t-trainer's arguments>: a worker with so many virtual CPU devices.

Of a worker without GPUs, TensorFlow takes one device; here it takes all, so that a machine without
GPUs can test what a worker with several does.
"""

import sys

from t2t_keras.bin import t2t_trainer
from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

import tensorflow as tf  # noqa: E402
from tensorflow.python.distribute import collective_all_reduce_strategy as strategies  # noqa: E402


def all_devices(self, cluster_resolver, worker_device):
    """Stands for the strategy's own method, which returns (devices, their type)."""
    return tuple(f"{worker_device}/device:CPU:{number}" for number in range(DEVICES)), "CPU"


DEVICES = int(sys.argv[1])
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * DEVICES
)
strategies.CollectiveAllReduceExtended._initialize_local_devices = all_devices
t2t_trainer.run(["t2t-trainer", *sys.argv[2:]])
