"""What must be the same on every worker, or they would not compute the same."""

import dataclasses
import hashlib
import json

import keras

from t2t_keras.data.generated import Generated
from t2t_keras.training.cluster import Cluster
from t2t_keras.training.run_record import RunRecord
from t2t_keras.versions import installed_versions, source_version


def worker_identity(
    cluster: Cluster, record: RunRecord, generated: Generated, options, gpus: int
) -> dict[str, str]:
    """Returns what a worker would use, by name, short enough to be printed.

    Args:
      cluster: the workers, as this one was told.
      record: hyperparameters, vocabulary and training data.
      generated: the data; the dev set is shared out as well.
      options: a `TrainOptions`: when all pause, and for what.
      gpus: number of GPUs of this worker.
    """
    dev = {
        name: entry["sha256"]
        for name, entry in sorted(generated.manifest["files"].items())
        if name.startswith("dev")
    }
    uses = {
        "workers": ",".join(cluster.addresses),
        "GPUs": gpus,
        **installed_versions(),
        "source of t2t_keras": source_version(),
        "KERAS_BACKEND": keras.backend.backend(),
        **record.compared(),
        "train_steps": record.hparams.train_steps,
        "microbatch_tokens": record.hparams.microbatch_tokens,
        "dev data": hashlib.sha256(json.dumps(dev).encode("utf-8")).hexdigest()[:12],
        **{f"--{name}": value for name, value in dataclasses.asdict(options).items()},
    }
    return {name: str(value) for name, value in uses.items()}
