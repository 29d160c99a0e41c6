"""Files of torch.save, as torch recorded their values (experiments/importing_models)."""

import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from torch_files import save_as_torch

from t2t_keras.interop.importers.files import read_pytorch, read_weights
from t2t_keras.interop.importers.pickles import TreeBound

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize("file", ["tensors.pt", "tensors_before_1.6.pt"])
def test_tensors_of_every_kind(file):
    actual, expected = read_pytorch(FIXTURES / file), np.load(FIXTURES / "tensors.npz")
    assert list(actual["model"]) == expected.files
    for name, values in actual["model"].items():
        np.testing.assert_array_equal(np.asarray(values, np.float32), expected[name], strict=True)
    assert (actual["model"]["int64"].dtype, actual["model"]["bool"].dtype) == (np.int64, np.bool_)
    assert (actual["args"].layers, actual["other"]) == (2, [1, None, "text"])


def test_bfloat16_of_safetensors(tmp_path):
    values = np.array([1.0, -2.5, 3.0], np.float32)
    # bfloat16 is the first half of float32; NumPy has no name for it.
    content = (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    header = b'{"x":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}'
    data = len(header).to_bytes(8, "little") + header + content
    (tmp_path / "model.safetensors").write_bytes(data)
    actual = read_weights(tmp_path, "model.safetensors")["x"]
    np.testing.assert_array_equal(actual, values, strict=True)


@pytest.mark.parametrize("name", ["model.safetensors", "model.bin"])
def test_a_fifo_is_refused(tmp_path, name):
    os.mkfifo(tmp_path / name)
    # With an end that writes, opening it to read does not wait.
    writer = os.open(tmp_path / name, os.O_RDWR)
    os.write(writer, b"\0" * 8)
    try:
        with refused("not_a_file", name):
            read_weights(tmp_path, name)
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ((os.system, ("touch {made}",)), "posix.system"),
        ((eval, ("open('{made}', 'w')",)), "__builtin__.eval"),
        ((getattr, ("text", "format")), "__builtin__.getattr"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_code_is_not_run(tmp_path, call, named, packed):
    target, path = tmp_path / "made", tmp_path / "model.pt"

    class Calls:
        def __reduce__(self):
            return call[0], tuple(argument.format(made=target) for argument in call[1])

    path.write_bytes(pickle.dumps({"model": Calls()}, protocol=2))
    if packed:
        content = path.read_bytes()
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model/data.pkl", content)
    with refused("might_run_code", "model.pt", named):
        read_pytorch(path)
    assert not target.exists()


def test_a_tensor_outside_of_its_storage_is_refused(tmp_path):
    path = tmp_path / "short.pt"
    with zipfile.ZipFile(FIXTURES / "tensors.pt") as whole, zipfile.ZipFile(path, "w") as short:
        for name in whole.namelist():
            short.writestr(name, whole.read(name)[: 8 if name.endswith("/data/0") else None])
    with refused("damaged_file", "short.pt", "[4, 6]"):
        read_pytorch(path)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({"state_dict": {}, "epoch": 3}, [" dict ", "'state_dict'"]),
        ([1], [" list."]),
        ({1: np.zeros(1)}, [" ndarray ", " 1."]),
    ],
)
def test_what_is_not_weights_alone_is_refused(tmp_path, content, names):
    save_as_torch(content, tmp_path / "model.bin")
    with refused("not_a_checkpoint", "model.bin", *names):
        read_weights(tmp_path, "model.bin")


@pytest.mark.parametrize(
    ("file", "code"),
    [("tensors.pt", "not_a_checkpoint"), ("tensors_before_1.6.pt", "damaged_file")],
)
def test_damaged_files_are_refused(tmp_path, file, code):
    damaged = tmp_path / "damaged.pt"
    damaged.write_bytes((FIXTURES / file).read_bytes()[:-20])
    with refused(code, "damaged.pt"):
        read_pytorch(damaged)


def test_the_deepest_settings():
    TreeBound("it").check(64)
    with refused("too_many_values"):
        TreeBound("it").check(65)


def test_the_most_settings():
    bound = TreeBound("it")
    for _ in range(1_000_000):
        bound.check(1)
    with refused("too_many_values"):
        bound.check(1)
