"""Products of few rows with weights, by an operator that reads the weights once.

A single sentence waits for the memory that its weights are in, and XLA's own products read them
about twice. The operator, `few_rows.cc`, is optional: a C++ compiler makes it, for this processor,
when it is first needed, and it is kept where compiled code is.
"""

import ctypes
import functools
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from t2t_keras.environment import compiled_folder

# Products of more rows take less time by XLA.
MOST_ROWS = 8
_SOURCE = Path(__file__).with_suffix(".cc")
_FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-w")
_LONGEST_COMPILATION = 60  # seconds
# The call's third operand tells XLA the result's shape, and is not handed on.
_MODULE = """
module @product {{ func.func public @main(%x: tensor<?x{k}xf32>, %w: tensor<{shape}xf32>)
    -> tensor<?x{n}xf32> {{
  %rows = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x{k}xf32>) -> tensor<i32>
  %first = stablehlo.reshape %rows : (tensor<i32>) -> tensor<1xi32>
  %second = stablehlo.constant dense<{n}> : tensor<1xi32>
  %shape = stablehlo.concatenate %first, %second, dim = 0
      : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %y = stablehlo.custom_call @{target}(%x, %w, %shape)
      {{api_version = 4 : i32, backend_config = {{}},
        indices_of_shape_operands = dense<2> : tensor<1xi64>}}
      : (tensor<?x{k}xf32>, tensor<{shape}xf32>, tensor<2xi32>) -> tensor<?x{n}xf32>
  return %y : tensor<?x{n}xf32> }} }}
"""


@functools.cache
def few_rows_product() -> Callable[..., tf.Tensor] | None:
    """Returns `product(x, w, transposed=False)` for what XLA compiles, or None without a compiler.

    It multiplies float32 x [..., k] with w [k, n], or with the transposed w [n, k].
    """
    try:
        from tensorflow.compiler.tf2xla.ops.gen_xla_ops import xla_call_module

        registered = ctypes.CDLL(str(_compiled())).register_products() == 0
    except (ImportError, OSError, subprocess.SubprocessError):
        return None
    return functools.partial(_product, xla_call_module) if registered else None


def _product(
    call_module: Callable, x: tf.Tensor, w: tf.Tensor, transposed: bool = False
) -> tf.Tensor:
    first, second = w.shape
    k, n = (second, first) if transposed else (first, second)
    target = "t2t_few_rows" + "_transposed" * transposed
    module = _MODULE.format(k=k, n=n, shape=f"{first}x{second}", target=target)
    settings = dict(version=4, module=module, platforms=["CPU"])
    rows = tf.reshape(x, [-1, k])
    (y,) = call_module([rows, w], Sout=[[None, n]], Tout=[tf.float32], **settings)
    return tf.reshape(y, [*tf.unstack(tf.shape(x))[:-1], n])


def _compiled() -> Path:
    """Returns the file of the operator, made where there is none yet.

    Raises:
      OSError, subprocess.SubprocessError: it could not be made, now or before.
    """
    folder, source = compiled_folder(), _SOURCE.read_bytes()
    if not folder:
        raise FileNotFoundError
    target = folder / f"few_rows-{hashlib.sha256(source).hexdigest()[:12]}.so"
    failed = target.with_suffix(".failed")
    compiler = shutil.which("c++")
    if target.exists():
        return target
    if failed.exists() or not compiler:
        raise FileNotFoundError
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        output = Path(made) / target.name
        command = [compiler, *_FLAGS, f"-I{tf.sysconfig.get_include()}", str(_SOURCE)]
        command += ["-o", str(output)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_LONGEST_COMPILATION)
        except subprocess.SubprocessError:
            failed.touch()
            raise
        # Whoever compiles it at the same time makes the same.
        output.replace(target)
    return target
