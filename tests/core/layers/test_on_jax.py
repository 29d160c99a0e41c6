"""Layers on JAX: Keras's harness, masks, and an export for lengths that are not known.

In one process of its own, as a process has one backend.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

CODE = """
import sys
import numpy as np
import test_exports, test_keras_harness, test_masks_beside_keras
for case in test_keras_harness.CASES:
    test_keras_harness.test_layer(*case)
for name in test_masks_beside_keras.CASES:
    test_masks_beside_keras.test_masks(name)
for name in test_masks_beside_keras.LAYERS:
    test_masks_beside_keras.test_masks_of_other_layers(name)
model, ids = test_exports.make_model(), test_exports.IDS
model.export(sys.argv[1] + "/model", verbose=False)
for name, part in (("long", ids), ("short", ids[:, :3])):
    np.savez(f"{sys.argv[1]}/{name}.npz", ids=part, logits=model.predict(part, verbose=0))
"""


def test_all_of_it(tmp_path):
    pytest.importorskip("jax")
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"KERAS_BACKEND": "jax", "PYTHONPATH": paths}
    command = [sys.executable, "-W", "ignore", "-c", CODE, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    for name in ("long", "short"):
        computed = np.load(tmp_path / f"{name}.npz")
        np.testing.assert_allclose(loaded.serve(computed["ids"]), computed["logits"], atol=1e-5)
