"""Layers, model and loss give the same numbers on JAX, where TensorFlow is missing."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.optimizer import token_sums

COMPILE_QUICKLY = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")
def test_same_numbers(make_model, every_option, batch, tmp_path):
    expected, command = {}, [sys.executable, "-W", "error"]
    command.append(Path(__file__).with_name("jax_numbers.py"))
    for name, options in (("base", {}), ("every", every_option)):
        model = make_model(num_layers=1, symbol_dropout=0.5, attention_dropout=0.5, **options)
        weights = [weight.value for weight in model.trainable_variables]
        with tf.GradientTape() as tape:
            logits = model(batch)
            sums = token_sums(logits, batch["target"], label_smoothing=0.1)
        gradients = map(tf.convert_to_tensor, tape.gradient(sums["loss"], weights))
        found = tmp_path / f"{name}.found.npz"
        expected[found] = [logits, *(sums[name] for name in sorted(sums)), *gradients]
        given = {weight.path: weight.numpy() for weight in model.trainable_variables}
        np.savez(tmp_path / f"{name}.npz", **given, **batch)
        command += [json.dumps(model.get_config()), tmp_path / f"{name}.npz", found]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": COMPILE_QUICKLY}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for path, numbers in expected.items():
        for found, number in zip(np.load(path).values(), numbers, strict=True):
            np.testing.assert_allclose(found, number, rtol=1e-5, atol=1e-5)
