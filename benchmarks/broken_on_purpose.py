"""Breaks a copy of this checkout in one place after the other, and shows that the tests see it.

    python benchmarks/broken_on_purpose.py [--only=mask]

For each fault, the tests that guard what it breaks are run on the copy. Prints the first one that
fails; ends with status 1 if for some fault none does, or if one fails where nothing is broken.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from absl import app, flags

_ONLY = flags.DEFINE_string("only", "", "Part of the names of the faults to try; default: all.")

_ROOT = Path(__file__).resolve().parents[1]
_NOT_COPIED = shutil.ignore_patterns(".*", "runs", "*.egg-info", "__pycache__")


class _Fault(NamedTuple):
    """What is broken: in a file, a text that stands there once, by another; and what guards it."""

    name: str
    file: str
    text: str
    broken: str
    tests: str


_FAULTS = [
    _Fault(
        "causal mask off by one",
        "layers/scaled_dot_product.py",
        "ahead <= (0 if causal else radius)",
        "ahead <= (1 if causal else radius)",
        "models/test_nothing_leaks.py layers/test_attention.py",
    ),
    _Fault(
        "radius off by one",
        "layers/restricted_attention.py",
        "near = np.abs(query - key) <= radius",
        "near = np.abs(query - key) < radius",
        "layers/test_restricted_attention.py",
    ),
    _Fault(
        "padding of the source is attended to",
        "layers/scaled_dot_product.py",
        "mask[:, None, None, :] if len(mask.shape) == 2",
        "ops.ones_like(mask)[:, None, None, :] if len(mask.shape) == 2",
        "models/test_nothing_leaks.py",
    ),
    _Fault(
        "sine and cosine swapped",
        "layers/position.py",
        "np.stack([np.sin(angles), np.cos(angles)]",
        "np.stack([np.cos(angles), np.sin(angles)]",
        "layers/test_position.py",
    ),
    _Fault(
        "positions from 1",
        "layers/position.py",
        "positions = np.arange(start, start + length)",
        "positions = np.arange(start + 1, start + length + 1)",
        "models/test_transformer.py",
    ),
    _Fault(
        "scores not divided by the root of d_k",
        "layers/scaled_dot_product.py",
        "return query * query.shape[-1] ** -0.5",
        "return query * 1.0",
        "layers/test_attention.py models/test_transformer.py",
    ),
    _Fault(
        "smoothing over V - 1",
        "training/losses.py",
        "uniform = normalizer - ops.mean(logits, axis=-1)",
        "uniform = normalizer - (ops.sum(logits, axis=-1) - target_logits) / (vocab_size - 1)",
        "training/test_losses.py",
    ),
    _Fault(
        "gradient of the loss without the smoothing's share",
        "training/losses.py",
        "- (smoothing * share)[:, None]",
        "",
        "training/test_losses.py",
    ),
    _Fault(
        "gradients not summed over replicas",
        "training/tensorflow_step.py",
        "        if self.num_replicas > 1:\n            gradients =",
        "        if self.num_replicas > 99:\n            gradients =",
        "training/test_tensorflow_step.py",
    ),
    _Fault(
        "schedule counted from 0",
        "training/schedules.py",
        'step = ops.cast(step, "float32") + 1.0',
        'step = ops.cast(step, "float32") + 0.0',
        "training/test_schedules.py",
    ),
    _Fault(
        "Adam's epsilon before the correction of the bias",
        "training/adam.py",
        "epsilon = self.epsilon * tf.sqrt(1.0 - beta2_power)",
        "epsilon = self.epsilon",
        "training/test_adam.py",
    ),
    _Fault(
        "length penalty from 6",
        "decoding/beam_search.py",
        "((5.0 + tf.cast(length, tf.float32)) / 6.0)",
        "((6.0 + tf.cast(length, tf.float32)) / 6.0)",
        "decoding/test_beam_search.py",
    ),
    _Fault(
        "kept keys and values in the wrong order",
        "layers/stacks.py",
        "self.self_attention.attend(read, [past, recent]",
        "self.self_attention.attend(read, [recent, past]",
        "decoding/test_translator.py",
    ),
    _Fault(
        "optimizer not restored",
        "training/checkpoints.py",
        "self._checkpoint = tf.train.Checkpoint(**state)",
        'self._checkpoint = tf.train.Checkpoint(model=state["model"])',
        "training/test_trainer.py",
    ),
]


def main(_) -> None:
    """Tries each fault on one copy."""
    faults = [fault for fault in _FAULTS if _ONLY.value in fault.name]
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(_ROOT, copy, ignore=_NOT_COPIED)
        tests = " ".join(dict.fromkeys(" ".join(fault.tests for fault in faults).split()))
        if failed := first_failure(copy, tests):
            sys.exit(f"Nothing is broken, but {failed} fails.")
        print("| what is broken | fails first |\n|---|---|")
        for fault in faults:
            path = copy / "t2t_keras" / fault.file
            whole = path.read_text(encoding="utf-8")
            if whole.count(fault.text) != 1:
                sys.exit(f"{fault.text!r} does not stand once in {fault.file}.")
            path.write_text(whole.replace(fault.text, fault.broken), encoding="utf-8")
            failed = first_failure(copy, fault.tests)
            path.write_text(whole, encoding="utf-8")
            print(f"| {fault.name} | {f'`{failed}`' if failed else 'NOTHING'} |", flush=True)
            missed += [] if failed else [fault.name]
    if missed:
        sys.exit(f"No test sees: {', '.join(missed)}.")


def first_failure(copy: Path, tests: str) -> str:
    """Returns the first test of these files that fails in the copy, "" where all pass."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
            *(f"tests/{name}" for name in tests.split()),
        ],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"^(?:FAILED|ERROR) tests/\S*?([^/\s]+)( - |$)", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1) or bool(found) != bool(done.returncode):
        sys.exit(done.stdout + done.stderr)
    return found[1] if found else ""


if __name__ == "__main__":
    app.run(main)
