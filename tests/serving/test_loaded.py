"""What is in an export, and that a damaged one is refused."""

import hashlib
import json
import shutil

import pytest
import sentencepiece
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from t2t_keras.errors import UserError
from t2t_keras.serving.loaded import LoadedExport, load_export, version_directory

# Operators that call back into Python, which no other program has.
PYTHON_OPERATORS = {"PyFunc", "PyFuncStateless", "EagerPyFunc", "GeneratorDataset"}


@pytest.fixture
def copy(exported, tmp_path):
    """A copy that may be damaged."""
    return shutil.copytree(exported, tmp_path / exported.name)


def test_translates(loaded, exported, translator, lines):
    expected = [(t.text, pytest.approx(t.score, abs=1e-5), 0) for t in translator.translate(lines)]
    assert loaded.directory == exported
    assert [tuple(answer) for answer in loaded.translate(lines)] == expected
    assert loaded.manifest["vocabulary"]["sha256"] == translator.tokenizer.checksum


def test_warming_up_runs_the_requests_that_stand_in_the_export(exported, monkeypatch):
    path = exported / "assets.extra" / "tf_serving_warmup_requests"
    expected = []
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        inputs = {name: tf.make_ndarray(each) for name, each in request.inputs.items()}
        expected.append((request.model_spec.signature_name, inputs))
    ran = []

    class Recorded(dict):
        def __missing__(self, signature):
            return lambda **inputs: ran.append((signature, inputs))

    original = LoadedExport.warm_up

    def warm_up(self):
        found, self.signatures = self.signatures, Recorded()
        original(self)
        self.signatures = found

    monkeypatch.setattr(LoadedExport, "warm_up", warm_up)
    loaded = load_export(exported, warm_up=True)
    assert {name for name, _ in ran} == set(loaded.signatures)
    for (signature, inputs), (name, arrays) in zip(ran, expected, strict=True):
        assert (signature, set(inputs)) == (name, set(arrays))
        for each, array in arrays.items():
            assert inputs[each].numpy().tolist() == array.tolist()


def test_a_line_that_is_no_text(loaded):
    with pytest.raises(UserError, match=r"Text 2 is not UTF-8.*'\\udcff'"):
        loaded.translate(["a", "\udcff"])


def test_the_vocabulary_is_an_asset(exported, translator):
    """It encodes for the signature `tokens` without this package."""
    content = (exported / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
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
    manifest = json.loads((exported / "manifest.json").read_text("utf-8"))
    files = {
        str(path.relative_to(exported)): {
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in exported.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert manifest["files"] == files
    assert {"saved_model.pb", "variables/variables.index", "README.md"} <= set(files)


@pytest.mark.parametrize(
    "name",
    [
        "saved_model.pb",
        "variables/variables.data-00000-of-00001",
        "README.md",
        "assets/vocab.model",
        "assets.extra/tf_serving_warmup_requests",
    ],
)
def test_a_damaged_file_is_named(copy, name):
    path = copy / name
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    for damaged, how in ((flipped, "differs"), (content[:-1], "differs"), (None, "missing")):
        if damaged is None:
            path.unlink()
        else:
            path.write_bytes(damaged)
        with pytest.raises(UserError, match=rf"is damaged: {name} \({how}\)\. Copy the export"):
            load_export(copy)


def test_a_damaged_manifest_is_named(copy):
    path = copy / "manifest.json"
    for content in (path.read_text("utf-8")[:-20], "[]", '{"files": {"README.md": 3}}'):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match=r"manifest.json is damaged \("):
            load_export(copy)
    path.unlink()
    with pytest.raises(UserError, match=r"not a complete export .* there is no manifest.json"):
        load_export(copy)
    with pytest.raises(UserError, match=r"no such directory"):
        load_export(copy / "none")


def test_an_export_holds_no_code(exported):
    suffixes = {path.suffix for path in exported.rglob("*") if path.is_file()}
    assert suffixes <= {".pb", ".index", ".data-00000-of-00001", ".json", ".md", ".model", ""}
    everything = b"".join(path.read_bytes() for path in exported.rglob("*") if path.is_file())
    for trace in (b"keras_metadata", b"class_name", b"registered_name", b"\x80\x04\x95"):
        assert trace not in everything, trace
    content = (exported / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    functions = graph.graph_def.library.function
    nodes = [*graph.graph_def.node, *(node for each in functions for node in each.node_def)]
    operators = {node.op for node in nodes}
    assert not operators & PYTHON_OPERATORS
    # What TensorFlow itself does not have.
    assert {op for op in operators if op.startswith("Sentencepiece")} == {
        "SentencepieceOp",
        "SentencepieceTokenizeOp",
        "SentencepieceDetokenizeOp",
        "SentencepieceIdToStringOp",
    }


def test_the_readme_says_what_the_signatures_are(exported, translator):
    text = (exported / "README.md").read_text("utf-8")
    assert translator.tokenizer.checksum in text
    assert "beam_size=3" in text
    assert "score: not measured" in text
    for line in (
        "| input | `text` | string | [?] |",
        "| output | `score` | float32 | [?] |",
        "| output | `translation` | string | [?] |",
        "    docker run --rm -p 8500:8500 -p 8501:8501 -e MODEL_NAME=translate \\",
        "    tensorflow_model_server --port=8500 --rest_api_port=8501 --model_name=translate \\",
    ):
        assert line in text.split("\n")
