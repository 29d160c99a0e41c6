"""Models of Marian, OPUS-MT's among them, as Hugging Face's folders."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.interop.importers.imported import Imported, Settings
from t2t_keras.interop.importers.tensors import read_weights
from t2t_keras.interop.importers.vocabularies import listed_pieces
from t2t_keras.interop.importers.weights import (
    IdOrder,
    equal_embeddings,
    pieces_by_id,
    pytorch_names,
)
from t2t_keras.io.files import read_json
from t2t_keras.layers.embedding import sinusoids

_ACTIVATIONS = {"gelu": "gelu", "swish": "silu", "silu": "silu", "relu": "relu"}
_SHARED = "model.shared.weight"
_SOURCE, _TARGET, _PROJECTION = (
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
_NAMES = pytorch_names("model.{side}", {})
_ADVICE = "Hugging Face's folders have it."
# Published models have them as float16.
_MOST_ROUNDING = 1e-3


def read_huggingface(model: str | Path) -> Imported:
    """Reads a `MarianMTModel` in Hugging Face's form.

    Args:
      model: the folder, with config.json, model.safetensors or pytorch_model.bin, source.spm,
        target.spm and vocab.json; and target_vocab.json, if the target has ids of its own.

    Raises:
      UserError: a file is missing or damaged, would run code, or the model computes something that
        has no counterpart here, which is named.
    """
    folder = Path(model)
    settings = Settings(read_json(folder / "config.json", _ADVICE), str(folder / "config.json"))
    hparams = hyperparameters(settings)
    one_vocabulary = settings.get("share_encoder_decoder_embeddings", True)
    weights = read_weights(folder, "model.safetensors", "pytorch_model.bin")
    source, target, projection = _tables(weights, settings, folder)
    file = "vocab.json" if one_vocabulary else "target_vocab.json"
    target_order = _order(folder / file, len(target), settings)
    # Decoding starts with padding: zeros, until the model is trained further with tied matrices.
    settings.only("decoder_start_token_id", target_order.padding)
    if np.any(target[target_order.padding]):
        target_order = dataclasses.replace(target_order, start=True)
        hparams["start_id"] = len(target_order.our_pieces) - 1
    source_order = target_order
    if not one_vocabulary:
        source_order = _order(folder / "vocab.json", len(source), settings)
    bias = weights.pop("final_logits_bias", None)
    hparams["share_embeddings"], found = equal_embeddings(
        (source_order, target_order), source, target, projection, bias, one_vocabulary
    )
    for side in ("encoder", "decoder"):
        name = f"model.{side}.embed_positions.weight"
        if name in weights:
            _check_positions(weights.pop(name), name, folder)
    found |= _NAMES.weights(weights, folder)
    models = [folder / "source.spm", folder / "target.spm"]
    pieces = source_order.our_pieces, target_order.our_pieces
    return Imported(hparams, found, listed_pieces(*pieces, models, folder))


def hyperparameters(settings: Settings) -> dict[str, Any]:
    """Returns what the settings of a `MarianMTModel` are called here.

    Raises:
      UserError: one that changes what the model computes cannot be represented.
    """
    settings.only("model_type", "marian")
    settings.only("static_position_embeddings", True)
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        settings.only(name, False)
    activation = settings.only("activation_function", *_ACTIVATIONS)
    for name in ("attention_heads", "ffn_dim"):
        settings.only(f"decoder_{name}", settings.get(f"encoder_{name}"))
    for side in ("encoder", "decoder"):
        settings.only(f"{side}_layerdrop", 0.0)
    return {
        "num_encoder_layers": settings.get("encoder_layers"),
        "num_decoder_layers": settings.get("decoder_layers"),
        "d_model": settings.get("d_model"),
        "d_ff": settings.get("encoder_ffn_dim"),
        "num_heads": settings.get("encoder_attention_heads"),
        "dropout": settings.get("dropout", 0.1),
        "attention_dropout": settings.get("attention_dropout", 0.0),
        "relu_dropout": settings.get("activation_dropout", 0.0),
        "activation": _ACTIVATIONS[activation],
        "attention_bias": True,
        "softmax_bias": True,
        "norm_epsilon": 1e-5,
        "sinusoids": "concatenated",
        "scale_embedding": bool(settings.get("scale_embedding", False)),
    }


def _tables(
    weights: dict[str, np.ndarray], settings: Settings, folder: Path
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes the embeddings of source and target and the projection out of the weights."""
    tied = settings.get("tie_word_embeddings", True)
    shared = weights.pop(_SHARED, None)
    source, target, projection = (
        weights.pop(name, shared) for name in (_SOURCE, _TARGET, _PROJECTION)
    )
    if tied and settings.get("share_encoder_decoder_embeddings", True) and shared is not None:
        return shared, shared, shared
    if tied:
        projection = target
    if source is None or target is None or projection is None:
        missing = _SOURCE if source is None else _TARGET if target is None else _PROJECTION
        raise UserError(
            f"{folder}: expected the weight {missing}, or {_SHARED}.", code="missing_weight"
        )
    return source, target, projection


def _order(path: Path, size: int, settings: Settings) -> IdOrder:
    ids = read_json(path, _ADVICE)
    pieces: list[str] = pieces_by_id(ids, str(path))
    unknown: Any = ids.get("<unk>")
    end, padding = (settings.get(f"{name}_token_id") for name in ("eos", "pad"))
    if len(pieces) != size or not all(
        isinstance(i, int) and i in range(size) for i in (end, unknown, padding)
    ):
        raise UserError(
            f"{path}: expected {size:,} pieces, as the model has, and ids of end, <unk> and "
            f"padding among them; got {len(pieces):,}, and {end}, {unknown} and {padding}.",
            code="other_vocabulary",
        )
    return IdOrder(pieces, end, unknown, padding)


def _check_positions(value: np.ndarray, name: str, folder: Path) -> None:
    expected = sinusoids(np.arange(len(value)), value.shape[1], "concatenated")
    if np.abs(value - expected).max() > _MOST_ROUNDING:
        raise UserError(f"{folder}: {name} is trained: expected sinusoids.", code="not_supported")
