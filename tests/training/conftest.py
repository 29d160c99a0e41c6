"""Eight virtual CPU devices, a small problem's data, and records of tiny runs on it."""

import contextlib
import resource
import signal
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import registry
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.training.checkpoints.names import step_of
from t2t_keras.training.checkpoints.tensorflow import load_weights
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
    """Returns a function that makes the `RunConfig` of a tiny run, of these hyperparameters."""

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
def make_strategy():
    """Returns a function that makes a strategy over so many virtual CPU devices."""

    def make(replicas=1):
        # Not TensorFlow's collectives: a process can use them for one number of replicas only.
        return tf.distribute.MirroredStrategy(
            [f"/cpu:{number}" for number in range(replicas)],
            cross_device_ops=tf.distribute.ReductionToOneDevice(),
        )

    return make


@pytest.fixture
def eagerly():
    """Functions run as Python: for a step or two, building a graph takes longer."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def start_trainer(generated, tmp_path, monkeypatch):
    """Returns a function that starts a trainer of a tiny model; what still runs is killed."""
    # Where a new process looks for the function that it is to run.
    monkeypatch.syspath_prepend(Path(__file__).parent)
    from trainer_process import TrainerProcess

    started = []

    def start(run, *more, cluster=None, devices=1):
        config = ",".join(f"{key}={value}" for key, value in generated.problem.config().items())
        flags = [f"--output_dir={run}", "--schedule=train", "--hparams_set=transformer_tiny"]
        flags += [f"--problem={generated.problem.name}", f"--problem_config={config}"]
        flags += [f"--data_dir={generated.directory.parent}"]
        output = tmp_path / f"output {len(started)}"
        started.append(TrainerProcess([*flags, *more], output, cluster, devices))
        return started[-1]

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def limited_file_size():
    """Returns a context in which no file may grow past some bytes, as on a full disk."""

    @contextlib.contextmanager
    def limited(size):
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        yield
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)

    return limited


@pytest.fixture
def weights_in():
    """Returns a function that reads the model's weights in a run's checkpoint, as one array."""

    def read(path):
        model = RunConfig.load(Path(path).parent).make_model()
        load_weights(model, path)
        return np.concatenate([np.ravel(weight.numpy()) for weight in model.trainable_variables])

    return read


@pytest.fixture
def newest_step():
    """Returns a function that gives the step of a run's newest checkpoint, or 0."""

    def newest_step(directory):
        newest = tf.train.latest_checkpoint(str(directory))
        return step_of(newest) if newest else 0

    return newest_step


@pytest.fixture
def everything_in():
    """Returns a function that reads all numbers of a checkpoint, moments too, as one array."""

    def read(path):
        reader = tf.train.load_checkpoint(str(path))
        names = sorted(reader.get_variable_to_shape_map())
        values = [
            np.ravel(reader.get_tensor(name))
            for name in names
            if "VARIABLE_VALUE" in name and "save_counter" not in name
        ]
        assert len(values) > 2 * 31, "weights and two moments each"
        return np.concatenate([value.astype(np.float64) for value in values])

    return read
