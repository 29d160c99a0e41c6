"""The trainer's step on JAX; benchmarks/gpu.py starts this."""

# ruff: noqa: E402
import itertools
import sys
from pathlib import Path

sys.modules["tensorflow"] = None  # Keras would import it.
_ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(_ROOT / "benchmarks"))
import jax
import workload
from measuring import new_step

from t2t_keras import hyperparameters
from t2t_keras.data.batches import Batch
from t2t_keras.training.cost import hardware_name

settings, batches = workload.work_of_parent()
size, numbers = settings["size"], itertools.count()
sizes = {name: getattr(size, name) for name in ("num_layers", "d_model", "d_ff", "num_heads")}
sizes |= dict(dropout=settings["dropout"], label_smoothing=workload.LABEL_SMOOTHING)
hparams = hyperparameters.hparams("transformer_base", compute_dtype="bfloat16", **sizes)
if settings["change"]:
    sys.path.append(str(_ROOT / "experiments" / "step_changes"))
    from gpu_changes import CHANGES

    hparams = CHANGES[settings["change"]](hparams)
step = new_step(hparams, size.vocab_size, worker_gpu=None)


def _update(batch: Batch) -> jax.Array:
    return step.update(next(numbers), [[batch]])["loss"] / batch.target_tokens


def _report() -> tuple[str, int]:
    memory = jax.local_devices()[0].memory_stats() or {}
    return hardware_name(step.gpus), memory.get("peak_bytes_in_use", 0)


workload.answer_parent([Batch(**inputs) for inputs in batches], _update, _report)
