"""benchmarks/gpu.py measures the pairs that it is told to, at toy size, without TensorFlow."""

import importlib.util
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

WITHOUT_TENSORFLOW = """
import runpy, sys
sys.modules["tensorflow"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# Of the toy: one layer a stack.
WIDTH, INNER, VOCAB_SIZE, STEP_TOKENS = 32, 64, 500, 512


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")
def test_both_workloads(root, tmp_path):
    np.save(tmp_path / "pairs.npy", np.full((64, 2), (12, 9), np.int32))
    script, out = str(root / "benchmarks" / "gpu.py"), tmp_path / "gpu.json"
    flags = ["--sizes=toy", "--steps=2", "--rounds=1", "--peak_tflops=0.001", f"--out={out}"]
    call = [sys.executable, "-c", WITHOUT_TENSORFLOW, script, *flags]
    done = subprocess.run(
        [*call, f"--lengths={tmp_path / 'pairs.npy'}"],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "TORCH_COMPILE_DISABLE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(out.read_text("utf-8"))["results"]
    if importlib.util.find_spec("torch") is None:
        assert done.stdout.count("pytorch is left out") == 2
    uniform, real = (row for row in results if row["step"] == "t2t_keras")
    assert (uniform["workload"], uniform["pairs"], uniform["target_tokens"]) == (
        "uniform",
        2 * STEP_TOKENS // 32,
        2 * STEP_TOKENS,
    )
    assert (real["workload"], real["pairs"], real["target_tokens"]) == ("real", 64, 64 * 9)
    # Two pairs fit into a row of 32; the target's tokens are fewer.
    assert uniform["token_share"] == 1
    assert real["token_share"] == (2 * 12 + 2 * 9) / (2 * 32)
    for row, (source, target) in ((uniform, (32, 32)), (real, (12, 9))):
        assert row["shapes"] == 1
        [seconds] = row["seconds"]
        assert math.isclose(row["tokens_per_s"], row["target_tokens"] / seconds)
        assert math.isclose(row["ms"], seconds / 2 * 1e3)
        operations = 3 * 2 * row["pairs"] * products(source, target)
        assert math.isclose(row["tflops"], operations / seconds / 1e12)
        assert math.isclose(row["of_peak"], row["tflops"] / 0.001)
        assert 0 < row["first_s"] <= row["compiled_s"]
        # Of random weights: about that of uniform probabilities.
        assert abs(row["loss"] - math.log(VOCAB_SIZE)) < 1
        assert f"| toy, {row['workload']}: t2t_keras | {row['ms']:,.1f} |" in done.stdout


def products(source, target):
    """Multiplications of a pair's forward pass, without those of other pairs and padding."""
    feed_forward = 2 * WIDTH * INNER
    encoder = source * (4 * WIDTH**2 + feed_forward) + 2 * WIDTH * source**2
    memory = source * 2 * WIDTH**2 + 2 * WIDTH * source * target
    decoder = target * (6 * WIDTH**2 + feed_forward) + 2 * WIDTH * target**2
    return encoder + memory + decoder + target * WIDTH * VOCAB_SIZE
