"""Layers, model, loss and schedule give the same numbers on JAX, where TensorFlow is missing."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.layers import MultiHeadAttention, SinusoidalPositions
from t2t_keras.training.losses import token_sums
from t2t_keras.training.schedules import TransformerSchedule

COMPILE_QUICKLY = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
# What makes a model: all whole numbers, or true and false.
SHAPE_NAMES = ("vocab_size", "num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v")
SHAPE_NAMES += ("self_attention_radius", "learned_positions", "parameter_attention_heads")
SHAPE_NAMES += ("pre_norm",)


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")
@pytest.mark.parametrize("variant", ["base", "every option"], indirect=True)
def test_same_numbers(make_model, variant, batch, tmp_path):
    model = make_model(num_layers=1, **variant)
    random = np.random.default_rng(3)
    attention = MultiHeadAttention(2, 3)
    attention.build((None, None, 8))
    states = random.normal(size=(2, 4, 8)).astype(np.float32)
    mask = np.array([[True, True, True, False], [False, False, True, True]])
    steps = np.array([0, 100, 3999, 100_000])

    given = {weight.path: weight.numpy() for weight in model.trainable_variables}
    given |= {f"shape/{name}": model.get_config()[name] for name in SHAPE_NAMES}
    given |= {f"attention/{weight.name}": weight.numpy() for weight in attention.weights}
    given |= dict(batch, states=states, mask=mask, steps=steps)
    np.savez(tmp_path / "given.npz", **given)

    weights = [weight.value for weight in model.trainable_variables]
    with tf.GradientTape() as tape:
        logits = model(batch)
        sums = token_sums(logits, batch["target"], label_smoothing=0.1)
    expected = {
        "logits": logits,
        "schedule": [TransformerSchedule(512, 4000)(int(step)) for step in steps],
        "positions": SinusoidalPositions()(np.zeros((1, 3, 8), "float32"), start=4000),
        "attention": attention(states, mask=mask, causal=True),
        **{f"sums/{name}": value for name, value in sums.items()},
        **{
            f"gradient/{weight.path}": tf.convert_to_tensor(gradient)
            for weight, gradient in zip(
                model.trainable_variables, tape.gradient(sums["loss"], weights), strict=True
            )
        },
    }

    script = Path(__file__).with_name("jax_numbers.py")
    finished = subprocess.run(
        [sys.executable, "-W", "error", script, tmp_path / "given.npz", tmp_path / "found.npz"],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": COMPILE_QUICKLY},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    found = dict(np.load(tmp_path / "found.npz"))
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5, err_msg=name)
