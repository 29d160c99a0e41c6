"""Communication between two workers on this machine: time and bytes of the exchange of gradients.

    python experiments/scaling/worker_communication.py [--reduction_dtype=bfloat16]

They train a model with two layers and d_model 256. Each times its whole step and the exchange
alone; both share the cores, so this does not measure a network. The bytes exchanged per step are
those of the loopback interface. `scaling.py` prints what is expected of GPUs.
"""

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
from absl import app, flags, logging

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from measuring import median_seconds, new_step
from scaling import ring_bytes

_ROUNDS = flags.DEFINE_integer("rounds", 10, "Number of rounds, whose median is printed.", 1)
_TOKENS = flags.DEFINE_integer("tokens", 2048, "Target tokens of a step.", 64)
_REDUCTION = flags.DEFINE_string(
    "reduction_dtype", "float32", "Type in which gradients are exchanged."
)


def main(_) -> None:
    """Starts the two workers, or is one of them."""
    if "TF_CONFIG" in os.environ:
        logging.set_verbosity(logging.WARNING)
        _worker()
        return
    command = [sys.executable, *sys.argv]
    workers = [subprocess.Popen(command, env=each) for each in _worker_environments(2)]
    if sum(abs(worker.wait()) for worker in workers):
        raise SystemExit("a worker failed")


def _worker_environments(count: int) -> list[dict[str, str]]:
    """Returns the environment of each of so many workers on free ports of this machine."""
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)
        ]
        cluster = {"worker": [f"localhost:{server.getsockname()[1]}" for server in servers]}
    tasks = [{"type": "worker", "index": index} for index in range(count)]
    configs = [json.dumps({"cluster": cluster, "task": task}) for task in tasks]
    return [os.environ | {"TF_CONFIG": config} for config in configs]


def _worker() -> None:
    import tensorflow as tf

    from t2t_keras import hyperparameters
    from t2t_keras.data.batches import Batch, RemoteBatch
    from t2t_keras.training.backends.cluster import cluster_from_environment
    from t2t_keras.training.backends.tensorflow import multi_worker_strategy

    cluster = cluster_from_environment()
    strategy = multi_worker_strategy(cluster, 0)
    hparams = hyperparameters.hparams("transformer_small", {"reduction_dtype": _REDUCTION.value})
    step = new_step(hparams, 8000, cluster)
    dtype = tf.as_dtype(_REDUCTION.value)
    gradients = [tf.zeros(weight.shape, dtype) for weight in step.model.trainable_variables]

    @tf.function(autograph=False)
    def exchange():
        def replica_exchange():
            context = tf.distribute.get_replica_context()
            totals = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
            return tf.add_n([tf.cast(tf.reduce_sum(each), tf.float32) for each in totals])

        return strategy.experimental_local_results(strategy.run(replica_exchange))[0]

    rows = np.random.default_rng(1).integers(3, 8000, (_TOKENS.value // 64, 32), np.int32)
    parts = [RemoteBatch(rows.size)] * 2
    parts[cluster.index] = Batch(rows, rows)
    steps = itertools.count()
    ways = {
        "step": lambda: float(step.update(next(steps), [parts])["loss"]),
        "exchange": lambda: float(exchange()),
    }
    whole, alone = median_seconds(ways, _ROUNDS.value).values()
    before = _loopback_bytes()
    for _ in range(_ROUNDS.value):
        ways["step"]()
    # The interface counts what both have sent.
    passed = (_loopback_bytes() - before) / _ROUNDS.value / 2
    if cluster.index == 0:
        weights = step.model.count_params()
        print(
            f"2 workers on {os.cpu_count()} cores, {weights:,} weights, {2 * rows.size:,} target "
            f"tokens: a step {whole * 1e3:.0f} ms, the exchange of gradients alone "
            f"{alone * 1e3:.0f} ms, {alone / whole:.0%} of a step; each sends {passed / 1e6:.1f} "
            f"MB a step, of which the ring makes {ring_bytes(weights, 2, dtype.size) / 1e6:.1f} MB",
            flush=True,
        )


def _loopback_bytes() -> int:
    """Returns the bytes that this machine has sent to itself."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[9]) for line in lines if line.split()[0] == "lo:")


if __name__ == "__main__":
    app.run(main)
