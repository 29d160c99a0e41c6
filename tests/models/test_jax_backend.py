"""Layers, model and loss give the same numbers on JAX, where TensorFlow is missing."""

import dataclasses
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.training.optimizer import token_sums

COMPILE_QUICKLY = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


def numbers(model, batch):
    """The numbers that jax_numbers.py computes."""
    weights = [weight.value for weight in model.trainable_variables]
    with tf.GradientTape() as tape:
        logits = model(batch)
        sums = token_sums(logits, batch["target"], label_smoothing=0.1)
    gradients = map(tf.convert_to_tensor, tape.gradient(sums["loss"], weights))
    paths = [weight.path for weight in model.trainable_variables]
    return {
        "logits": logits,
        **{f"sums/{name}": value for name, value in sums.items()},
        **{f"gradient/{path}": gradient for path, gradient in zip(paths, gradients, strict=True)},
    }


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")
def test_same_numbers(make_model, every_option, batch, tmp_path):
    expected, command = {}, [sys.executable, "-W", "error"]
    command.append(Path(__file__).with_name("jax_numbers.py"))
    for name, options in (("base", {}), ("every option", every_option)):
        model = make_model(num_layers=1, **options)
        shape = dataclasses.asdict(model.config) | {"vocab_size": model.vocab_size}
        integers = {key: value for key, value in shape.items() if isinstance(value, int)}
        given = {weight.path: weight.numpy() for weight in model.trainable_variables}
        given |= {f"shape/{key}": value for key, value in integers.items()}
        np.savez(tmp_path / f"{name}.given.npz", **given, **batch)
        expected[name] = numbers(model, batch)
        command += [tmp_path / f"{name}.given.npz", tmp_path / f"{name}.found.npz"]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": COMPILE_QUICKLY}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, values in expected.items():
        found = dict(np.load(tmp_path / f"{name}.found.npz"))
        assert set(found) == set(values)
        for key, value in values.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5, err_msg=key)
