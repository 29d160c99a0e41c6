"""Communication between workers: expected on GPUs, and measured between two processes here.

    python benchmarks/worker_communication.py [--measure=false] [--reduction_dtype=bfloat16]

Two workers on this machine train a model with two layers and d_model 256. Each times its whole step
and the exchange of gradients alone; both share the cores, so this does not measure a network. The
bytes exchanged per step are those of the loopback interface.
"""

import itertools
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
from absl import app, flags, logging
from measuring import median_seconds
from scaling import expected_rows, ring_bytes

from t2t_keras.environment import prepare_tensorflow

prepare_tensorflow()

_MEASURE = flags.DEFINE_boolean("measure", True, "Measure between two workers as well.")
_ROUNDS = flags.DEFINE_integer("rounds", 10, "Number of rounds, whose median is printed.", 1)
_TOKENS = flags.DEFINE_integer("tokens", 2048, "Target tokens of a step.", 64)
_REDUCTION = flags.DEFINE_string(
    "reduction_dtype", "float32", "Type in which gradients are exchanged."
)


def main(_) -> None:
    """Prints the table and starts the two workers, or is one of them."""
    if "TF_CONFIG" in os.environ:
        logging.set_verbosity(logging.WARNING)
        _worker()
        return
    print("\n".join(expected_rows()), flush=True)
    if _MEASURE.value:
        _measure()


def _measure() -> None:
    with socket.create_server(("localhost", 0)) as server:
        port = 20_000 + server.getsockname()[1] % 20_000
    addresses = [f"localhost:{port}", f"localhost:{port + 1}"]
    workers = []
    for index in range(2):
        task = {"type": "worker", "index": index}
        config = json.dumps({"cluster": {"worker": addresses}, "task": task})
        workers.append(
            subprocess.Popen([sys.executable, *sys.argv], env=os.environ | {"TF_CONFIG": config})
        )
    if any(status for status in [worker.wait() for worker in workers]):
        raise SystemExit("a worker failed")


def _worker() -> None:
    import tensorflow as tf

    from t2t_keras import registry
    from t2t_keras.data.batches import Batch, RemoteBatch
    from t2t_keras.models.transformer import Transformer
    from t2t_keras.training.backends.devices import multi_worker_strategy
    from t2t_keras.training.backends.tensorflow import TensorFlowStep
    from t2t_keras.training.distributed.cluster import cluster_from_environment

    cluster = cluster_from_environment()
    strategy = multi_worker_strategy(cluster, 0)
    hparams = registry.hparams("transformer_small", {"reduction_dtype": _REDUCTION.value})
    step = TensorFlowStep(lambda: Transformer.from_hparams(hparams, 8000), hparams, strategy, 1)
    dtype = tf.as_dtype(_REDUCTION.value)
    gradients = [tf.zeros(weight.shape, dtype) for weight in step.model.trainable_variables]

    @tf.function(autograph=False)
    def exchange():
        def replica_exchange():
            context = tf.distribute.get_replica_context()
            return tf.add_n(
                [
                    tf.cast(tf.reduce_sum(each), tf.float32)
                    for each in context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
                ]
            )

        return strategy.experimental_local_results(strategy.run(replica_exchange))[0]

    rows = np.random.default_rng(1).integers(3, 8000, (_TOKENS.value // 64, 32), np.int32)
    parts = [RemoteBatch(rows.size)] * 2
    parts[cluster.index] = Batch(rows, rows)
    steps = itertools.count()
    times = median_seconds(
        {
            "step": lambda: float(step.update(next(steps), [parts])["loss"]),
            "exchange": lambda: float(exchange()),
        },
        _ROUNDS.value,
    )
    before = _loopback_bytes()
    for _ in range(_ROUNDS.value):
        float(step.update(next(steps), [parts])["loss"])
    # The interface counts what both have sent.
    passed = (_loopback_bytes() - before) / _ROUNDS.value / 2
    if cluster.index == 0:
        whole, alone = times["step"], times["exchange"]
        print(
            f"2 workers on {os.cpu_count()} cores, {step.model.count_params():,} weights, "
            f"{2 * rows.size:,} target tokens: a step {whole * 1e3:.0f} ms, the exchange of "
            f"gradients alone {alone * 1e3:.0f} ms, {alone / whole:.0%} of a step; each sends "
            f"{passed / 1e6:.1f} MB a step, of which the ring makes "
            f"{ring_bytes(step.model.count_params(), 2, dtype.size) / 1e6:.1f} MB",
            flush=True,
        )


def _loopback_bytes() -> int:
    """Returns the bytes that this machine has sent to itself."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[9]) for line in lines if line.split()[0] == "lo:")


if __name__ == "__main__":
    app.run(main)
