"""Eight virtual CPU devices, a small problem's data, and records of tiny runs on it."""

import dataclasses

import pytest
import tensorflow as tf
from training_runs import TrainerProcess, flags_of

from t2t_keras import hyperparameters
from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.training.backends.tensorflow import TensorFlowStep
from t2t_keras.training.checkpoints import Checkpoints
from t2t_keras.training.run_config import RunConfig

# At import, since TensorFlow takes it only before it makes its first tensor.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 8
)

# Keras calls it beside its own generators, which all layers use. With each seed TensorFlow forgets
# the kernels of all operations, and making them takes longer than a step does.
tf.random.set_seed = lambda _: None


@pytest.fixture(scope="session")
def generated(tmp_path_factory):
    """A few pairs of binary digits and the same reversed."""
    problem = make_problem(
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
            hparams=hyperparameters.hparams("transformer_tiny", hparams | changes),
            data_dir=str(generated.directory.parent),
        ).with_data(generated)

    return make


@pytest.fixture(scope="session")
def make_strategy():
    """make_strategy(replicas): a strategy over so many virtual CPU devices."""
    # Not TensorFlow's collectives: a process can use them for one number of replicas only.
    return lambda replicas=1: tf.distribute.MirroredStrategy(
        [f"/cpu:{number}" for number in range(replicas)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )


@pytest.fixture(scope="module")
def compiled_step(make_strategy, tmp_path_factory):
    """compiled_step(config, replicas, xla): a step with its first weights.

    It is compiled once for all tests of a file that use the like.
    """
    steps = {}

    def make(config, replicas=1, xla=False):
        any_data = dict(train_steps=0, microbatch_tokens=0, batch_tokens=0, max_length=0)
        key = dataclasses.replace(config.hparams, **any_data), replicas, xla
        if key not in steps:
            step = TensorFlowStep(
                config.make_model, config.hparams, make_strategy(replicas), 1, xla
            )
            first = Checkpoints(tmp_path_factory.mktemp("first"), step.state(), 1)
            steps[key] = step, first, first.save(0)
        step, first, path = steps[key]
        first.restore(path)
        return step

    return make


@pytest.fixture
def start_trainer(tmp_path):
    """start_trainer(run, record, *flags, tf_config): starts one; what still runs is killed."""
    started = []

    def start(run, record, *flags, tf_config=None):
        flags = [f"--output_dir={run}", "--schedule=train", *flags_of(record), *flags]
        started.append(TrainerProcess(flags, tmp_path / f"output {len(started)}", tf_config))
        return started[-1]

    yield start
    for process in started:
        process.kill()
