"""Hostile and damaged models are refused with one line, and nothing else happens."""

import collections
import itertools
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import damaged_models
import numpy as np
import pytest

from t2t_keras.errors import UserError
from t2t_keras.interop.importers.files import (
    checkpoint_prefix,
    find_recorded_file,
    read_pytorch,
    read_yaml,
)
from t2t_keras.interop.importers.imported import read_model
from t2t_keras.interop.importers.pickles import to_containers
from t2t_keras.io.files import read_bounded
from t2t_keras.text.tokenizer import Tokenizer

FIXTURES = Path(__file__).parent / "fixtures"
MARIAN, FAIRSEQ = FIXTURES / "marian_shared", FIXTURES / "fairseq" / "shared"


def code_of(call, *arguments):
    with pytest.raises(UserError) as refusal:
        call(*arguments)
    assert len(str(refusal.value)) < 2000
    return refusal.value.code


@pytest.fixture
def packed(tmp_path):
    """packed(content, storages): a file of torch.save with these operations of a pickle."""

    def write(content, **storages):
        path = tmp_path / "model.pt"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model/data.pkl", b"\x80\x02" + content + b".")
            for key, values in storages.items():
                archive.writestr(f"model/data/{key}", values.tobytes())
        return path

    return write


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value):
    return b"\x8a\x08" + value.to_bytes(8, "little", signed=True)


def numbers(*values):
    return b"(" + b"".join(map(number, values)) + b"t"


FLOATS = np.arange(6, dtype=np.float32)
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


def storage(size=6, kind=b"ctorch\nFloatStorage\n"):
    return b"(" + text("storage") + kind + text("s") + text("cpu") + number(size) + b"tQ"


STORAGE, START, SHAPE, STRIDES = storage(), number(0), numbers(2, 3), numbers(3, 1)


def tensor(base=STORAGE, offset=START, shape=SHAPE, strides=STRIDES):
    return REBUILD + b"(" + base + offset + shape + strides + b"tR"


def test_a_tensor_is_built_of_a_storage(packed):
    actual = read_pytorch(packed(tensor(), s=FLOATS))
    np.testing.assert_array_equal(actual, FLOATS.reshape(2, 3))
    whole = read_pytorch(packed(tensor(shape=numbers(6), strides=numbers(1)), s=FLOATS))
    np.testing.assert_array_equal(whole, FLOATS)
    ones = [1] * 6
    deep = tensor(shape=numbers(*ones, 2, 3), strides=numbers(*ones, 3, 1))
    assert read_pytorch(packed(deep, s=FLOATS)).shape == (*ones, 2, 3)
    deeper = tensor(shape=numbers(1, *ones, 2, 3), strides=numbers(1, *ones, 3, 1))
    assert code_of(read_pytorch, packed(deeper, s=FLOATS)) == "bad_operands"
    # As tied embeddings share their numbers.
    assert len(read_pytorch(packed(b"](" + 16 * tensor() + b"e", s=FLOATS))) == 16
    shared = packed(b"](" + 17 * tensor() + b"e", s=FLOATS)
    assert code_of(read_pytorch, shared) == "too_many_values"


@pytest.mark.parametrize(("kind", "dtype"), [("Char", "i1"), ("Byte", "u1"), ("Int", "i4")])
def test_small_numbers(packed, kind, dtype):
    values = np.arange(-3, 3).astype(dtype)
    content = tensor(storage(kind=f"ctorch\n{kind}Storage\n".encode()))
    actual = read_pytorch(packed(content, s=values))
    np.testing.assert_array_equal(actual, values.reshape(2, 3), strict=True)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (tensor(base=tensor()), "bad_operands"),
        (tensor(base=text("storage")), "bad_operands"),
        (tensor(offset=text("0")), "bad_operands"),
        (tensor(offset=number(-1)), "bad_operands"),
        (tensor(shape=b"]"), "bad_operands"),
        (tensor(shape=numbers(-2, 3)), "bad_operands"),
        (tensor(strides=numbers(3, -1)), "bad_operands"),
        (tensor(strides=numbers(3)), "not_a_checkpoint"),
        (tensor(offset=number(1)), "damaged_file"),
        (tensor(shape=numbers(7), strides=numbers(1)), "damaged_file"),
        (tensor(shape=numbers(10**9, 10**9), strides=numbers(0, 0)), "too_many_values"),
        (tensor(shape=numbers(7), strides=numbers(0)), "too_many_values"),
        (tensor(storage(kind=text("FloatStorage"))), "bad_operands"),
        (tensor(storage(kind=b"ctorch._utils\n_rebuild_parameter\n")), "bad_operands"),
        (tensor(storage(kind=b"ctorch\nOtherStorage\n")), "might_run_code"),
        (REBUILD + b"(tR", "bad_operands"),
        (b"ctorch._utils\n_rebuild_parameter\n(NtR", "bad_operands"),
        # Attributes of a function, a tensor and a list; items of a tensor.
        (REBUILD + b"}" + text("x") + b"Nsb", "bad_operands"),
        (tensor() + b"}b", "bad_operands"),
        (b"]}b", "bad_operands"),
        (tensor() + number(0) + b"Ns", "bad_operands"),
        (b"}((NttNs", "bad_operands"),
        (b"cos\nsystem\n(" + text("true") + b"tR", "might_run_code"),
        (b"csafe\x1b[31m\nsystem\n", "might_run_code"),
        (b"}" + text("x") * 3 + b"s", "bad_operands"),
        (b"", "not_a_checkpoint"),
        (b"(", "bad_operands"),
    ],
)
def test_operands_are_checked(packed, content, code):
    assert code_of(read_pytorch, packed(content, s=FLOATS)) == code


@pytest.mark.parametrize(("count", "code"), [(1000, None), (2000, "too_many_values")])
def test_tuples_with_the_same_hash_take_bounded_work(packed, count, code):
    # Equal modulo 2**61 - 1, and so in their hashes.
    equal = [(2**61 - 1) * factor for factor in (-3, -2, -1, 0, 1, 2, 3)]
    names = itertools.islice(itertools.product(equal, repeat=4), count)
    pairs = b"".join(numbers(*name) + b"N" for name in names)
    path = packed(b"}(" + pairs + b"u")
    if code:
        assert code_of(read_pytorch, path) == code
    else:
        assert len(read_pytorch(path)) == count


def nested(levels):
    value = ["x", "x"]
    for _ in range(levels):
        value = [value, value]
    return value


def itself():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize("value", [nested(40), itself(), ({"a": itself()},)])
def test_what_is_nested_without_end_is_refused(value, tmp_path):
    content = pickle.dumps({"model": {}, "args": {"encoder_layers": value}}, protocol=2)
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("model/data.pkl", content)
    assert code_of(read_model, "fairseq", tmp_path / "model.pt", ("en", "de")) == "too_many_values"


def test_values_that_are_shared_are_kept():
    shared = {"a": [1, (2, "b")]}
    assert to_containers([shared, shared], "it") == [shared, shared]


ALIASES = "a0: &a0 [x, x]\n" + "".join(
    f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40)
)
MERGED = ALIASES.replace("[x, x]", "{x: 1}").replace("[*", "{<<: [*").replace("]\n", "]}\n")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (ALIASES, "too_many_values"),
        (MERGED, "too_many_values"),
        ("a: &a [*a]", "too_many_values"),
        ("a: " + 65 * "[" + 65 * "]", "too_many_values"),
        ("a: 2020-99-99", "not_yaml"),
        ("a: !!int ''", "not_yaml"),
        ("a: " + 100_000 * "1", "not_yaml"),
        ("a: 1" + 100_000 * ":1", "not_yaml"),
        # Of such names, any number can have the same hash.
        (19 * "1" + ": a", "not_yaml"),
        ("a: !!timestamp x", "not_yaml"),
        ("a: !!python/object:os.system x", "not_yaml"),
        ("[1", "not_yaml"),
        ("- 1", "bad_configuration"),
        ("", "bad_configuration"),
    ],
)
def test_yaml(content, code):
    assert code_of(read_yaml, content, "it") == code


def test_numbers_as_names_of_settings():
    assert read_yaml(18 * "1" + ": a\n" + 19 * "a" + ": b", "it") == {
        int(18 * "1"): "a",
        19 * "a": "b",
    }
    assert read_yaml(19 * "1" + ": a", "it", texts_only=True) == {19 * "1": "a"}


def test_yaml_with_an_alias():
    shared = "a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\nd: " + 64 * "[" + 64 * "]"
    actual = read_yaml(shared, "it")
    assert (actual["b"], actual["c"]) == ({"x": 1}, {"x": 1, "y": 2})
    assert read_yaml("a: yes\nb: 1", "it", texts_only=True) == {"a": "yes", "b": "1"}


@pytest.fixture
def marian(tmp_path):
    return Path(shutil.copytree(MARIAN, tmp_path / "marian"))


def read_marian_in(folder):
    return read_model("marian", folder / "model.npz", ("en", "de"))


@pytest.mark.parametrize(
    ("vocabs", "code"),
    [
        ("5", "bad_configuration"),
        ("opus.vocab.yml", "bad_configuration"),
        ("[5, 5]", "bad_file_name"),
        ("[/dev/zero, /dev/zero]", "outside_folder"),
        ("[../secret.yml, ../secret.yml]", "outside_folder"),
        ("[fifo.yml, fifo.yml]", "not_a_file"),
        ("['', '']", "bad_file_name"),
        (r'["a\0b", "a\0b"]', "bad_file_name"),
    ],
)
def test_vocabularies_that_marian_s_record_names(marian, vocabs, code):
    (marian.parent / "secret.yml").write_text("</s>: 0\n<unk>: 1\n")
    os.mkfifo(marian / "fifo.yml")
    (marian / "decoder.yml").write_text(f"vocabs: {vocabs}\n")
    assert code_of(read_marian_in, marian) == code


def test_a_file_is_that_of_the_first_folder_that_has_it(tmp_path):
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir()
        (folder / f"only_{folder.name}").touch()
    for folder in folders[1:]:
        (folder / "both").touch()
    assert find_recorded_file("both", *folders) == folders[1] / "both"
    assert find_recorded_file("/x/only_c", *folders) == folders[2] / "only_c"
    for name in ("a\0b", "none"):
        assert code_of(read_bounded, tmp_path / name) == "not_read"


def test_vocabularies_named_on_another_machine_are_looked_for_beside(marian):
    (marian / "decoder.yml").write_text("vocabs: [/home/opus.vocab.yml, ../x/opus.vocab.yml]\n")
    assert read_marian_in(marian).tokenizer.vocab_size > 3


@pytest.mark.parametrize(("megabytes", "code"), [(1, "unknown_weight"), (80, "file_too_large")])
def test_compressed_zeros_are_not_unpacked(marian, megabytes, code):
    with (
        zipfile.ZipFile(
            marian / "model.npz", "a", zipfile.ZIP_DEFLATED, compresslevel=1
        ) as archive,
        archive.open("zeros.npy", "w") as member,
    ):
        header = {"descr": "<f4", "fortran_order": False, "shape": (megabytes << 18,)}
        np.lib.format.write_array_header_1_0(member, header)
        for _ in range(megabytes):
            member.write(bytes(1 << 20))
    assert code_of(read_marian_in, marian) == code


@pytest.mark.parametrize("name", ["../vocab.model", "/dev/zero", "fifo", "", 5, [], "a/../../b"])
def test_a_run_s_vocabulary_is_a_file_in_its_folder(tmp_path, name):
    os.mkfifo(tmp_path / "fifo")
    record = {"file": name, "size": 5, "sha256": ""}
    codes = {"fifo": "not_a_file", "": "bad_file_name", 5: "bad_file_name"}
    expected = "bad_file_name" if name == [] else codes.get(name, "outside_folder")
    assert code_of(Tokenizer.load_saved, tmp_path, record) == expected


def test_tensorflow_s_record_of_another_machine(tmp_path):
    record = tmp_path / "checkpoint"
    record.write_text('model_checkpoint_path: "/home/x/ckpt-7"\nall_model_checkpoint_paths: "y"\n')
    assert checkpoint_prefix(tmp_path) == str(tmp_path / "ckpt-7")
    assert checkpoint_prefix(tmp_path / "ckpt-3") == str(tmp_path / "ckpt-3")
    for name in ("ckpt-7", "ckpt[7]"):
        os.mkfifo(tmp_path / f"{name}.index")
        assert code_of(checkpoint_prefix, tmp_path / name) == "not_a_file"
    assert code_of(checkpoint_prefix, tmp_path) == "not_a_file"
    record.write_text("x")
    assert code_of(checkpoint_prefix, tmp_path) == "not_a_checkpoint"


def test_values_that_no_toolkit_writes(marian):
    """Shapes and kinds of values fail in the midst of reading."""
    config = json.loads((marian / "config.json").read_text())
    for name, value in (("eos_token_id", "x"), ("pad_token_id", 1e300)):
        (marian / "config.json").write_text(json.dumps(config | {name: value}))
        assert code_of(read_model, "huggingface", marian, ("en", "de")) == "other_vocabulary"
    arrays = dict(np.load(marian / "model.npz"))
    np.savez(marian / "model.npz", **arrays | {"Wemb": np.float32(1)})
    assert code_of(read_marian_in, marian) == "damaged_model"


def test_damaged_files_are_read_or_refused(tmp_path):
    damaged_models.make_fixtures(tmp_path)
    damaged_models.check_fixtures(tmp_path)
    outcomes = collections.Counter(damaged_models.check(seed, tmp_path) for seed in range(200))
    kinds = {kind for kind, outcome in outcomes if outcome == "read"}
    assert {kind for kind, outcome in outcomes if outcome != "read"} == kinds
    assert len(kinds) == 7


@pytest.mark.slow
@pytest.mark.parametrize("first", range(200, 10_000, 500))
def test_no_damaged_file_ends_the_process(first, tmp_path):
    command = [sys.executable, damaged_models.__file__, tmp_path, str(first), str(first + 499)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"seed {done.stdout.split()[-1:]}: {done.stderr[-2000:]}"
