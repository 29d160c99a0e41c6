"""What every test shares: the checkout under test, quiet logs, and the data beside the checkout."""

import gc
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from browser import NEEDED

ROOT = Path(__file__).resolve().parents[1]

# This checkout is what is tested, here and in the processes that tests start, whatever else is
# installed; and it is set before anything imports TensorFlow or Keras, which read these once.
sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
)
os.environ["KERAS_BACKEND"] = "tensorflow"

# Tests start many processes, which need not compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Commands keep nothing that they compile in the cache of whoever runs the tests.
os.environ["TF_XLA_FLAGS"] = "--tf_xla_persistent_cache_directory="
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

# Compiling takes longer than what tests compute: XLA's last stages do without optimisation and
# take each module as a whole, and oneDNN, which compiles for each shape, is left out.
XLA_FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
os.environ.setdefault("XLA_FLAGS", f"{XLA_FLAGS} --xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

# Tests run side by side, on all cores: threads of their own would only wait for each other.
for threads in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ.setdefault(threads, "1")

from t2t_keras.environment import prepare_tensorflow, speed_up_tensorflow_import  # noqa: E402

prepare_tensorflow()
speed_up_tensorflow_import()


@pytest.hookimpl(optionalhook=True)  # Also runs without pytest-xdist.
def pytest_xdist_auto_num_workers():
    # One more than there are cores: a quarter of the time, a test waits for a process or a page.
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items):
    # A file goes to one process as a whole. The longest go first, so that none waits for another
    # at the end.
    items.sort(key=lambda item: ROOT / "tests" / "core" / "training" not in item.path.parents)


def pytest_collection_finish():
    # What is imported by now stays, so the collector need not look through it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    # Most graphs run once or twice: to optimise one takes longer.
    if tf := sys.modules.get("tensorflow"):
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", ())
    if count := sum(NEEDED in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(f"NOT TESTED: {count} tests of pages. {NEEDED} (chromium).")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout under test."""
    return ROOT


@pytest.fixture(scope="session")
def randomised():
    """randomised(layer): the layer or model, once built, with random weights.

    No weight keeps its first value: scales of 1 and offsets of 0 would hide mistakes.
    """

    def randomise(layer):
        random = np.random.default_rng(0)
        for weight in layer.trainable_variables:
            around = 1.0 if weight.path.endswith("gamma") else 0.0
            weight.assign(random.normal(around, 0.4, weight.shape))
        return layer

    return randomise


@pytest.fixture
def eagerly():
    """Functions run as Python: for a step or two, building a graph takes longer."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def own_registry(monkeypatch):
    """Whatever a test registers is forgotten after it."""
    from t2t_keras import registry

    for names in vars(registry).values():
        if isinstance(names, registry.Registry):
            monkeypatch.setattr(names, "entries", dict(names))
    directories = registry.user_directories  # The list itself: others have it, too.
    before = directories.copy()
    directories.clear()
    yield
    directories[:] = before


@pytest.fixture(scope="session")
def pairs_of():
    """pairs_of(generated, split): the text of the encoded examples."""

    def read(generated, split):
        store, tokenizer = generated.open_examples(split), generated.tokenizer
        decoders = {"source": tokenizer.source.decode, "target": tokenizer.decode}
        sides = (decode(store.padded(range(len(store)), side)) for side, decode in decoders.items())
        return list(zip(*sides, strict=True))

    return read


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real text that lies beside a checkout, never inside it."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs real text in {folder}")
    return folder
