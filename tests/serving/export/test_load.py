"""What is in an export, and that a damaged one is refused."""

import hashlib
import json
import shutil

import pytest
import sentencepiece
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from t2t_keras.errors import UserError
from t2t_keras.serving.export.load import load_export, version_directory, write_manifest

# Operators that call back into Python, which no other program has.
PYTHON_OPERATORS = {"PyFunc", "PyFuncStateless", "EagerPyFunc", "GeneratorDataset"}
FILES = [
    "saved_model.pb",
    "variables/variables.data-00000-of-00001",
    "README.md",
    "assets/vocab.model",
    "assets.extra/tf_serving_warmup_requests",
]


@pytest.fixture
def copy(exported, tmp_path):
    """A copy that may be damaged."""
    return shutil.copytree(exported, tmp_path / exported.name)


def test_loads_the_version(loaded, exported, translator):
    assert loaded.directory == exported
    assert loaded.manifest["vocabulary"]["sha256"] == translator.tokenizer.checksum
    with pytest.raises(UserError, match=r"'\\udcff'"):
        loaded.translate(["a", "\udcff"])


def test_the_signature_is_tensorflow_serving_s(graph):
    default = graph.signature_def["serving_default"]
    assert default.method_name == "tensorflow/serving/predict"
    assert set(default.inputs) == {"text"}
    assert set(default.outputs) == {"translation", "score", "cut"}


def test_warm_up_requests(exported, loaded):
    """TensorFlow Serving reads them with its official classes, at most 1,000."""
    path = exported / "assets.extra" / "tf_serving_warmup_requests"
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    assert len(records) <= 1000
    names, shapes = set(), set()
    for record in records:
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        name = request.model_spec.signature_name
        inputs = {key: tf.make_ndarray(each) for key, each in request.inputs.items()}
        rows = inputs["text" if "text" in inputs else "ids"]
        outputs = loaded.signatures[name](**{key: tf.constant(inputs[key]) for key in inputs})
        assert all(len(output) == len(rows) for output in outputs.values())
        names.add(name)
        if name == "serving_default":
            shapes.add((len(rows), bool(rows[0].strip())))
    assert names == set(loaded.signatures)
    # One and several sentences, and nothing but a blank one.
    assert shapes == {(1, True), (8, True), (1, False)}


def test_the_vocabulary_is_an_asset(exported, graph, translator):
    """It encodes for the signature `tokens` without this package."""
    (asset,) = graph.asset_file_def
    path = exported / "assets" / asset.filename
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    found = processor.encode("Der kleine Hund", add_eos=True)
    assert found == translator.tokenizer.encode(["Der kleine Hund"])[0].tolist()
    readme = (exported / "README.md").read_text("utf-8")
    assert f"`assets/{asset.filename}`" in readme
    assert hashlib.sha256(path.read_bytes()).hexdigest() in readme


def test_the_newest_version_is_taken(tmp_path):
    for name in ("9", "10", ".unfinished-11", "notes"):
        (tmp_path / name).mkdir()
    assert version_directory(tmp_path) == tmp_path / "10"
    (tmp_path / "10" / "3").mkdir()
    (tmp_path / "10" / "saved_model.pb").touch()
    assert version_directory(tmp_path / "10") == tmp_path / "10"


def test_the_manifest_names_every_file(exported):
    files = json.loads((exported / "manifest.json").read_text("utf-8"))["files"]
    assert files == {
        str(path.relative_to(exported)): {
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in exported.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert set(FILES) <= set(files)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["flipped", "shorter", "missing"])
def test_a_damaged_file_is_named(copy, name, damage):
    path = copy / name
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    path.write_bytes(content if damage == "flipped" else content[:-1])
    if damage == "missing":
        path.unlink()
    with pytest.raises(UserError, match=f"{name} "):
        load_export(copy)


@pytest.mark.parametrize("name", ["variables/variables.data-00001-of-00002", "code.py"])
def test_a_file_that_the_manifest_does_not_name(copy, name):
    (copy / name).write_text("x")
    with pytest.raises(UserError, match=name):
        load_export(copy)


@pytest.mark.parametrize(
    "content",
    [None, "{", "[]", "{}", '{"files": {"manifest.json": 3}}', '{"files": []}', "[" * 10**5],
)
def test_a_damaged_manifest(tmp_path, content):
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(UserError, match=r"manifest\.json"):
        load_export(tmp_path)


@pytest.mark.parametrize("signature", ["serving_default", "other"])
def test_a_foreign_saved_model(tmp_path, signature):
    module = tf.Module()
    text = tf.TensorSpec([None], tf.string, name="text")
    module.copy = tf.function(lambda text: {"translation": text}, input_signature=[text])
    tf.saved_model.save(module, str(tmp_path), signatures={signature: module.copy})
    write_manifest(tmp_path, {})
    with pytest.raises(UserError, match="serving_default"):
        load_export(tmp_path)


def test_an_export_has_no_code(exported, graph):
    files = [path for path in exported.rglob("*") if path.is_file()]
    suffixes = {path.suffix for path in files}
    assert suffixes <= {".pb", ".index", ".data-00000-of-00001", ".json", ".md", ".model", ""}
    everything = b"".join(path.read_bytes() for path in files)
    for trace in (b"keras_metadata", b"class_name", b"registered_name", b"\x80\x04\x95"):
        assert trace not in everything, trace
    functions = graph.graph_def.library.function
    nodes = [*graph.graph_def.node, *(node for each in functions for node in each.node_def)]
    operators = {node.op for node in nodes}
    assert not operators & PYTHON_OPERATORS
    # What TensorFlow itself does not have.
    names = ("", "Tokenize", "Detokenize", "IdToString")
    expected = {f"Sentencepiece{name}Op" for name in names}
    assert {operator for operator in operators if "Sentencepiece" in operator} == expected
