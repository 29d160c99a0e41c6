"""Models of OpenNMT-tf 2: checkpoints of its Transformer, with their vocabularies."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError, shorten, translated_errors
from t2t_keras.interop.importers.files import (
    find_recorded_file,
    read_tensorflow,
    read_text,
    read_yaml,
)
from t2t_keras.interop.importers.imported import Imported
from t2t_keras.interop.importers.weights import (
    WeightNames,
    check_size,
    embedding_weights,
    make_tokenizer,
    vocabulary_files,
)
from t2t_keras.io.files import read_bounded

# OpenNMT-tf's special ids. Unknown words have the last id.
_PADDING, _BEGIN, _END, _FIRST_WORD = range(4)
_SPECIAL = ["<blank>", "<s>", "</s>"]
# Hyperparameters that all models of OpenNMT-tf share.
_FIXED_HPARAMS = {
    "norm_epsilon": 1e-3,
    "sinusoids": "tensor2tensor",
    "first_position": 1,
    "start_id": _FIRST_WORD,
    "source_end": False,
}
# Settings that the weights do not show, with the defaults of the catalog's models.
_DEFAULTS = {"num_heads": 8, "dropout": 0.1, "attention_dropout": 0.1, "ffn_dropout": 0.1}
_BIG_MODEL = {"num_heads": 16}
_SCALING_MODEL = {"num_heads": 16, "ffn_dropout": 0.0, "source_end": True}
_CATALOG: dict[str, dict[str, Any]] = {
    "Transformer": {},
    "TransformerBase": {},
    "TransformerBaseSharedEmbeddings": {},
    "TransformerBig": _BIG_MODEL,
    "TransformerBigSharedEmbeddings": _BIG_MODEL,
    "TransformerTiny": {"num_heads": 2},
    "ScalingNmtEnDe": _SCALING_MODEL | {"dropout": 0.3},
    "ScalingNmtEnFr": _SCALING_MODEL | {"attention_dropout": 0.0},
}
_ACTIVATIONS = {
    "nn.relu": "relu",
    "nn.gelu": "gelu",
    "layers.gelu": "gelu_tanh",
    "nn.swish": "silu",
    "nn.silu": "silu",
}

# Maximum size in bytes of a model description. Real ones take about a page.
_MAX_DESCRIPTION = 1 << 17
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_TABLES = (
    "model/examples_inputter/features_inputter/embedding",
    "model/examples_inputter/labels_inputter/embedding",
    "model/decoder/output_layer/kernel",
)
_BIAS = "model/decoder/output_layer/bias"
_LAYER = "model/{side}/layers/{layer}/{sublayer}"
_NAMES = WeightNames(
    [f"{_LAYER}/layer/{{part}}/{{dense}}"],
    [f"{_LAYER}/{place}put_layer_norm/{{norm}}" for place in ("in", "out")],
    {"model/{side}/layer_norm/{norm}": "{side}_norm/{norm}"},
    sublayers=("self_attention", "attention/0", "ffn"),
    parts=(*(f"linear_{x}" for x in ("queries", "keys", "values", "output")), "inner", "outer"),
    norm=("gamma", "beta"),
)


def read_opennmt_tf(
    model: str | Path, vocabulary: str | Path = "", changes: Mapping[str, Any] | None = None
) -> Imported:
    """Reads a model of OpenNMT-tf 2 without running its code.

    A checkpoint shows neither the number of heads nor the activation. Both are read from the run's
    `model_description.py`, if that file has them as plain values.

    Args:
      model: the run's folder, or a checkpoint's path without its ending.
      vocabulary: the `.yml` file that configures the data, or comma-separated files: one or two
        vocabularies and, for unsegmented text, one or two SentencePiece `.model` files.
      changes: hyperparameters, by our names, that override those of the model.

    Raises:
      UserError: a file is missing or damaged, a setting is unknown, or the model has a part that
        cannot be represented.
    """
    path = Path(model)
    prefix, (weights, keys) = _read_checkpoint(path)
    files, segmenters, data_hparams = _files(vocabulary, prefix.parent)
    pieces = [_read_pieces(file) for file in files]
    # Averaged checkpoints are in a subfolder of the run.
    descriptions = [folder / "model_description.py" for folder in prefix.parents[:2]]
    description = next(filter(Path.exists, descriptions), descriptions[0])
    hparams = _FIXED_HPARAMS | _described_settings(description, changes or {})
    hparams |= data_hparams | dict(changes or {})
    our_weights = _embeddings(weights, keys, files, pieces, hparams)
    hparams["pre_norm"] = "model/encoder/layer_norm/gamma" in weights
    hparams["attention_bias"] = any(name.endswith("/linear_keys/bias") for name in weights)
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        table = weights.pop(keys.get(f"model/{stack}/position_encoder/embedding", ""), None)
        if table is not None:
            hparams |= {"positions": "learned", "max_positions": len(table)}
            our_weights[f"{side}_positions/table"] = table
        elif f"model/{stack}/position_encoder" not in keys:
            hparams["positions"] = "none"
            hparams.pop("first_position", None)
    if "positions" in hparams:
        hparams.pop("sinusoids", None)
    our_weights |= _NAMES.weights(weights, path)
    for side in ("encoder", "decoder"):
        layers = {name.split("/")[0] for name in our_weights if name.startswith(f"{side}_")}
        hparams[f"num_{side}_layers"] = len(layers - {f"{side}_norm"})
    hparams["d_ff"] = len(our_weights.get("encoder_0/feed_forward/outer/kernel", ()))
    match = re.search(r"-(\d+)$", prefix.name)
    tokenizer = make_tokenizer(pieces[0], pieces[1], segmenters, f"{files[0]} and {files[1]}")
    return Imported(hparams, our_weights, tokenizer, int(match[1]) if match else 0)


def _read_checkpoint(path: Path) -> tuple[Path, tuple[dict[str, np.ndarray], dict[str, str]]]:
    """Returns the checkpoint's prefix, its weights, and the result of `_stored_names`."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    def read(reader: Any) -> tuple[dict[str, np.ndarray], dict[str, str]]:
        graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
            reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
        )
        weights = {
            name.removesuffix(_VALUE): np.asarray(reader.get_tensor(name), np.float32)
            for name in reader.get_variable_to_shape_map()
            if name.startswith("model/")
            and name.endswith(_VALUE)
            and "/.OPTIMIZER_SLOT/" not in name
        }
        return weights, _stored_names(graph)

    return read_tensorflow(path, "OpenNMT-tf 2", read)


def _stored_names(graph: Any) -> dict[str, str]:
    """Maps names of the model's parts to names of values in the checkpoint; "" = no value.

    A shared part has several names, but is stored once.
    """
    names, pending = {}, [(0, "")]
    while pending:
        node, path = pending.pop()
        for child in graph.nodes[node].children:
            name = f"{path}/{child.local_name}".removeprefix("/")
            if name.startswith("model") and name.count("/") < 4:
                keys = [
                    attribute.checkpoint_key for attribute in graph.nodes[child.node_id].attributes
                ]
                names[name] = "".join(keys[:1]).removesuffix(_VALUE)
                pending.append((child.node_id, name))
    return names


def _described_settings(path: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings in a model's description, which is parsed, not run."""
    descriptions: list[dict[str, Any]] = []
    if path.exists():
        damage = (SyntaxError, ValueError, RecursionError, MemoryError)
        text = f"{path} is not a description of a model"
        with translated_errors(damage, text, code="bad_configuration"):
            tree = ast.parse(read_bounded(path, max_bytes=_MAX_DESCRIPTION))
        descriptions = [
            _DEFAULTS | _CATALOG[name] | _arguments(call) for name, call in _model_calls(tree)
        ]
    settings: dict[str, Any] = {"num_heads": None}
    for name in sorted(set().union(*descriptions)):
        values = {description.get(name) for description in descriptions}
        # A setting that differs between several described models is unknown.
        settings[name] = values.pop() if len(values) == 1 else None
    if "ffn_dropout" in settings:
        settings["relu_dropout"] = settings.pop("ffn_dropout")
    missing = [name for name, value in settings.items() if value is None and name not in changes]
    if missing:
        raise UserError(
            f"{path} has no plain value of {' and '.join(missing)} for a Transformer, and the "
            f'checkpoint does not show it. Set it: --hparams="num_heads=8,activation=relu".',
            code="missing_setting",
        )
    return settings


def _model_calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yields (name, call) for each catalog model that a description calls or inherits from."""
    bases: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names = [_last_name(base) for base in node.bases]
            base = next((name for name in names if name in _CATALOG), "")
            bases |= dict.fromkeys(ast.walk(node), base)
        if not isinstance(node, ast.Call):
            continue
        name = _last_name(node.func)
        if name == "get_model_from_catalog" and node.args:
            name, node = ast.unparse(node.args[0]).strip("'\""), ast.Call(node.func, [], [])
        elif name == "__init__":
            name = bases.get(node, "")
        if name in _CATALOG:
            yield name, node


def _last_name(node: ast.AST) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _arguments(call: ast.Call) -> dict[str, Any]:
    """Returns the settings in a call that the weights do not show; None = not a plain value."""
    arguments: dict[str, Any] = dict.fromkeys(_DEFAULTS) if call.args else {}
    for argument in call.keywords:
        if argument.arg is None:
            arguments |= dict.fromkeys(_DEFAULTS)
        elif argument.arg == "ffn_activation":
            name = ".".join(ast.unparse(argument.value).split(".")[-2:])
            arguments["activation"] = _ACTIVATIONS.get(name)
        elif argument.arg in _DEFAULTS:
            value = argument.value
            arguments[argument.arg] = value.value if isinstance(value, ast.Constant) else None
    return arguments


def _files(vocabulary: str | Path, folder: Path) -> tuple[list[Path], list[Path], dict[str, bool]]:
    """Returns vocabularies of source and target, SentencePiece models, and hyperparameters."""
    segmenters, files = vocabulary_files(vocabulary)
    if files and files[0].suffix in (".yml", ".yaml"):
        return _configured_files(files[0], folder)
    if not files:
        raise UserError(
            "Give OpenNMT-tf's vocabularies, --vocabulary=source.vocab,target.vocab, or the .yml "
            "file that names them.",
            code="no_vocabulary",
        )
    return [files[0], files[-1]], segmenters, {}


def _configured_files(path: Path, folder: Path) -> tuple[list[Path], list[Path], dict[str, bool]]:
    """Like `_files`, for the files and settings that a `.yml` file names."""
    text = f"{path} lacks OpenNMT-tf's source_vocabulary and target_vocabulary in data"
    with translated_errors((ValueError, KeyError, TypeError), text, code="bad_configuration"):
        data = dict(read_yaml(read_bounded(path), str(path))["data"])
        recorded_files = [data[f"{side}_vocabulary"] for side in ("source", "target")]
    folders = folder, path.parent, Path()
    names = ("source_tokenization", "target_tokenization", "source_sequence_controls")
    *tokenizations, controls = (
        _settings(data.get(name), f"{path}: {name}", folders) for name in names
    )
    segmenters = [
        _segmenting_model(tokenization, f"{path}: {name}", folders)
        for name, tokenization in zip(names, tokenizations, strict=False)
    ]
    if segmenters.count(None) == 1:
        raise UserError(
            f"{path}: expected SentencePiece on both sides or on neither.", code="not_supported"
        )
    if controls.get("start"):
        raise UserError(
            f"{path}: source_sequence_controls with start=true cannot be represented here.",
            code="not_supported",
        )
    hparams = {"source_end": bool(controls["end"])} if "end" in controls else {}
    vocabularies = [find_recorded_file(name, *folders) for name in recorded_files]
    return vocabularies, list(filter(None, segmenters)), hparams


def _settings(value: Any, origin: str, folders: Sequence[Path]) -> Mapping[str, Any]:
    """Returns settings, given as a mapping, its YAML text, or the name of a file with that text."""
    if isinstance(value, str):
        if "{" not in value and ":" not in value:  # It names a file.
            value = read_bounded(find_recorded_file(value, *folders))
        return read_yaml(value, origin)
    if not isinstance(value or {}, Mapping):
        raise UserError(
            f"{origin}: expected a mapping, got {shorten(value)}.", code="bad_configuration"
        )
    return value or {}


def _segmenting_model(
    tokenization: Mapping[str, Any], origin: str, folders: Sequence[Path]
) -> Path | None:
    """Returns the SentencePiece model of a tokenisation; None = text is segmented already."""
    parameters = tokenization
    if "type" in tokenization:
        parameters = _settings(tokenization.get("params"), f"{origin}: params", folders)
    kind = tokenization.get("type", "OpenNMTTokenizer" if parameters else "SpaceTokenizer")
    name = parameters.get("model", parameters.get("sp_model_path"))
    if name and (kind == "SentencePieceTokenizer" or parameters.get("mode") == "none"):
        return find_recorded_file(name, *folders)
    if kind != "SpaceTokenizer":
        raise UserError(
            f"{origin}: expected SentencePiece, got the type {shorten(kind)}. Tokenise text before "
            f"translating it, and import with --vocabulary=source.vocab,target.vocab.",
            code="not_supported",
        )
    return None


def _read_pieces(path: Path) -> list[str]:
    """Returns the words of a vocabulary in the order of our ids."""
    # Not `splitlines`: words may contain some of its separators.
    words = read_text(path).removesuffix("\n").split("\n")
    if words[:_FIRST_WORD] != _SPECIAL:
        raise UserError(
            f"{path}: expected {', '.join(_SPECIAL)} as the first lines of a vocabulary of "
            f"OpenNMT-tf, got {', '.join(words[:_FIRST_WORD])!r}.",
            code="not_a_vocabulary",
        )
    return [_SPECIAL[_PADDING], _SPECIAL[_END], "<unk>", _SPECIAL[_BEGIN], *words[_FIRST_WORD:]]


def _embeddings(
    weights: dict[str, np.ndarray],
    keys: Mapping[str, str],
    files: Sequence[Path],
    pieces: Sequence[Sequence[str]],
    hparams: dict[str, Any],
) -> dict[str, np.ndarray]:
    """Removes the embeddings from the weights, and returns them by our names.

    Also sets `share_embeddings` and the sizes in `hparams`.
    """
    table_keys = [keys.get(name, "") for name in _TABLES]
    text = "The checkpoint lacks embeddings of a Transformer of OpenNMT-tf 2"
    with translated_errors(KeyError, text, code="missing_weight"):
        source, target, projection = (weights[name] for name in table_keys)
    for name in set(table_keys):
        del weights[name]
    for file, table, words in zip(files, (source, target), pieces, strict=True):
        check_size(len(table), words, file, "the checkpoint", 1)
    bias = weights.pop(_BIAS, None)
    hparams |= {"d_model": source.shape[1], "softmax_bias": bias is not None}
    tied = table_keys[1] == table_keys[2]
    hparams["share_embeddings"], our_weights = embedding_weights(
        _in_our_order(source),
        _in_our_order(target),
        _in_our_order(target if tied else projection.T),
        None if bias is None else _in_our_order(bias),
        same_inputs=table_keys[0] == table_keys[1],
        tied=tied,
    )
    return our_weights


def _in_our_order(rows: np.ndarray) -> np.ndarray:
    return rows[[_PADDING, _END, len(rows) - 1, _BEGIN, *range(_FIRST_WORD, len(rows) - 1)]]
