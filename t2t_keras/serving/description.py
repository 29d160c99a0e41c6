"""`README.md` of an export: what it is, how to serve it, and how to ask it."""

import dataclasses
import json
import shlex
import textwrap
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.serving.origin import Origin
from t2t_keras.versions import installed_versions

README_FILE = "README.md"
VOCABULARY_FILE = "vocab.model"

_MEANINGS = {
    "serving_default": """Translates. `score` is the log-probability over the length penalty
((5 + tokens) / 6)^alpha; 0 is certain. `cut` says how many tokens of a text were left out because
it has more than max_input_length (see above). A blank text gives a blank translation, score 0.""",
    "nbest": """The best translations of each text, best first, as many as the beam is wide or
samples are drawn; "" with score -inf where there are fewer. `alpha` may be left out over gRPC and
is then the one above; over REST, TensorFlow Serving asks for every input.""",
    "score": """How likely the model finds given translations: the natural logarithm of their
probability, the end of sentence included, and of how many tokens that is.""",
    "tokens": """Translates ids, each row with its end of sentence (1), then padding (0). `ids`
and `scores` are those of the best hypotheses, best first. Other ids are refused with
INVALID_ARGUMENT. `alpha` as in `nbest`.""",
    "attention": """Where the model looks: `weights` are the decoder's over the text (batch, layer,
head, piece of the translation, piece of the text); `encoder_weights` and `decoder_weights` those of
self-attention. Pieces are "" behind the end of a sentence.""",
}

_SERVE = """## Serve

In the folder above this one, which holds all versions, with Docker:

    docker run --rm -p 8500:8500 -p 8501:8501 -e MODEL_NAME={servable_name} \\
        -v "$PWD":/models/{servable_name} tensorflow/serving

or with the program itself:

    tensorflow_model_server --port=8500 --rest_api_port=8501 --model_name={servable_name} \\
        --model_base_path="$PWD"

The graph needs TensorFlow 2.21 or later and the operators of TensorFlow Text, which TensorFlow
Serving has. Any other program that can load a SavedModel loads it too, with TensorFlow Text's
operator libraries.
"""

_FIXED = """## Signatures

The beam and how else to search, above under "decoding", are fixed in the graph, which is traced
with them. Only `alpha` is an input, of `nbest` and `tokens`; `serving_default` has it fixed as
well, since TensorFlow Serving fills in no defaults over REST, where text alone would then be
refused.
"""

_FILES = """## Files

`manifest.json` has the size and the SHA-256 of each file. `t2t_keras.load_export` compares them
before it loads. Loading runs nothing but TensorFlow's graph: there is no Python code, no pickle and
no Keras configuration in this folder. `assets/{vocabulary_file}` is the vocabulary, for the ids of
the signature `tokens`; the graph has it too and does not read the file.
`assets.extra/tf_serving_warmup_requests` are requests that TensorFlow Serving runs while it loads,
so that the first answer need not wait for what TensorFlow makes only once;
`t2t_keras.load_export(path, warm_up=True)` runs them too. Where nothing does, the first answer
takes seconds longer.
"""


def write_readme(
    directory: Path,
    origin: Origin,
    config: DecodeConfig,
    vocabulary: Mapping[str, int | str],
    dtype: str,
    servable_name: str,
) -> None:
    """Writes the README.

    Args:
      directory: of the version, with its saved_model.pb.
      origin: what it was made from.
      config: how it translates.
      vocabulary: "size" and "sha256" of it.
      dtype: how the weights are stored.
      servable_name: what the model is called in the examples.

    Raises:
      OSError: it cannot be written.
    """
    sections = (
        _about(origin, config, vocabulary, dtype),
        _SERVE.format(servable_name=servable_name),
        _ask(origin.example, servable_name),
        f"{_FIXED}\n{_signatures(directory)}",
        _FILES.format(vocabulary_file=VOCABULARY_FILE),
    )
    (directory / README_FILE).write_text("\n".join(sections), encoding="utf-8")


def _about(
    origin: Origin, config: DecodeConfig, vocabulary: Mapping[str, int | str], dtype: str
) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in dataclasses.asdict(config).items())
    versions = ", ".join(f"{name} {version}" for name, version in installed_versions().items())
    steps = "not known" if origin.steps is None else f"{origin.steps:,}"
    scores = "".join(
        f"- {line}\n" for line in origin.scores or ("score: not measured (t2t-exporter --measure)",)
    )
    outputs = f"\n{textwrap.fill(origin.outputs, 100)}\n" if origin.outputs else ""
    return f"""# A translation model for TensorFlow Serving

- problem: {origin.problem or "not known"}
- hyperparameter set: {origin.hparams_set or "not known"}
- optimizer steps: {steps}
- training data, SHA-256: {origin.data or "not known"}
- vocabulary: `assets/{VOCABULARY_FILE}`, SentencePiece, {vocabulary["size"]:,} ids, SHA-256
  {vocabulary["sha256"]}
- weights: {dtype}
- decoding: {settings}
- made with: {versions}
{scores}{outputs}"""


def _ask(example: str, servable_name: str) -> str:
    return f"""## Ask

Over gRPC, in Python with the packages grpcio and tensorflow-serving-api:

```python
import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

request = predict_pb2.PredictRequest()
request.model_spec.name = {json.dumps(servable_name)}
request.inputs["text"].CopyFrom(tf.make_tensor_proto([{json.dumps(example, ensure_ascii=False)}]))
with grpc.insecure_channel("localhost:8500") as channel:
    service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    outputs = service.Predict(request, timeout=10).outputs
print(tf.make_ndarray(outputs["translation"])[0].decode(), tf.make_ndarray(outputs["score"])[0])
```

or with `t2t-query-server`:

    t2t-query-server --server=localhost:8500 --servable_name={servable_name} \\
        --inputs_once={shlex.quote(example)}

Over REST:

    curl http://localhost:8501/v1/models/{servable_name}:predict -d \\
        '{_rest_example(example)}'

A request whose text is not UTF-8 is refused with INVALID_ARGUMENT.
"""


def _rest_example(sentence: str) -> str:
    request = {"signature_name": "serving_default", "inputs": {"text": [sentence]}}
    # For a shell, between single quotes.
    return json.dumps(request, ensure_ascii=False).replace("'", "\\u0027")


def _signatures(directory: Path) -> str:
    """Returns a table of each signature as it stands in the SavedModel."""
    content = (directory / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    tables = []
    for name, meaning in _MEANINGS.items():
        if name not in graph.signature_def:
            continue
        signature = graph.signature_def[name]
        lines = [f"### `{name}`\n\n{meaning}\n", "| | name | dtype | shape |", "|---|---|---|---|"]
        for kind, tensors in (("input", signature.inputs), ("output", signature.outputs)):
            for key in sorted(tensors):
                dtype = tf.as_dtype(tensors[key].dtype).name
                sizes = [dim.size for dim in tensors[key].tensor_shape.dim]
                shape = ", ".join("?" if size < 0 else str(size) for size in sizes)
                lines.append(f"| {kind} | `{key}` | {dtype} | [{shape}] |")
        tables.append("\n".join(lines) + "\n")
    return "\n".join(tables)
