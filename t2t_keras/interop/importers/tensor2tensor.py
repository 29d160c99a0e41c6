"""Models of tensor2tensor: checkpoints of `transformer_*` sets, and subword vocabularies."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.interop.importers.files import read_tensorflow
from t2t_keras.interop.importers.imported import Imported, Settings
from t2t_keras.interop.importers.weights import WeightNames, embedding_weights
from t2t_keras.interop.tokenizers import SubwordTokenizer
from t2t_keras.io.files import read_bounded, read_json
from t2t_keras.text.tokenizer import Tokenizer

# Prefix of the model's weight names.
_MODEL = "transformer/"
_LAYER, _NORM = "{side}/layer_{layer}/{sublayer}", "layer_norm/layer_norm_{norm}"
_NAMES = WeightNames(
    [f"{_LAYER}/{{part}}/{{dense}}"],
    [f"{_LAYER}/layer_{place}process/{_NORM}" for place in ("prepost", "post")],
    {f"{{side}}/layer_prepostprocess/{_NORM}": "{side}_norm/{norm}"},
    sublayers=("self_attention", "encdec_attention", "ffn"),
    parts=(
        *(f"multihead_attention/{part}" for part in ("q", "k", "v", "output_transform")),
        *("conv1", "conv2"),
    ),
    norm=("scale", "bias"),
)
_SIDES = {"inputs": "source", "targets": "target"}
_POSITIONS = re.compile(r"(inputs|targets)_positional_embedding(?:/.*)?")
# Groups: scope (named after the size of its vocabulary), kind, number.
_SHARDS = re.compile(
    r"(symbol_modality_\d+_\d+(?:_\d+)?)/(shared|input_emb|target_emb|softmax)/weights_(\d+)"
)
_KINDS = ("input_emb", "target_emb")  # tables that are not shared: source, target
_SPACES = "target_space_embedding/kernel"


def read_tensor2tensor(
    model: str | Path, vocabulary: str | Path = "", target_space: int | None = None
) -> Imported:
    """Reads a model of tensor2tensor.

    Args:
      model: a directory with a checkpoint and hparams.json, or a checkpoint in such a directory.
      vocabulary: the `.subwords` file, or two comma-separated files (source, target); "" = the
        file in the directory with as many subwords as the model.
      target_space: tensor2tensor's `SpaceID` of the target, whose embedding some models add to the
        source; None = the space that was trained, by Adam's state in the checkpoint.

    Raises:
      UserError: a file is missing or damaged, or the model has a part that cannot be represented.
    """
    prefix, (weights, trained, steps) = read_tensorflow(
        Path(model), "tensor2tensor", _read_checkpoint
    )
    folder = prefix.parent
    path = folder / "hparams.json"
    hparams = hyperparameters(Settings(read_json(path, "tensor2tensor wrote it there."), str(path)))
    our_weights, layers, spaces = {}, {}, None
    shards: dict[tuple[str, str], dict[int, np.ndarray]] = {}
    for name, value in weights.items():
        short_name = name.removeprefix(_MODEL).removeprefix("body/")
        if match := _SHARDS.fullmatch(short_name):
            shards.setdefault((match[1], match[2]), {})[int(match[3])] = value
        elif short_name == _SPACES:
            spaces = value
        elif match := _POSITIONS.fullmatch(short_name):
            our_weights[f"{_SIDES[match[1]]}_positions/table"] = value
            hparams["max_positions"] = len(value)
        else:
            layers[short_name] = value
    our_weights |= _NAMES.weights(layers, model)
    files = [Path(name) for name in str(vocabulary).split(",") if name]
    tables = _tables(shards, files, model)
    our_weights |= _embeddings(tables, hparams, model)
    if spaces is not None:
        hparams["source_bias"] = True
        space = _pick_space(target_space, trained, len(spaces), model)
        our_weights["source_bias"] = spaces[space]
    source, target = (tables[side if side in tables else "shared"] for side in _KINDS)
    tokenizer = _find_vocabulary(folder, files, len(source), len(target))
    return Imported(hparams, our_weights, tokenizer, steps)


def _pick_space(space: int | None, trained: Sequence[int], count: int, model: str | Path) -> int:
    """Returns the number of the embedding that is added to the source."""
    if space is None and len(trained) == 1:
        print(f"{model} was trained for tensor2tensor's target space {trained[0]}.")
        return trained[0]
    if space is None or not 0 <= space < count:
        raise UserError(
            f"{model} adds an embedding of its target space: expected --target_space, "
            f"tensor2tensor's SpaceID from 0 to {count - 1}, got {space}. For translation it "
            f"is 0 since tensor2tensor 1.5.2; before, it is the target language's (German: 8).",
            code="bad_value",
        )
    return space


def hyperparameters(settings: Settings) -> dict[str, Any]:
    """Returns our hyperparameters for tensor2tensor's.

    Raises:
      UserError: a hyperparameter changes the computation and cannot be represented.
    """
    for name, *allowed in (
        ("self_attention_type", "dot_product"),
        ("ffn_layer", "dense_relu_dense", "conv_hidden_relu"),
        ("norm_type", "layer"),
        ("proximity_bias", False),
        ("symbol_modality_skip_top", False),
        ("input_modalities", "default"),
        ("target_modality", "default"),
        ("bottom", {}),
        ("top", {}),
        ("name", {}),
        ("vocab_divisor", 1),
        ("attention_variables_3d", False),
        ("prepend_mode", "none"),
        ("causal_decoder_self_attention", True),
        ("unidirectional_encoder", False),
        ("hard_attention_k", 0),
        ("gumbel_noise_weight", 0.0),
        ("num_area_layers", 0),
    ):
        settings.get_allowed(name, *allowed)
    sequences = (
        settings.get_required("layer_preprocess_sequence"),
        settings.get_required("layer_postprocess_sequence"),
    )
    if sequences not in _PRE_NORM:
        settings.get_allowed("layer_postprocess_sequence", *[after for _, after in _PRE_NORM])
        allowed_before = [before for before, after in _PRE_NORM if after == sequences[1]]
        settings.get_allowed("layer_preprocess_sequence", *allowed_before)
    heads = settings.get_required("num_heads")
    position = settings.get_allowed("pos", "timing", "none", "emb")
    learning_rate = 10 * settings.get("learning_rate", 0.1)
    if settings.get("learning_rate_schedule", "legacy") != "legacy":
        # Older versions have schedules without `learning_rate_constant`.
        learning_rate = settings.get("learning_rate_constant", learning_rate)
    hparams = {
        hparam: settings.get(name)
        for name, hparam in _HPARAMS.items()
        if settings.get(name) is not None
    }
    if position == "timing":
        hparams["sinusoids"] = "tensor2tensor"
    return hparams | {
        "d_k": (settings.get("attention_key_channels") or 0) // heads,
        "d_v": (settings.get("attention_value_channels") or 0) // heads,
        "pre_norm": _PRE_NORM[sequences],
        "positions": {"timing": "sinusoidal", "none": "none", "emb": "learned"}[position],
        "scale_embedding": settings.get("multiply_embedding_mode", "sqrt_depth") == "sqrt_depth",
        "learning_rate": float(learning_rate),
    }


_HPARAMS = {
    "num_hidden_layers": "num_layers",
    "num_encoder_layers": "num_encoder_layers",
    "num_decoder_layers": "num_decoder_layers",
    "hidden_size": "d_model",
    "filter_size": "d_ff",
    "num_heads": "num_heads",
    "layer_prepostprocess_dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "relu_dropout": "relu_dropout",
    "norm_epsilon": "norm_epsilon",
    "label_smoothing": "label_smoothing",
    "learning_rate_warmup_steps": "warmup_steps",
    "optimizer_adam_beta1": "adam_beta1",
    "optimizer_adam_beta2": "adam_beta2",
    "optimizer_adam_epsilon": "adam_epsilon",
    "max_length": "max_length",
}
# The keys are (layer_preprocess_sequence, layer_postprocess_sequence).
_PRE_NORM = {("none", "dan"): False, ("n", "da"): True}


def _tables(
    shards: Mapping[tuple[str, str], Mapping[int, np.ndarray]],
    vocabularies: Sequence[Path],
    model: str | Path,
) -> dict[str, np.ndarray]:
    """Returns the tables by kind; "shared" tables of two vocabularies become the two `_KINDS`."""
    tables: dict[str, dict[str, np.ndarray]] = {}
    for (scope, kind), parts in shards.items():
        table = np.concatenate([parts[i] for i in sorted(parts)])
        tables.setdefault(kind, {})[scope] = table
    shared = tables.get("shared", {})
    if len(shared) == 2:
        sizes = sorted(len(table) for table in shared.values())
        vocab_sizes = [_load_vocabulary(file).vocab_size for file in vocabularies]
        if sorted(vocab_sizes) != sizes:
            raise UserError(
                f"{model} has two vocabularies, of {sizes[0]:,} and {sizes[1]:,} subwords. Give "
                f"those of source and target as --vocabulary=SOURCE,TARGET; got "
                f"{' and '.join(f'{size:,}' for size in vocab_sizes) or 'none'}.",
                code="other_vocabulary",
            )
        del tables["shared"]
        for kind, size in zip(_KINDS, vocab_sizes, strict=True):
            tables[kind] = {scope: table for scope, table in shared.items() if len(table) == size}
    if several := [kind for kind, scopes in tables.items() if len(scopes) > 1]:
        raise UserError(
            f"{model} has {len(tables[several[0]])} tables of {several[0]}: expected one.",
            code="not_supported",
        )
    return {kind: table for kind, scopes in tables.items() for table in scopes.values()}


def _embeddings(
    tables: Mapping[str, np.ndarray], hparams: dict[str, Any], model: str | Path
) -> dict[str, np.ndarray]:
    """Returns the weights of embeddings and softmax, and sets `share_embeddings`."""
    kinds = set(tables) - {"softmax"}
    if kinds not in ({"shared"}, {*_KINDS}):
        raise UserError(
            f"{model}: expected shared embeddings, or those of source and target, got "
            f"{', '.join(sorted(tables)) or 'none'}.",
            code="missing_weight",
        )
    source, target = (tables[kind if kind in tables else "shared"] for kind in _KINDS)
    hparams["share_embeddings"], weights = embedding_weights(
        source,
        target,
        tables.get("softmax", target),
        same_inputs="shared" in tables,
        tied="softmax" not in tables,
    )
    return weights


def _find_vocabulary(
    folder: Path, files: Sequence[Path], source_size: int, target_size: int
) -> Tokenizer:
    if len(files) == 2:
        source, target = _find_match(files[:1], source_size), _find_match(files[1:], target_size)
        return target if source.model_bytes == target.model_bytes else target.with_source(source)
    files = files or sorted(folder.glob(f"*{SubwordTokenizer.suffix}*"))
    target = _find_match(files, target_size, f"in {folder}")
    if source_size == target_size:
        return target
    return target.with_source(_find_match(files, source_size, f"in {folder}"))


def _find_match(files: Sequence[Path], size: int, place: str = "") -> Tokenizer:
    """Returns the only vocabulary with as many subwords as the model."""
    candidates, sizes = [], []
    for file in files:
        tokenizer = _load_vocabulary(file)
        sizes.append(f"{file.name} has {tokenizer.vocab_size:,}")
        if tokenizer.vocab_size == size:
            candidates.append(tokenizer)
    if len(candidates) != 1:
        raise UserError(
            f"Expected one vocabulary of {size:,} subwords, as the model has: "
            f"{', '.join(sizes) or f'there is no .subwords file {place}'}. Name it with "
            f"--vocabulary, or two as --vocabulary=SOURCE,TARGET.",
            code="no_vocabulary",
        )
    return candidates[0]


def _load_vocabulary(file: Path) -> Tokenizer:
    # Names may have other endings, such as "vocab.enzh-zh.32768" or "....subwords.zh".
    return SubwordTokenizer(read_bounded(file), origin=f"The vocabulary {file}")


def _read_checkpoint(reader: Any) -> tuple[dict[str, np.ndarray], list[int], int]:
    """Returns the weights by name, the trained target spaces, and the number of steps."""
    names = list(reader.get_variable_to_shape_map())
    weights = {
        name: reader.get_tensor(name)
        for name in names
        if name.startswith(_MODEL) and not _OPTIMIZER_STATE.search(name)
    }
    if not weights:
        raise ValueError(f"no weight's name starts with {_MODEL}")
    means = [reader.get_tensor(name) for name in names if name.endswith(f"{_SPACES}/Adam")]
    # The mean gradient of an unused space stays 0.
    trained = np.flatnonzero(np.any(means[0], axis=1)).tolist() if means else []
    steps = reader.get_tensor("global_step") if reader.has_tensor("global_step") else 0
    return weights, trained, int(steps)


# Optimizers name their variables after the weights, with these endings.
_OPTIMIZER_STATE = re.compile(r"/(Adam|Adam_1|Momentum|vr|vc|ExponentialMovingAverage)$")
