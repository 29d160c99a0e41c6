"""Products of few rows by the operator in C++, against NumPy's."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.search import few_rows
from t2t_keras.decoding.search.few_rows import few_rows_product

_needs_compiler = pytest.mark.skipif(not shutil.which("c++"), reason="there is no C++ compiler")


@_needs_compiler
@pytest.mark.parametrize("transposed", [False, True])
# One row and more than are multiplied at a time; widths of no, some and many vectors, by no and by
# several threads.
@pytest.mark.parametrize(
    ("rows", "k", "n"), [(1, 3, 5), (4, 67, 33), (9, 512, 400), (4, 700, 1024)]
)
def test_products_are_those_of_numpy(rows, k, n, transposed):
    product, draw = few_rows_product(), np.random.default_rng(1)
    x = np.float32(draw.normal(size=(rows, 1, k)))
    w = tf.Variable(np.float32(draw.normal(size=(n, k) if transposed else (k, n))))

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 1, k])])
    def compiled(x):
        return product(x + 1, w, transposed)

    expected = np.float64(x + 1) @ np.float64(w.numpy().T if transposed else w.numpy())
    assert compiled(x).numpy() == pytest.approx(expected, abs=1e-3)


def test_without_a_compiler_there_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(few_rows.shutil, "which", lambda _: None)
    assert few_rows_product.__wrapped__() is None
    assert not [*tmp_path.rglob("*")]


@_needs_compiler
def test_what_cannot_be_compiled_is_not_tried_again(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(few_rows, "_FLAGS", ("-fno-such-flag",))
    assert few_rows_product.__wrapped__() is None
    [left] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left.suffix == ".failed"
    monkeypatch.setattr(few_rows.subprocess, "run", None)  # It is not tried again.
    assert few_rows_product.__wrapped__() is None
