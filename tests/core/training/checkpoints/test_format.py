"""The file of a checkpoint: what is read is what was written, or an error."""

import json
import tracemalloc
import zlib

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from refusals import refused

from t2t_keras.errors import UserError
from t2t_keras.training.checkpoint_files import read, read_head, write

ARRAYS = {
    "model/b": np.float32([[1.5, np.nan, -0.0], [np.inf, 1e-45, 2]]),
    "model/a": np.arange(5).astype(ml_dtypes.bfloat16) / 3,
    "steps": np.int64(2**62 + 1),
    "flag": np.asarray(True),
    "none": np.zeros((0, 3), np.float16),
}
HEAD = {"step": 7, "cost": {"seconds": 1.5, "hardware": "a „CPU“"}}


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "model.ckpt-7.safetensors"
    write(found, ARRAYS, HEAD)
    return found


def test_what_is_written_is_read_bit_for_bit(path):
    arrays, head = read(path)
    assert list(arrays) == list(ARRAYS), "in their order"
    for name, array in ARRAYS.items():
        kinds = [(each.dtype, each.shape, each.tobytes()) for each in (array, arrays[name])]
        assert kinds[0] == kinds[1], name
    assert head.items() >= HEAD.items()
    assert read_head(path) == head
    # The library finds the same.
    assert read_head(path)["crc32"]["model/b"] == zlib.crc32(ARRAYS["model/b"].tobytes())
    for name, array in safetensors.numpy.load_file(path).items():
        assert (array.dtype, array.tobytes()) == (ARRAYS[name].dtype, ARRAYS[name].tobytes())


def test_the_digest_is_that_of_the_arrays(path):
    digest = read_head(path)["digest"]
    for arrays, is_equal in (
        (dict(reversed(ARRAYS.items())), True),
        (ARRAYS | {"steps": np.int64(8)}, False),
        (ARRAYS | {"model/b": ARRAYS["model/b"].reshape(3, 2)}, False),
        ({name.replace("none", "no"): array for name, array in ARRAYS.items()}, False),
        (ARRAYS | {"none": ARRAYS["none"].astype(np.float32)}, False),
    ):
        write(path, arrays, {"step": 8})
        assert (read_head(path)["digest"] == digest) == is_equal


def test_no_changed_byte_goes_unnoticed(path):
    content = path.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 4
        path.write_bytes(changed)
        with pytest.raises(UserError) as info:
            read(path)
        assert info.value.code in ("checkpoint_damaged", "other_checkpoint_version"), place


def test_of_arrays_that_are_not_wanted_nothing_is_read(path):
    large = {"model/c": np.float32([3]), "moments": np.zeros(2_000_000), "model/d": np.int8([4])}
    write(path, ARRAYS | large, HEAD)
    content = bytearray(path.read_bytes())
    content[-9] ^= 1  # The last byte but eight is of the moments.
    path.write_bytes(content)
    wanted = "model/", "steps"
    tracemalloc.start()
    arrays, head = read(path, wanted)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert list(arrays) == ["model/b", "model/a", "steps", "model/c", "model/d"]
    assert [arrays["model/c"].tolist(), arrays["model/d"].tolist()] == [[3], [4]]
    assert head == read_head(path)
    assert peak < 1_000_000, "of 16 MB"
    for prefixes in (("moments",), ("model/", "mom"), ("",)):
        with refused("checkpoint_damaged", path, "moments"):
            read(path, prefixes)
    write(path, ARRAYS | large, HEAD)
    assert list(read(path, ("",))[0]) == list(ARRAYS | large)


@pytest.mark.parametrize(
    "change", [lambda c: c[:-1], lambda c: c[:9], lambda c: b"", lambda c: c + b"0"]
)
def test_of_another_length(path, change):
    path.write_bytes(change(path.read_bytes()))
    with refused("checkpoint_damaged", path):
        read_head(path)


def test_files_of_others(path):
    safetensors.numpy.save_file({"a": np.zeros(3)}, path)
    with refused("checkpoint_damaged", path):
        read(path)
    header = b'{"__metadata__": {}, "x": ' + b"[" * 100_000
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with refused("checkpoint_damaged", path):
        read(path)


def test_a_later_version_is_not_damaged(path):
    text = json.dumps({**read_head(path), "version": 2})
    metadata = {"head": text, "crc32": str(zlib.crc32(text.encode()))}
    safetensors.numpy.save_file({"a": np.zeros(3)}, path, metadata)
    with refused("other_checkpoint_version", path, 2):
        read(path)


def test_what_the_system_does_not_let_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with refused("checkpoint_not_read", path):
            read(path)
