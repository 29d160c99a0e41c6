"""What is in an export, and that a damaged one is refused."""

import hashlib
import shutil

import pytest
import sentencepiece
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from t2t_keras.errors import UserError
from t2t_keras.serving.export.load import load_export, write_manifest

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


def test_warm_up_requests(exported, loaded):
    """TensorFlow Serving reads them with its official classes."""
    path = exported / "assets.extra" / "tf_serving_warmup_requests"
    names, shapes = set(), set()
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        name = request.model_spec.signature_name
        inputs = {key: tf.make_ndarray(each) for key, each in request.inputs.items()}
        outputs = loaded.signatures[name](**{key: tf.constant(inputs[key]) for key in inputs})
        rows = inputs["text" if "text" in inputs else "ids"]
        assert all(len(output) == len(rows) for output in outputs.values())
        names.add(name)
        if name == "serving_default":
            shapes.add((len(rows), bool(rows[0].strip())))
    assert names == set(loaded.signatures)
    assert shapes == {(1, True), (8, True), (1, False)}, "one, several, nothing but a blank one"


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
    with pytest.raises(UserError, match=r"10.manifest\.json"):
        load_export(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_is_named(copy, name):
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"recorded: {name}\."):
        load_export(copy)


def test_missing_and_added_files_are_named(copy):
    (copy / "README.md").unlink()
    (copy / "code.py").write_text("x")
    with pytest.raises(UserError, match=r"recorded: README\.md, code\.py\."):
        load_export(copy)


@pytest.mark.parametrize(
    "content",
    [None, "{", "[]", "{}", '{"files": {"manifest.json": 3}}', '{"files": []}', "[" * 10**5],
)
def test_a_damaged_manifest(copy, content):
    (copy / "manifest.json").unlink()
    if content is not None:
        (copy / "manifest.json").write_text(content)
    with pytest.raises(UserError, match=r"manifest\.json"):
        load_export(copy)


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
    expected = {f"Sentencepiece{name}Op" for name in ("", "Tokenize", "Detokenize", "IdToString")}
    assert {operator for operator in operators if "Sentencepiece" in operator} == expected
