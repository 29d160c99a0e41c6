"""Eight virtual CPU devices, a small problem's data, and records of tiny runs on it."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import registry
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.training.checkpoints.names import step_of
from t2t_keras.training.run_config import RunConfig

# At import, since TensorFlow takes it only before it makes its first tensor.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 8
)


@pytest.fixture(scope="session")
def generated(tmp_path_factory):
    """A few pairs of binary digits and the same reversed."""
    problem = registry.problem(
        "algorithmic_reverse_binary40", "train_size=300,dev_size=20,train_length=12,dev_length=12"
    )
    directory = tmp_path_factory.mktemp("data")
    generate(problem, directory)
    return open_generated(problem, directory)


@pytest.fixture(scope="session")
def make_record(generated):
    """make_record(**hparams): the `RunConfig` of a tiny run."""

    def make(**changes):
        hparams = dict(num_layers=1, d_model=16, d_ff=32, num_heads=2, warmup_steps=10)
        hparams |= dict(max_length=32, batch_tokens=300, microbatch_tokens=512, train_steps=8)
        return RunConfig(
            problem=generated.problem,
            hparams=registry.hparams("transformer_tiny", hparams | changes),
            data_dir=str(generated.directory.parent),
        ).with_data(generated)

    return make


@pytest.fixture(scope="session")
def flags_of():
    """flags_of(record): the flags of t2t-trainer for a run."""

    def settings(config):
        return ",".join(f"{name}={value}" for name, value in config.items())

    return lambda record: [
        f"--problem={record.problem.name}",
        f"--problem_config={settings(record.problem.config())}",
        f"--data_dir={record.data_dir}",
        f"--hparams_set={record.hparams_set}",
        f"--hparams={settings(record.hparams.config())}",
    ]


@pytest.fixture(scope="session")
def make_strategy():
    """make_strategy(replicas): a strategy over so many virtual CPU devices."""
    # Not TensorFlow's collectives: a process can use them for one number of replicas only.
    return lambda replicas=1: tf.distribute.MirroredStrategy(
        [f"/cpu:{number}" for number in range(replicas)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )


@pytest.fixture
def eagerly():
    """Functions run as Python: for a step or two, building a graph takes longer."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def start_trainer(flags_of, tmp_path, monkeypatch):
    """start_trainer(run, record, *flags, tf_config): starts one; what still runs is killed."""
    # Where a new process looks for the class that it is of.
    monkeypatch.syspath_prepend(Path(__file__).parent)
    from trainer_process import TrainerProcess

    started = []

    def start(run, record, *flags, tf_config=None):
        flags = [f"--output_dir={run}", "--schedule=train", *flags_of(record), *flags]
        started.append(TrainerProcess(flags, tmp_path / f"output {len(started)}", tf_config))
        return started[-1]

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def newest_step():
    """newest_step(directory): the step of a run's newest checkpoint, or 0."""
    return lambda directory: step_of(tf.train.latest_checkpoint(str(directory)) or "none-0")


@pytest.fixture
def everything_in():
    """everything_in(path, prefix): all numbers of a checkpoint, moments too, as one array.

    "model/" is the prefix of the weights.
    """

    def read(path, prefix=""):
        reader = tf.train.load_checkpoint(str(path))
        names = [name for name in reader.get_variable_to_shape_map() if "VARIABLE_VALUE" in name]
        names = sorted(set(names) - {"save_counter/.ATTRIBUTES/VARIABLE_VALUE"})
        names = [name for name in names if name.startswith(prefix)]
        assert len(names) >= (31 if prefix else 3 * 31), "weights and two moments each"
        return np.concatenate([np.ravel(np.float64(reader.get_tensor(name))) for name in names])

    return read
