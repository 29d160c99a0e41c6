"""The trainer's step on JAX; benchmarks/gpu.py starts this."""

# ruff: noqa: E402
import dataclasses
import itertools
import sys
from pathlib import Path

sys.modules["tensorflow"] = None  # Keras would import it.
sys.path.append(str(Path(__file__).resolve().parents[1]))
import jax
import workload
from measuring import new_step

from t2t_keras import hyperparameters
from t2t_keras.data.batches import Batch
from t2t_keras.training.cost import hardware_name

# What --changes may name: functions that get the hyperparameters and return those to use. They are
# called before the step is made, and may replace functions of the library in this process.
CHANGES = {
    "": lambda hparams: hparams,
    "no dropout": lambda hparams: dataclasses.replace(hparams, dropout=0.0),
}

settings, batches = workload.work_of_parent()
size, numbers = settings["size"], itertools.count()
sizes = {name: getattr(size, name) for name in ("num_layers", "d_model", "d_ff", "num_heads")}
sizes |= dict(dropout=settings["dropout"], label_smoothing=workload.LABEL_SMOOTHING)
hparams = hyperparameters.hparams("transformer_base", compute_dtype="bfloat16", **sizes)
step = new_step(CHANGES[settings["change"]](hparams), size.vocab_size, worker_gpu=None)


def _update(batch: Batch) -> jax.Array:
    return step.update(next(numbers), [[batch]])["loss"] / batch.target_tokens


def _report() -> tuple[str, int]:
    memory = jax.local_devices()[0].memory_stats() or {}
    return hardware_name(step.gpus), memory.get("peak_bytes_in_use", 0)


workload.answer_parent([Batch(**inputs) for inputs in batches], _update, _report)
