"""Settings that TensorFlow reads once, when it is first imported."""

import os

_SETTINGS = {
    # oneDNN's matrix multiplication is off by default on CPUs without AVX-512. On one with AVX2
    # the projection to the vocabulary took half the time with it, a whole training step three
    # quarters (benchmarks/train_speed.py --config=tiny).
    "TF_ENABLE_ONEDNN_OPTS": "1",
    # TensorFlow's own lines would bury what a command says; what stops it is raised as well.
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def prepare_tensorflow() -> None:
    """Sets what the user has not set; without effect once TensorFlow is imported.

    It needs no TensorFlow. Under JAX the second setting quietens the same lines of XLA's.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
