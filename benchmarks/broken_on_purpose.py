"""Breaks a copy of this checkout in one place after the other, and shows that the tests see it.

    python benchmarks/broken_on_purpose.py [--only=mask,positions]

For each fault, the test that it is aimed at is run on the copy, or the files of tests that guard
what it breaks. Prints the first test that fails; ends with status 1 if for some fault none does, or
if one fails where nothing is broken. Each fault has its row in docs/broken_on_purpose.md.
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

_ONLY = flags.DEFINE_list("only", [], "Parts of the names of the faults to try; default: all.")

_ROOT = Path(__file__).resolve().parents[1]
_NOT_COPIED = shutil.ignore_patterns(".*", "runs", "*.egg-info", "__pycache__")


class Fault(NamedTuple):
    """What is broken: in a file, a text that stands there once, by another; and what guards it.

    Where `tests` names a test of a file, that very test has to fail; else any test of the files.
    """

    name: str
    file: str
    text: str
    broken: str
    tests: str


FAULTS = [
    Fault(
        "causal mask off by one",
        "layers/scaled_dot_product.py",
        "ahead <= (0 if causal else radius)",
        "ahead <= (1 if causal else radius)",
        "models/test_nothing_leaks.py layers/test_attention.py",
    ),
    Fault(
        "radius off by one",
        "layers/restricted_attention.py",
        "near = ops.abs(query - key) <= radius",
        "near = ops.abs(query - key) < radius",
        "layers/test_restricted_attention.py",
    ),
    Fault(
        "padding of the source is attended to",
        "layers/scaled_dot_product.py",
        "mask[:, None, None, :] if len(mask.shape) == 2",
        "ops.ones_like(mask)[:, None, None, :] if len(mask.shape) == 2",
        "models/test_nothing_leaks.py",
    ),
    Fault(
        "sine and cosine swapped",
        "layers/position.py",
        "np.stack([np.sin(angles), np.cos(angles)]",
        "np.stack([np.cos(angles), np.sin(angles)]",
        "layers/test_position.py",
    ),
    Fault(
        "positions from 1",
        "layers/position.py",
        "positions = np.arange(start, start + length)",
        "positions = np.arange(start + 1, start + length + 1)",
        "models/test_transformer.py",
    ),
    Fault(
        "scores not divided by the root of d_k",
        "layers/scaled_dot_product.py",
        "return query * query.shape[-1] ** -0.5",
        "return query * 1.0",
        "layers/test_attention.py models/test_transformer.py",
    ),
    Fault(
        "smoothing over V - 1",
        "training/losses.py",
        "uniform = normalizer - ops.mean(logits, axis=-1)",
        "uniform = normalizer - (ops.sum(logits, axis=-1) - target_logits) / (vocab_size - 1)",
        "training/test_losses.py",
    ),
    Fault(
        "gradient of the loss without the smoothing's share",
        "training/losses.py",
        "(probabilities - smoothing) * share",
        "probabilities * share",
        "training/test_losses.py",
    ),
    Fault(
        "gradient of layer normalisation without the part along its output",
        "layers/normalization.py",
        " - y * along_y",
        "",
        "layers/test_normalization.py",
    ),
    Fault(
        "gradients not summed over replicas",
        "training/tensorflow_step.py",
        "        if self.num_replicas > 1:\n            gradients =",
        "        if self.num_replicas > 99:\n            gradients =",
        "training/test_tensorflow_step.py",
    ),
    Fault(
        "schedule counted from 0",
        "training/schedules.py",
        'step = ops.cast(step, "float32") + 1.0',
        'step = ops.cast(step, "float32") + 0.0',
        "training/test_schedules.py",
    ),
    Fault(
        "Adam's epsilon before the correction of the bias",
        "training/adam.py",
        "epsilon = self.epsilon * tf.sqrt(1.0 - beta2_power)",
        "epsilon = self.epsilon",
        "training/test_adam.py",
    ),
    Fault(
        "length penalty from 6",
        "decoding/beam_search.py",
        "((5.0 + tf.cast(length, tf.float32)) / 6.0)",
        "((6.0 + tf.cast(length, tf.float32)) / 6.0)",
        "decoding/test_beam_search.py",
    ),
    Fault(
        "kept keys and values in the wrong order",
        "layers/stacks.py",
        "self.self_attention.attend(read, [past, recent]",
        "self.self_attention.attend(read, [recent, past]",
        "decoding/test_translator.py",
    ),
    Fault(
        "optimizer not restored",
        "training/checkpoints.py",
        "self._checkpoint = tf.train.Checkpoint(**state)",
        'self._checkpoint = tf.train.Checkpoint(model=state["model"])',
        "training/test_trainer.py",
    ),
    Fault(
        "layer normalisation with Keras's epsilon",
        "layers/residual.py",
        'epsilon=1e-6, dtype=self.dtype_policy, name="norm"',
        'epsilon=1e-3, dtype=self.dtype_policy, name="norm"',
        "models/test_table_3.py::test_logits_are_the_paper_s[transformer_base]",
    ),
    Fault(
        "values of the attention over parameters not scaled",
        "layers/parameter_attention.py",
        "                self.values * scale,",
        "                self.values,",
        "models/test_table_3.py::test_logits_are_the_paper_s[transformer_parameter_attention_b]",
    ),
    Fault(
        "learned positions from the first again after the last",
        "layers/position.py",
        "ops.minimum(positions, self.max_positions - 1)",
        "ops.mod(positions, self.max_positions)",
        "models/test_table_3.py::test_logits_are_the_paper_s[transformer_learned_positions]",
    ),
    Fault(
        "sentences of a batch see a little of each other's values",
        "layers/scaled_dot_product.py",
        "    return ops.matmul(weights, value), weights\n\n\ndef attention_over_parts",
        "    value += 1e-3 * ops.mean(value, axis=0)\n"
        "    return ops.matmul(weights, value), weights\n\n\ndef attention_over_parts",
        "models/test_nothing_leaks.py::test_the_neighbour_sentences",
    ),
    Fault(
        "no gradient through the attention weights",
        "layers/scaled_dot_product.py",
        "    return ops.cast(weights, dtype)",
        "    return ops.stop_gradient(ops.cast(weights, dtype))",
        "models/test_gradients.py::test_gradients_agree_with_central_differences",
    ),
    Fault(
        "the target keeps what smoothing should take from it",
        "training/losses.py",
        "smoothed = (1 - label_smoothing) * unsmoothed + ",
        "smoothed = unsmoothed + ",
        "training/test_losses.py::test_minimum_is_the_entropy_of_the_smoothed_target",
    ),
    Fault(
        "a layer's gradients are not waited for before the layer below is computed again",
        "layers/recomputation.py",
        "call(*_gradients_together(*weights, *inputs))",
        "call(*weights, *inputs)",
        "training/test_memory.py::test_a_step_that_computes_layers_again_takes_about_what_was_counted",
    ),
    Fault(
        "sum of checkpoints divided by one too many",
        "training/averaging.py",
        "(total / len(paths))",
        "(total / (len(paths) + 1))",
        "training/test_averaging.py::test_average_is_the_mean_of_the_arrays",
    ),
    Fault(
        "time between checkpoints counted from the newest",
        "training/averaging.py",
        "            last = at\n",
        "            last = seconds[-1]\n",
        "training/test_averaging.py::test_the_newest_and_each_first_one_old_enough",
    ),
    Fault(
        "first weights without the seed",
        "training/tensorflow_step.py",
        "        keras.utils.set_random_seed(seed)\n",
        "",
        "training/test_what_changes_a_run.py"
        "::test_the_same_seed_gives_the_same_run_and_another_another",
    ),
    Fault(
        "dropout without the seed",
        "training/dropout_seeds.py",
        "np.random.SeedSequence([seed, step, part])",
        "np.random.SeedSequence()",
        "training/test_trainer.py::test_resumed_is_never_stopped",
    ),
    Fault(
        "positions in the precision that the backend has",
        "layers/position.py",
        "if length is None or not isinstance(start, int):",
        "if True:",
        "models/test_jax_backend.py::test_same_numbers",
    ),
    Fault(
        "JAX divides by the tokens of a microbatch",
        "training/jax_step.py",
        'share = sums["loss"] / tokens',
        'share = sums["loss"] / sums["tokens"]',
        "training/test_jax_training.py::test_the_same_losses_as_tensorflow_for_20_steps",
    ),
]


def main(_) -> None:
    """Tries each fault on one copy."""
    parts = _ONLY.value or [""]
    faults = [fault for fault in FAULTS if any(part in fault.name for part in parts)]
    if not faults:
        sys.exit(f"No fault has a name with {' or '.join(parts)} in it.")
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
