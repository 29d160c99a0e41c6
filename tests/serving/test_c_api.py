"""The export runs outside Python: through TensorFlow's C API, with TensorFlow Text's operators."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text
from tensorflow.core.protobuf import saved_model_pb2

WHEEL = Path(tf.__file__).parent
OPERATORS = Path(tensorflow_text.__file__).parent / "python" / "ops"
INVALID_ARGUMENT = 3


@pytest.fixture(scope="module")
def run(exported, tmp_path_factory):
    """run([(signature, inputs), ...]): the outputs of each by name, or its error."""
    # In another folder than where it was written.
    exported = shutil.copytree(exported, tmp_path_factory.mktemp("moved") / "1")
    content = (exported / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs

    def request(name, inputs):
        signature = graph.signature_def[name]
        arrays = {key: np.array(value) for key, value in inputs.items()}
        return {
            "inputs": {
                signature.inputs[key].name: [
                    tf.as_dtype(signature.inputs[key].dtype).name,
                    array.shape,
                    array.ravel().tolist(),
                ]
                for key, array in arrays.items()
            },
            "outputs": [signature.outputs[key].name for key in sorted(signature.outputs)],
        }

    def run(requests):
        asked = {
            "framework": str(WHEEL / "libtensorflow_framework.so.2"),
            "tensorflow": str(WHEEL / "libtensorflow_cc.so.2"),
            "operators": [str(OPERATORS / "_sentencepiece_tokenizer.so")],
            "model_dir": str(exported),
            "requests": [request(*each) for each in requests],
        }
        done = subprocess.run(
            [sys.executable, "-I", Path(__file__).with_name("c_api.py")],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [
            answer
            if isinstance(answer, dict)
            else dict(zip(sorted(graph.signature_def[name].outputs), answer, strict=True))
            for (name, _), answer in zip(requests, json.loads(done.stdout), strict=True)
        ]

    return run


def test_gives_what_the_same_process_gives(run, translator, loaded, lines):
    pair = {"text": lines[:1], "translation": lines[2:3]}
    ids = translator.tokenizer.encode(lines[:1])[0]
    requests = [
        ("serving_default", {"text": lines}),
        ("nbest", {"text": lines, "alpha": 0.6}),
        ("score", pair),
        ("tokens", {"ids": [ids], "alpha": 0.6}),
        ("attention", pair),
    ]
    *found, refused = run([*requests, ("tokens", {"ids": [[4, 330, 1]], "alpha": 0.6})])
    for (name, inputs), outputs in zip(requests, found, strict=True):
        specs = loaded.signatures[name].structured_input_signature[1]
        expected = loaded.signatures[name](
            **{key: tf.constant(value, specs[key].dtype) for key, value in inputs.items()}
        )
        assert set(outputs) == set(expected)
        for key, tensor in expected.items():
            values = tensor.numpy().ravel().tolist()
            if tensor.dtype == tf.float32:
                np.testing.assert_allclose(outputs[key], values, atol=1e-5)
            else:
                texts = [value.decode() if isinstance(value, bytes) else value for value in values]
                assert outputs[key] == texts
    translations = translator.translate(lines)
    assert found[0]["translation"] == [translation.text for translation in translations]
    assert refused["code"] == INVALID_ARGUMENT
    assert "ids that are not in the vocabulary, which has 0 to 329" in refused["message"]
