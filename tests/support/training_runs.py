"""t2t-trainer in a process of its own, and what the checkpoints of a run hold."""

import functools
import json
import multiprocessing
import os
import time
from pathlib import Path
from unittest import mock

import numpy as np
import tensorflow as tf

from t2t_keras.data.batches import Batch
from t2t_keras.models.transformer import Transformer
from t2t_keras.settings import as_assignments
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoint_files import checkpoint_at, checkpoint_paths, read, step_of
from t2t_keras.training.checkpoints import load_weights
from t2t_keras.training.run_config import RunConfig

# Processes are forked from one that has imported TensorFlow: that takes longer than the training.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "t2t_keras.bin.t2t_trainer",
        "t2t_keras.training.backends.tensorflow",
        "t2t_keras.training.distributed",
    ]
)


def as_users_run_it():
    """Has TensorFlow use oneDNN in the processes of `CONTEXT`; the first start is for all."""
    return mock.patch.dict(os.environ, {"TF_ENABLE_ONEDNN_OPTS": "1"})


class TrainerProcess(CONTEXT.Process):
    """A started process with these flags; what it says goes to the file `output`.

    With a `tf_config` it is a worker with two virtual CPU devices.
    """

    def __init__(self, flags, output, tf_config):
        super().__init__()
        self._flags, self._output, self._tf_config = flags, output, tf_config
        with as_users_run_it():
            self.start()

    def wait_until(self, condition):
        """Looks every millisecond whether the condition holds; the process must not end before."""
        while not condition():
            assert self.is_alive(), self._output.read_text()
            time.sleep(0.001)

    def kill(self):
        super().kill()
        self.join()

    def wait_for_output(self, status=0):
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
    from tensorflow.python.distribute import collective_all_reduce_strategy as strategies

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    # Stands for the strategy's own method, which returns (devices, their type).
    strategies.CollectiveAllReduceExtended._initialize_local_devices = lambda _, __, worker: (
        (f"{worker}/device:CPU:0", f"{worker}/device:CPU:1"),
        "CPU",
    )


def allocated_in_a_step(hparams, vocab_size, tokens, length):
    """Returns the most bytes that a step takes beside weights and moments, in its own process."""
    with as_users_run_it(), CONTEXT.Pool(1) as pool:
        return pool.apply(_allocated, (hparams, vocab_size, tokens, length))


def _allocated(hparams, vocab_size, tokens, length):
    make_model = functools.partial(Transformer.from_hparams, hparams, vocab_size)
    step = TensorFlowStep(make_model, hparams, tf.distribute.OneDeviceStrategy("/cpu:0"), seed=1)
    ids = np.full((tokens // length, length), 7, np.int32)
    tiny = Batch(ids[:1, :2], ids[:1, :2])
    float(step.update(0, [[tiny]])["loss"])
    before = tf.config.experimental.get_memory_info("CPU:0")["current"]
    tf.config.experimental.reset_memory_stats("CPU:0")
    float(step.update(1, [[Batch(ids, ids)]])["loss"])
    return tf.config.experimental.get_memory_info("CPU:0")["peak"] - before


def flags_of(record):
    """Returns the flags of t2t-trainer for a run; the last one has the hyperparameters."""
    problem, hparams = map(as_assignments, (record.problem.config(), record.hparams.config()))
    flags = [f"--problem={record.problem.name}", f"--problem_config={problem}"]
    flags += [f"--data_dir={record.data_dir}", f"--hparams_set={record.hparams_set}"]
    return [*flags, f"--hparams={hparams}"]


def newest_step(directory):
    """Returns the step of a run's newest checkpoint, or 0."""
    return max(map(step_of, checkpoint_paths(directory)), default=0)


def numbers_in(path):
    """Returns all numbers of a checkpoint, moments too, as one array."""
    arrays, _ = read(checkpoint_at(path))
    assert len(arrays) > 3 * 31, "weights and two moments each"
    return np.concatenate([np.ravel(np.float64(arrays[name])) for name in sorted(arrays)])


def weights_in(path):
    """Returns the model's weights in a checkpoint of a run, as one array."""
    model = RunConfig.load(Path(path).parent).make_model()
    load_weights(model, path)
    return np.concatenate([np.ravel(weight.numpy()) for weight in model.trainable_variables])
