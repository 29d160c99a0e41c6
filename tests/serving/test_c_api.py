"""The export runs outside Python: through TensorFlow's C API, with TensorFlow Text's operators."""

import json
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


@pytest.fixture(scope="module")
def signature_defs(exported):
    content = (exported / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    return graph.signature_def


@pytest.fixture(scope="module")
def run(exported, signature_defs):
    """run(signature, **inputs): the outputs by name, or what the process said when it failed."""

    def run(name, **inputs):
        signature = signature_defs[name]
        names = sorted(signature.outputs)
        arrays = {key: np.array(value) for key, value in inputs.items()}
        asked = {
            "framework": str(WHEEL / "libtensorflow_framework.so.2"),
            "tensorflow": str(WHEEL / "libtensorflow_cc.so.2"),
            "operators": [str(OPERATORS / "_sentencepiece_tokenizer.so")],
            "model_dir": str(exported),
            "inputs": {
                signature.inputs[key].name: [
                    tf.as_dtype(signature.inputs[key].dtype).name,
                    array.shape,
                    array.ravel().tolist(),
                ]
                for key, array in arrays.items()
            },
            "outputs": [signature.outputs[key].name for key in names],
        }
        done = subprocess.run(
            [sys.executable, "-I", Path(__file__).with_name("c_api.py")],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return done.stderr
        return dict(zip(names, json.loads(done.stdout), strict=True))

    return run


def test_translates_as_in_process(run, translator, lines):
    expected = translator.translate(lines)
    found = run("serving_default", text=lines)
    assert isinstance(found, dict), found
    assert found["translation"] == [translation.text for translation in expected]
    np.testing.assert_allclose(found["score"], [t.score for t in expected], atol=1e-5)
